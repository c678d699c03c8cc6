"""Credentials, the interface of their sources, and the errors of a source without one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Generic, Protocol, TypeVar

from dragoman.aio import UpstreamRequest
from dragoman.errors import Failure, FailureKind, UpstreamError
from dragoman_server.config.provider import Secret

REASON = "credential"
"""The `reason` of the failure of a `CredentialError`."""
_RETRY_AFTER = "5"
_TOKEN = re.compile(r"[!-~]+")

G = TypeVar("G")
"""The type of a credential: a token, or the keys that requests are signed with."""


class CredentialError(UpstreamError):
    """A provider's credential could not be fetched: 503. The message names the setting and the cure, and no secret."""

    def __init__(self, message: str) -> None:
        headers = {"retry-after": _RETRY_AFTER}
        code = "credential_unavailable"
        super().__init__(Failure(FailureKind.OVERLOADED, message, 503, code=code, reason=REASON, headers=headers))


class SourceError(Exception):
    """A source has no credential. The message names the failure and the cure, and has no secret."""


@dataclass(frozen=True, slots=True)
class Grant(Generic[G]):
    """A credential, and the seconds for which it is valid from the moment it was requested."""

    value: G = field(repr=False)
    seconds: float = inf


class Source(Protocol[G]):
    """The source of a credential. It also puts the credential into requests."""

    refusals: frozenset[int]
    """The statuses by which an upstream refuses a credential that has expired."""

    async def fetch(self, *, refused: bool) -> Grant[G]:
        """Return a credential; the same object as before if it has not changed. Raises SourceError.

        `refused` is True if the upstream has refused the last one, so that no copy of it may be returned.
        """
        ...

    async def authorized(self, request: UpstreamRequest, value: G) -> UpstreamRequest:
        """Return the request with the credential."""
        ...

    def secrets(self, value: G) -> Sequence[str]:
        """Return the texts of a credential that no log and no error may have."""
        ...


class TokenFetch(Protocol):
    """Fetches a token. `FileToken` is one, for instance."""

    async def fetch(self) -> Grant[Secret]:
        """Return the token, the same object as before if it has not changed. Raises SourceError."""
        ...


class TokenSource:
    """A source of tokens that are sent in a header. `header` is a word of `AUTH_HEADERS`."""

    refusals: frozenset[int] = frozenset((401,))

    def __init__(self, tokens: TokenFetch, header: str) -> None:
        self._tokens = tokens
        self._header = header

    async def fetch(self, *, refused: bool) -> Grant[Secret]:
        """Return the token. Raises SourceError."""
        return await self._tokens.fetch()

    async def authorized(self, request: UpstreamRequest, value: Secret) -> UpstreamRequest:
        """Return the request with the token in its header."""
        return replace(request, headers={**request.headers, **key_header(self._header, value.reveal())})

    def secrets(self, value: Secret) -> Sequence[str]:
        """Return the token."""
        return (value.reveal(),)


def key_header(word: str, key: str) -> dict[str, str]:
    """Return the header for a key. `word` is one of `AUTH_HEADERS`."""
    return {"authorization": f"Bearer {key}"} if word == "bearer" else {word: key}


def token_of(text: str, what: str) -> Secret:
    """Return a token without white space around it. `what` names its place for the error.

    Raises SourceError for a text that a header cannot carry.
    """
    token = text.strip()
    if not token:
        raise SourceError(f"{what} is empty")
    if not _TOKEN.fullmatch(token):
        raise SourceError(f"{what} is no token: it has white space or other characters that a header cannot carry")
    return Secret(token)
