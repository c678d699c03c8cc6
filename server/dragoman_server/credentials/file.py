"""A token in a file that another program replaces: `[providers.NAME.credential]` with `file`."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from dragoman_server.config.provider import Secret
from dragoman_server.config.secret_file import SecretFileError, read_secret
from dragoman_server.credentials.credential import Grant, SourceError, token_of

LOOK: Final = 1.0
"""Seconds after which the file is read again, if there are requests."""


class FileToken:
    """Reads the token in a file. As long as the file has the same token, the same object is returned."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._token: Secret | None = None

    async def fetch(self) -> Grant[Secret]:
        """Return the token in the file. Raises SourceError."""
        try:
            text = await asyncio.to_thread(read_secret, self._path)
        except SecretFileError as error:
            raise SourceError(f"{self._path}: {error}") from None
        token = token_of(text, f"the content of {self._path}")
        if self._token is None or token != self._token:
            self._token = token
        return Grant(self._token, LOOK)
