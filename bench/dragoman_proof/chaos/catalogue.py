"""All scenarios, and the command that plays them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from dragoman_proof.chaos import certificates, clocks, descriptors, disks, memory, names, postgres, redis
from dragoman_proof.chaos.scenario import Play, chosen, first_line, judged, name_of

SCENARIOS: tuple[Play, ...] = (
    *descriptors.SCENARIOS,
    *disks.SCENARIOS,
    *memory.SCENARIOS,
    *clocks.SCENARIOS,
    *names.SCENARIOS,
    *certificates.SCENARIOS,
    *postgres.SCENARIOS,
    *redis.SCENARIOS,
)


def main(names: Sequence[str]) -> int:
    """Play scenarios and print a line for each. Returns 1 if a promise does not hold, 2 for an unknown name."""
    if list(names) == ["list"]:
        _list()
        return 0
    try:
        plays = chosen(SCENARIOS, names)
    except KeyError as error:
        print(f"no scenario {error}; there are:")
        _list()
        return 2
    counts: Counter[str] = Counter()
    for play in plays:
        verdict = asyncio.run(judged(play))
        counts[verdict.word] += 1
        print(verdict, flush=True)
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return 1 if counts["broken"] else 0


def _list() -> None:
    for play in SCENARIOS:
        print(f"  {name_of(play):<24} {first_line(play)}")
