"""All scenarios, and the command that plays them."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Sequence

from dragoman_proof.chaos import certificates, clocks, descriptors, disks, memory, names, postgres, redis
from dragoman_proof.chaos.scenario import Play, chosen, clean_up, first_line, judged, name_of

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
    clean_up()
    # A command that is terminated deletes its folder, and ends its servers, as one that is interrupted.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        counts = _play(plays)
    finally:
        signal.signal(signal.SIGTERM, before)
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return 1 if counts["broken"] else 0


def _play(plays: Sequence[Play]) -> Counter[str]:
    """Play scenarios one after another. Return how many have each verdict."""
    counts: Counter[str] = Counter()
    for number, play in enumerate(plays, 1):
        print(f"{number}/{len(plays)} {name_of(play)}", file=sys.stderr, flush=True)
        verdict = asyncio.run(judged(play))
        counts[verdict.word] += 1
        print(verdict, flush=True)
    return counts


def _list() -> None:
    for play in SCENARIOS:
        print(f"  {name_of(play):<24} {first_line(play)}")
