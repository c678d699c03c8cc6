"""The providers that issued responses: a request that continues one must go there, as no other provider knows it.

Upstreams of the Responses API store responses themselves unless the gateway does. What is known here is in memory of
one process, and ends with it. With a store, other processes know it too (`docs/explanation/shared-bounds.md`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from dragoman_server.routing.plan import Candidate

RESPONSES_MAX: Final = 50_000
"""Most responses and conversations that are known, of 400 to 650 bytes each: beyond it, the client that used none for
longest loses one."""
ELSEWHERE: Final = (
    "If a provider stores it, only the process that created it knows which one: configure [store], so that all "
    "processes know it"
)
"""The advice in errors about a response or conversation whose issuer another process may know."""
_SHARE: Final = 4
"""The part of them that one client may have: a fourth. Its own that was unused for longest is forgotten."""
_DIGEST: Final = 16
_OWNER_MAX: Final = 64


class Issuer(NamedTuple):
    """A provider, by its name and its base URL, and the one of its keys that was used (`Candidate.key`)."""

    provider: str
    base_url: str
    key: str


class ContinuedObject(NamedTuple):
    """The response or conversation that a request continues: the field of the request, and the id."""

    field: str
    id: str


def issuer_of(candidate: Candidate) -> Issuer:
    """Return the issuer of the responses that a candidate creates."""
    provider = candidate.provider
    return Issuer(provider.name, provider.base_url, candidate.key)


class SharedIssuers(Protocol):
    """The issuers that processes share. A store that fails keeps and finds nothing."""

    async def keep_issuer(self, owner: bytes, response: bytes, issuer: Issuer) -> None:
        """Keep the issuer of a response or conversation, by the digest of its id."""
        ...

    async def find_issuer(self, owner: bytes, response: bytes) -> Issuer | None:
        """Return the issuer of a response or conversation; None if it is not known."""
        ...


class ResponseIssuers:
    """The issuers of the last responses and conversations, by the digest of the client's key and of their id.

    `limit` is the most that are known.
    """

    def __init__(self, limit: int = RESPONSES_MAX) -> None:
        self._limit = limit
        self._known: OrderedDict[bytes, OrderedDict[bytes, Issuer]] = OrderedDict()
        """By owner."""
        self._size = 0
        self.shared: SharedIssuers | None = None
        """The issuers that other processes know; None without a store."""

    def __len__(self) -> int:
        return self._size

    def add(self, owner: bytes, given: str, issuer: Issuer) -> None:
        """Keep the issuer of the response or conversation with the id `given`, for the client `owner` only."""
        own = self._known.setdefault(owner, OrderedDict())
        self._known.move_to_end(owner)
        before = len(own)
        digest = response_digest(owner, given)
        own[digest] = issuer
        own.move_to_end(digest)
        self._size += len(own) - before
        if owner and len(own) > self._limit // _SHARE:  # without keys, all clients have the same owner
            own.popitem(last=False)
            self._size -= 1
        elif self._size > self._limit:
            first, idle = next(iter(self._known.items()))
            idle.popitem(last=False)
            self._size -= 1
            if not idle:
                del self._known[first]

    def find(self, owner: bytes, given: str) -> Issuer | None:
        """Return the issuer of a response or conversation, or None if it is not known for this client."""
        own = self._known.get(owner)
        if own is None or (issuer := own.get(digest := response_digest(owner, given))) is None:
            return None
        own.move_to_end(digest)
        self._known.move_to_end(owner)
        return issuer

    async def look_up(self, owner: bytes, given: str) -> Issuer | None:
        """Return the issuer of a response or conversation, also if only another process knows it."""
        issuer = self.find(owner, given)
        if issuer is None and self.shared is not None:
            issuer = await self.shared.find_issuer(owner, response_digest(owner, given))
            if issuer is not None:
                self.add(owner, given, issuer)
        return issuer

    async def share(self, owner: bytes, given: str, issuer: Issuer) -> None:
        """Let other processes know the issuer of a response or conversation."""
        if self.shared is not None:
            await self.shared.keep_issuer(owner, response_digest(owner, given), issuer)

    def eligible(self, ranking: list[Candidate], owner: bytes, payload: Mapping[str, object]) -> list[Candidate]:
        """Return the candidates that may get a Responses request: those of the issuer of what it continues.

        The key that was used comes first. All candidates are returned, in their order, if the request continues
        nothing, if the issuer is not known, and if it is not among them.
        """
        continued = continued_by(payload)
        issuer = self.find(owner, continued.id) if continued is not None else None
        if issuer is None:
            return ranking
        found = [each for each in ranking if issuer_of(each)[:2] == issuer[:2]]
        found.sort(key=lambda each: each.key != issuer.key)
        return found or ranking

    def expect(self, owner: bytes, payload: Mapping[str, object], candidate: Candidate) -> ExpectedResponse | None:
        """Return the response that a Responses request is to create at a candidate; None if it is not to be stored."""
        if payload.get("store") is False:
            return None
        expected = ExpectedResponse(self, owner, _conversation(payload), issuer_of(candidate))
        expected.background = payload.get("background") is True
        return expected


class ExpectedResponse:
    """The response that one request is to create. `issuer` is that of the present attempt."""

    __slots__ = ("_conversation", "_issuers", "_owner", "background", "issuer")

    def __init__(self, issuers: ResponseIssuers, owner: bytes, conversation: str | None, issuer: Issuer) -> None:
        self._issuers = issuers
        self._owner = owner
        self._conversation = conversation
        self.issuer = issuer
        self.background = False
        """True if the upstream is to run it in the background by itself."""

    def issued(self, response_id: str | None) -> Awaitable[None] | None:
        """Keep the issuer of the response, and of the conversation that it is in. None: its reply was translated.

        Return what to await before the client learns the id, if other processes are to know it.
        """
        if response_id is None:
            return None
        known = (response_id,) if self._conversation is None else (response_id, self._conversation)
        for given in known:
            self._issuers.add(self._owner, given, self.issuer)
        return self._share(known) if self._issuers.shared is not None else None

    async def _share(self, known: tuple[str, ...]) -> None:
        for given in known:
            await self._issuers.share(self._owner, given, self.issuer)


def continued_by(payload: Mapping[str, object]) -> ContinuedObject | None:
    """Return the response or conversation that a request continues, or None."""
    given = payload.get("previous_response_id")
    if given is None:
        conversation = _conversation(payload)
        return ContinuedObject("conversation", conversation) if conversation is not None else None
    return ContinuedObject("previous_response_id", given) if type(given) is str else None


def _conversation(payload: Mapping[str, object]) -> str | None:
    """Return the id of the conversation that a request names, or None."""
    given = payload.get("conversation")
    if isinstance(given, Mapping):
        given = given.get("id")
    return given if type(given) is str else None


def response_digest(owner: bytes, given: str) -> bytes:
    """Return what stands for the id of a response of a client."""
    return blake2b(given.encode(errors="replace"), digest_size=_DIGEST, key=owner[:_OWNER_MAX]).digest()
