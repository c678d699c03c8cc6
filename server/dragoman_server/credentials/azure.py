"""Tokens of Microsoft Entra by the default credential of the library `azure-identity`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dragoman_server.config.provider import Secret
from dragoman_server.credentials.credential import Grant, SourceError, token_of
from dragoman_server.credentials.daemon_thread import DaemonThread


class AzureToken:
    """Fetches a token for `scope`. `now` returns Unix seconds."""

    def __init__(self, scope: str, *, now: Callable[[], float] = time.time) -> None:
        self._scope = scope
        self._now = now
        self._thread: DaemonThread[Any] = DaemonThread("azure-identity")

    async def fetch(self) -> Grant[Secret]:
        """Return a new token. Raises SourceError."""
        from azure.core.exceptions import AzureError

        try:
            found = await self._thread.call(self._get)
        except AzureError as error:
            # Its message lists what each credential was refused with.
            cure = "run `az login`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
            raise SourceError(f"azure-identity gave no token ({type(error).__name__}): {cure}") from None
        return Grant(token_of(found.token, "the token of azure-identity"), found.expires_on - self._now())

    def _get(self) -> Any:
        from azure.identity import DefaultAzureCredential

        # A new object each time: it keeps tokens, also one that the upstream has refused.
        with DefaultAzureCredential() as credential:
            return credential.get_token(self._scope)
