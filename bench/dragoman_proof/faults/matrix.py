"""The cases of a part of the matrix: each fault at each position of each recorded stream of an upstream."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from dragoman import Dialect
from dragoman_proof.faults.kinds import CLIENT, UPSTREAM, Case
from dragoman_proof.faults.recording import Recording, recordings

TRANSPORTS: Final = ("raw", "aiohttp")
"""The gateway's transports to upstreams."""


@dataclass(frozen=True, slots=True)
class Part:
    """The cases of one direction over one transport. `sample` is the largest number of them; 0 = all."""

    client: Dialect
    upstream: Dialect
    transport: str = "raw"
    sample: int = 0
    seed: int = 1

    def __str__(self) -> str:
        return f"{self.client}-{self.upstream} over {self.transport}"

    def cases(self) -> list[Case]:
        """Return the cases, first the sound streams, which the others are compared with."""
        chance = random.Random(f"{self} {self.seed}")
        found = [*enumerate_cases(recordings(self.upstream), chance)]
        sound = [case for case in found if case[1] == "none"]
        broken = [case for case in found if case[1] != "none"]
        if self.sample:
            chance.shuffle(broken)
            broken = broken[: max(0, self.sample - len(sound))]
        return [Case(number, *each, chance.randrange(2**32)) for number, each in enumerate((*sound, *broken))]


def enumerate_cases(streams: list[Recording], chance: random.Random) -> Iterator[tuple[Recording, str, int]]:
    """Yield stream, fault and byte: at each end of an event, and at a byte within each event."""
    for stream in streams:
        ends = (0, *stream.ends)
        within = [chance.randrange(start + 1, end) for start, end in pairwise(ends)]
        for name, kind in UPSTREAM.items():
            if kind.head:
                yield from ((stream, name, at) for at in ((0,) if name == "none" else range(5)))
            else:
                yield from ((stream, name, at) for at in (ends if kind.between else (*ends, *within)))
        for name in CLIENT:
            yield from ((stream, name, at) for at in (*ends, *within))
