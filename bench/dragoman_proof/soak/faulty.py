"""Upstreams that break streams, one for each direction, and the cases that they play again and again."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import overload

from dragoman import Dialect
from dragoman.gateway import CLIENT_DIALECTS
from dragoman_proof.faults.kinds import Case
from dragoman_proof.faults.matrix import Part
from dragoman_proof.faults.upstream import Upstream, serving


class Cycle(Sequence[Case]):
    """Cases without an end: the number of a case is that of its request."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases

    def __len__(self) -> int:
        return len(self._cases)

    @overload
    def __getitem__(self, number: int) -> Case: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Case]: ...
    def __getitem__(self, number: int | slice) -> Case | Sequence[Case]:
        if isinstance(number, slice):
            raise TypeError("cases have a number each")
        return replace(self._cases[number % len(self._cases)], number=number)


@dataclass(slots=True)
class Faulty:
    """The broken upstream of one direction."""

    part: Part
    cases: Cycle
    sound: int
    """The number of its first cases, whose streams are sound."""
    upstream: Upstream
    sent: int = 0

    @property
    def name(self) -> str:
        """The name of its provider."""
        return f"{self.part.client}-{self.part.upstream}"

    def next(self) -> tuple[Case, str]:
        """Return the next case, and the model's name for the gateway."""
        case = self.cases[self.sent]
        self.sent += 1
        return case, f"{self.name}/{self.name}-{case.number}"

    def received(self) -> Iterator[tuple[str, int]]:
        """Yield the model of each request that arrived, and how often it did."""
        for number, count in self.upstream.requests.items():
            yield f"{self.name}-{number}", count


@asynccontextmanager
async def faulty_upstreams(seed: int) -> AsyncIterator[list[Faulty]]:
    """Serve the faults of all directions, each on a port of its own."""
    found = []
    async with AsyncExitStack() as stack:
        for client in CLIENT_DIALECTS:
            for upstream in Dialect:
                part = Part(client, upstream, seed=seed)
                cases = part.cases()
                sound = [case for case in cases if case.kind == "none"]
                broken = [case for case in cases if case.kind != "none"]
                random.Random(f"{part} {seed}").shuffle(broken)
                cycle = Cycle([*sound, *broken])
                served = await stack.enter_async_context(serving(upstream, cycle))
                found.append(Faulty(part, cycle, len(sound), served))
        yield found
