"""The rule by which a series is flat.

Of each process that lives long enough, the samples of its first quarter of an hour (in a short run, of a third of its
life) are left out. The rest is divided into sixty parts; the slope of a line through their medians is found by the
Theil-Sen estimator, the median of the slopes of all pairs, which a few extreme values do not change. What the line
rises over the whole rest, as a share of the median, is the growth. It may be 2 %, and of counts two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

from dragoman_proof.soak.samples import Process, Sample

QUARTER: Final = 15 * 60.0
"""Seconds of each process's life in which it may grow."""
MOST: Final = 0.02
"""The largest growth."""
MOST_COUNT: Final = 2.0
"""The largest growth of a count, as a number."""
_PARTS: Final = 60
_FEWEST: Final = 12
"""Parts that a series must have to be judged."""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Growth:
    """The rise of a series over its time, as a number and as a share of its median."""

    series: str
    seconds: float
    middle: float
    rise: float
    counts: bool

    @property
    def share(self) -> float:
        """The rise as a share of the median."""
        return self.rise / self.middle if self.middle else 0.0

    @property
    def is_flat(self) -> bool:
        """True if the series does not grow."""
        return self.share <= MOST or (self.counts and self.rise <= MOST_COUNT)


def growth(series: str, points: Points, *, counts: bool = False) -> Growth | None:
    """Return the growth of a series of (seconds, value) in the order of time, or None if it has too few points."""
    if not points or (seconds := points[-1][0] - points[0][0]) <= 0:
        return None
    parts: dict[int, list[tuple[float, float]]] = {}
    for at, value in points:
        parts.setdefault(min(_PARTS - 1, int((at - points[0][0]) / seconds * _PARTS)), []).append((at, value))
    middles = [(median(at for at, _ in part), median(value for _, value in part)) for part in parts.values()]
    if len(middles) < _FEWEST:
        return None
    slope = median((late[1] - early[1]) / (late[0] - early[0]) for early, late in combinations(middles, 2))
    return Growth(series, seconds, median(value for _, value in middles), slope * seconds, counts)


def judge(samples: Sequence[Sample], warm_s: float = QUARTER) -> list[Growth]:
    """Return the growth of memory and descriptors of each process, and of the tasks of all."""
    found: list[Growth | None] = []
    generations: dict[str, int] = {}
    for name, life in _lives(samples):
        generations[name] = generations.get(name, 0) + 1
        label = name if name == "supervisor" else f"{name}, process {generations[name]}"
        kept = [(at, each) for at, each in life if each.age_s >= warm_s]
        if kept and kept[-1][0] - kept[0][0] >= warm_s / 3:
            found.append(growth(f"memory of {label}", [(at, each.own) for at, each in kept]))
            files = [(at, float(each.descriptors)) for at, each in kept]
            found.append(growth(f"descriptors of {label}", files, counts=True))
    tasks = [(each.at_s, each.metrics["tasks"]) for each in samples if each.at_s >= warm_s and "tasks" in each.metrics]
    found.append(growth("tasks of both workers", tasks, counts=True))
    return [each for each in found if each is not None]


def _lives(samples: Sequence[Sample]) -> Iterator[tuple[str, list[tuple[float, Process]]]]:
    """Yield the samples of each process, by its name, in the order in which they began."""
    lives: dict[tuple[str, int], list[tuple[float, Process]]] = {}
    for sample in samples:
        for each in sample.processes:
            lives.setdefault((each.name, each.pid), []).append((sample.at_s, each))
    for (name, _), life in lives.items():
        yield name, life
