"""Tokens of Google by application default credentials, with the library `google-auth`."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC
from typing import Any, Final

from dragoman_server.config.provider import Secret
from dragoman_server.credentials.credential import Grant, SourceError, token_of
from dragoman_server.credentials.daemon_thread import DaemonThread

_DEFAULT_LIFE: Final = 3000.0
"""Seconds for which a token is used that has no expiry."""


class GoogleToken:
    """Fetches a token for `scope`. `now` returns Unix seconds."""

    def __init__(self, scope: str, *, now: Callable[[], float] = time.time) -> None:
        self._scope = scope
        self._now = now
        self._thread: DaemonThread[Any] = DaemonThread("google-auth")
        self._credentials: Any = None

    async def fetch(self) -> Grant[Secret]:
        """Return a new token. Raises SourceError."""
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

        try:
            token, expiry = await self._thread.call(self._refresh)
        except DefaultCredentialsError:
            cure = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
            raise SourceError(f"Google's application default credentials were not found or are wrong: {cure}") from None
        except GoogleAuthError as error:
            # Its message may quote the response of the token's endpoint.
            message = f"google-auth gave no token ({type(error).__name__}): check the network and the account"
            raise SourceError(message) from None
        seconds = expiry.replace(tzinfo=UTC).timestamp() - self._now() if expiry is not None else _DEFAULT_LIFE
        return Grant(token_of(token or "", "the token of google-auth"), seconds)

    def _refresh(self) -> tuple[str, Any]:
        import google.auth
        from google.auth.transport.requests import Request

        if self._credentials is None:
            self._credentials, _ = google.auth.default(scopes=[self._scope])
        self._credentials.refresh(Request())
        return self._credentials.token, self._credentials.expiry
