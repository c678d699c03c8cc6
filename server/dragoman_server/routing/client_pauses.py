"""The pauses of single clients at one provider, whose failures may be caused by what they send.

A failure counts for its conversation, for its client and for the provider (`CircuitBreaker.failed`), and each of them
pauses by itself. So a client whose requests fail pauses alone as long as those of others are not known to fail.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import takewhile

from dragoman_server.routing.circuit_breaker import CircuitBreaker

Party = tuple[bytes, ...]
"""The client of a request, and its conversation: the digest of its key, if it has one, and that of both.

It may be empty."""
Place = tuple[str, str]
"""A key of a provider, and a model there."""
KEPT = 120.0
"""Seconds after the last failure of a client, or after its pause, for which it is known."""
_MOST = 1000
"""Most clients and conversations with failures, and most places with pauses, as clients choose their number."""


def party_of(owner: bytes, conversation: bytes | None) -> Party:
    """Return the party of a client with the key's digest `owner` (empty without keys) in a conversation."""
    if not conversation:
        return (owner,) if owner else ()
    return (owner, owner + conversation) if owner else (conversation,)  # two clients may begin with the same words


class ClientPauses:
    """The pauses of clients at one provider. `create` returns a new breaker, `clock` seconds from any origin."""

    __slots__ = ("_breakers", "_clock", "_cooled", "_create")

    def __init__(self, create: Callable[[], CircuitBreaker], clock: Callable[[], float]) -> None:
        self._create = create
        self._clock = clock
        self._breakers: OrderedDict[bytes, tuple[CircuitBreaker, float]] = OrderedDict()
        """The breaker of each client and conversation, and until when it is known; the earliest failure first."""
        self._cooled: dict[Place, tuple[float, bool, Party]] = {}

    def __len__(self) -> int:
        return len(self._breakers) + len(self._cooled)

    @property
    def open(self) -> bool:
        """True if a client or a conversation pauses, or has to be tested."""
        return any(breaker.open for breaker, _ in self._breakers.values())

    def breakers(self) -> Iterable[CircuitBreaker]:
        """Return the breakers of all clients."""
        return [breaker for breaker, _ in self._breakers.values()]

    def of(self, party: Party) -> list[CircuitBreaker]:
        """Return the breakers of a party: none if its requests have not failed."""
        return [self._breakers[each][0] for each in party if each in self._breakers]

    def failed(self, party: Party, hold: float) -> bool:
        """Count a failure. Return True if it begins a pause. With `hold` the client pauses at least so long."""
        self._forget()
        opened = False
        for index, each in enumerate(party):
            breaker = self._breakers.pop(each, None)
            found = breaker[0] if breaker is not None else self._create()
            opened |= found.failed(*party[index + 1 : index + 2])
            if hold and not index and not found.open:
                opened = found.hold(hold)
            self._breakers[each] = found, max(found.until, self._clock()) + KEPT
        while len(self._breakers) > _MOST:
            self._breakers.popitem(last=False)
        return opened

    def succeeded(self, party: Party) -> bool:
        """Forget the failures of a party. Return True if a pause ends with this."""
        found = [self._breakers.pop(each, None) for each in party]
        return self._forget() or any(each is not None and each[0].open for each in found)

    def _forget(self) -> bool:
        """Forget old failures. Return True if one of their breakers was open."""
        now = self._clock()
        old = list(takewhile(lambda item: item[1][1] < now, self._breakers.items()))
        for each, _ in old:
            del self._breakers[each]
        return any(breaker.open for _, (breaker, _) in old)

    # --- pauses that a provider requests -----------------------------------------------------------------------------

    def cool(self, place: Place, seconds: float, *, requested: bool, party: Party) -> bool:
        """Let a party pause at a place. Return True if others pause there already: then all have to.

        If other conversations of the same client pause there, the client does.
        """
        now = self._clock()
        until, before, scope = self._cooled.pop(place, (0.0, False, party))
        if until <= now:
            until, before, scope = 0.0, False, party
        scope = tuple(one for one, other in takewhile(lambda pair: pair[0] == pair[1], zip(scope, party, strict=False)))
        if not scope:
            return True
        while len(self._cooled) >= _MOST:
            del self._cooled[next(iter(self._cooled))]
        self._cooled[place] = max(until, now + seconds), requested or before, scope
        return False

    def pause(self, place: Place, party: Party) -> tuple[float, bool]:
        """Return the seconds for which a party pauses at a place, and whether the provider has requested that."""
        found = self._cooled.get(place)
        if found is None:
            return 0.0, False
        until, requested, scope = found
        left = until - self._clock()
        if left <= 0.0:
            del self._cooled[place]
        elif scope == party[: len(scope)]:
            return left, requested
        return 0.0, False
