"""The cases of a part of the matrix: each fault at each position of each recorded stream of an upstream."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from dragoman import Dialect
from dragoman_proof.faults.kinds import CLIENT, UPSTREAM, WEBSOCKET, Case
from dragoman_proof.faults.recording import Recording, recordings

TRANSPORTS: Final = ("raw", "aiohttp")
"""The gateway's transports to upstreams."""
HTTP: Final = "http"
SOCKET: Final = "websocket"
FOLLOWED: Final = "followed"
"""The client leaves its stream, and follows the response at another gateway with the same store."""
WAYS: Final = {HTTP: (), SOCKET: (Dialect.RESPONSES,), FOLLOWED: (Dialect.RESPONSES,)}
"""Ways of a client to its stream → the dialects that have it; all for none."""
_CLIENT_KINDS: Final = {HTTP: CLIENT, SOCKET: (*CLIENT, *WEBSOCKET), FOLLOWED: ()}


@dataclass(frozen=True, slots=True)
class Part:
    """The cases of one direction over one transport. `sample` is the largest number of them; 0 = all."""

    client: Dialect
    upstream: Dialect
    transport: str = "raw"
    sample: int = 0
    seed: int = 1
    way: str = HTTP

    def __str__(self) -> str:
        way = "" if self.way == HTTP else f", {self.way}"
        return f"{self.client}-{self.upstream} over {self.transport}{way}"

    def cases(self) -> list[Case]:
        """Return the cases, first the sound streams, which the others are compared with."""
        chance = random.Random(f"{self} {self.seed}")
        found = [*enumerate_cases(self._recordings(), chance, _CLIENT_KINDS[self.way])]
        sound = [case for case in found if case[1] == "none"]
        broken = [case for case in found if case[1] != "none"]
        if self.sample:
            chance.shuffle(broken)
            broken = broken[: max(0, self.sample - len(sound))]
        return [Case(number, *each, chance.randrange(2**32)) for number, each in enumerate((*sound, *broken))]

    def _recordings(self) -> list[Recording]:
        found = recordings(self.upstream)
        return [each.with_place_of_number() for each in found] if self.way == FOLLOWED else found


def enumerate_cases(
    streams: list[Recording], chance: random.Random, client_kinds: Sequence[str] = CLIENT
) -> Iterator[tuple[Recording, str, int]]:
    """Yield stream, fault and byte: at each end of an event, and at a byte within each event."""
    for stream in streams:
        ends = (0, *stream.ends)
        within = [chance.randrange(start + 1, end) for start, end in pairwise(ends)]
        for name, kind in UPSTREAM.items():
            if kind.head:
                yield from ((stream, name, at) for at in ((0,) if name == "none" else range(5)))
            else:
                yield from ((stream, name, at) for at in (ends if kind.between else (*ends, *within)))
        for name in client_kinds:
            yield from ((stream, name, at) for at in (*ends, *within))
