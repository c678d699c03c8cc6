"""Requests that are signed for AWS (Signature Version 4), with keys and signer of the library `botocore`.

Profiles, roles, single sign-on and web identities are botocore's: it finds them as AWS' own tools do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from dragoman.aio import UpstreamRequest
from dragoman_server.config.aws_host import AwsHost
from dragoman_server.credentials.credential import Grant, SourceError
from dragoman_server.credentials.daemon_thread import DaemonThread

_LOOK: Final = 60.0
"""Seconds after which botocore is asked again: it renews its keys by itself, and only when they are requested."""
_LONG: Final = 256 * 1024
"""Bytes from which on a body is hashed in a thread."""


class AwsSource:
    """Signs requests for a service in a region, with the keys of a profile; None for the default."""

    refusals: frozenset[int] = frozenset((401, 403))  # AWS refuses an expired token with 403

    def __init__(self, place: AwsHost, profile: str | None = None) -> None:
        self._place = place
        self._profile = profile
        self._thread: DaemonThread[Any] = DaemonThread("botocore")
        self._credentials: Any = None
        self._last: Any = None

    async def fetch(self, *, refused: bool) -> Grant[Any]:
        """Return botocore's `ReadOnlyCredentials`. Raises SourceError."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        if refused:
            self._credentials = None  # botocore must not return the keys that it keeps
        try:
            found = await self._thread.call(self._frozen)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            cure = "check the profile, the role and the network, with `aws sts get-caller-identity`"
            raise SourceError(f"botocore gave no keys ({type(error).__name__}): {cure}") from None
        if found is None:
            raise SourceError("botocore found no keys: set a profile, AWS_ACCESS_KEY_ID or a role")
        if found == self._last:
            found = self._last  # the same object: nothing has changed
        self._last = found
        return Grant(found, _LOOK)

    def _frozen(self) -> Any:
        """Return the keys, which botocore renews by itself."""
        import botocore.session

        if self._credentials is None:
            self._credentials = botocore.session.Session(profile=self._profile).get_credentials()
        return None if self._credentials is None else self._credentials.get_frozen_credentials()

    async def authorized(self, request: UpstreamRequest, value: Any) -> UpstreamRequest:
        """Return the request with the headers of its signature, over the body and the headers that are sent."""
        if len(request.body) > _LONG:
            headers = await asyncio.to_thread(self._signed, request, value)
        else:
            headers = self._signed(request, value)
        return replace(request, headers=headers)

    def _signed(self, request: UpstreamRequest, keys: Any) -> dict[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        signed = AWSRequest(request.method, request.url, headers=dict(request.headers), data=request.body)
        SigV4Auth(keys, self._place.service, self._place.region).add_auth(signed)
        return {name.lower(): value for name, value in signed.headers.items()}

    def secrets(self, value: Any) -> Sequence[str]:
        """Return the secret key and the session's token."""
        return tuple(filter(None, (value.secret_key, value.token)))
