"""A run: every gateway, direction and scenario, in rounds that each go through all gateways.

A drift of the machine (other load, a warm CPU) then affects all of them; a figure is the median of its rounds. Gateways
that do not translate, such as `direct` and the baseline, are measured once per upstream dialect and compared with every
direction to it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from dragoman_bench import derived_metrics
from dragoman_bench.derived_metrics import Figures
from dragoman_bench.gateways import Direction, Gateway, StartError, measured_direction
from dragoman_bench.processes import divided_cores, pin
from dragoman_bench.rig import LoadError, Rig, Subject
from dragoman_bench.scenarios import Scenario
from dragoman_bench.tables import KEEPS_UP

BASELINE = "aiohttp-pass"
NO_GATEWAY = "direct"
ALWAYS = (NO_GATEWAY, BASELINE)
_WARM_UP = 1.0
_START_GUESS = 3.0
"""Estimated seconds of a start, with the warm-up."""
_CLIENT_GUESS = 0.6
"""Estimated seconds that a load client takes to start and end."""

_OF_A_PROCESS = frozenset({"idle", "memory", "storm", "growth"})
"""Figures that need a gateway's process."""

Key = tuple[str, Direction]


@dataclass(slots=True)
class Outcome:
    """A gateway in a direction and a scenario: the median of its compared rounds. `missing`: reason for no figures."""

    gateway: str
    direction: Direction
    scenario: str
    figures: Figures = field(default_factory=dict)
    rounds: list[Figures] = field(default_factory=list)
    missing: str = ""


def log(text: str) -> None:
    """Print a line of progress to stderr."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Run:
    """A run of gateways, directions and scenarios. After an interruption, `outcomes` has the complete rounds."""

    gateways: Sequence[Gateway]
    directions: Sequence[Direction]
    scenarios: Sequence[Scenario]
    rounds: int
    log: Callable[[str], None] = log
    started: dict[Key, tuple[str, str]] = field(default_factory=dict)
    """The command and the configuration of each gateway that ran."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError("a run has at least one round")
        self._gateways = {gateway.name: gateway for gateway in self.gateways}
        self.skipped = {gateway.name: why for gateway in self.gateways if (why := gateway.missing())}
        self._measured: dict[tuple[Key, str], list[Figures]] = {}
        self._subjects: dict[Key, Subject] = {}
        self._failed: dict[Key, str] = {}
        self._not_repeated: dict[tuple[Key, str], str] = {}

    def keys(self) -> list[Key]:
        """Return each gateway with each direction that it is measured in, once."""
        return list(
            dict.fromkeys(
                (gateway.name, taken)
                for direction in self.directions
                for gateway in self.gateways
                if gateway.name not in self.skipped and (taken := measured_direction(gateway, direction)) is not None
            )
        )

    def steps(self) -> Iterator[tuple[Scenario, int, Key]]:
        """Yield the measurements in the order of the run."""
        for scenario in self.scenarios:
            for number in range(self.rounds):
                for key in self.keys():
                    if scenario.name in self._gateways[key[0]].without:
                        continue
                    if key[0] == NO_GATEWAY and scenario.figures <= _OF_A_PROCESS:
                        continue
                    yield scenario, number, key

    def estimate(self) -> float:
        """Return the estimated duration in seconds if all gateways keep up."""
        steps = list(self.steps())
        starts = {key for scenario, _, key in steps if not scenario.fresh}
        return len(starts) * _START_GUESS + sum(_guess(scenario) for scenario, _, _ in steps)

    async def go(self) -> None:
        """Measure. Errors of gateways become rows. Raises `rig.RigError` if the rig itself fails."""
        for name, why in self.skipped.items():
            self.log(f"without {name}: {why}")
        core, others = divided_cores()
        if core is None:
            self.log("only one core: gateway, load and upstream share it, and delays are not meaningful")
        before = os.sched_getaffinity(0)
        pin(others)
        try:
            async with Rig.running(core) as rig:
                await self._go(rig)
        finally:
            pin(frozenset(before))

    async def _go(self, rig: Rig) -> None:
        steps = list(self.steps())
        left = sum(_guess(scenario) for scenario, _, _ in steps)
        self.log(f"{len(steps)} measurements, about {max(1, round(self.estimate() / 60))} min")
        done, begun = 0.0, time.monotonic()
        try:
            for number, (scenario, nth, key) in enumerate(steps, 1):
                taken = await self._measure(rig, scenario, key)
                done, left = done + _guess(scenario), left - _guess(scenario)
                seconds = left * (time.monotonic() - begun) / done
                head = f"[{number}/{len(steps)}] {scenario.name} {nth + 1}/{self.rounds} {label(key)}"
                self.log(f"{head}: {taken} ({seconds:.0f} s left)")
        finally:
            for subject in self._subjects.values():
                await subject.stop()
            self._subjects.clear()

    async def _measure(self, rig: Rig, scenario: Scenario, key: Key) -> str:
        where = (key, scenario.name)
        if (why := self._failed.get(key) or self._not_repeated.get(where)) is not None:
            return f"not tried again: {why.splitlines()[0]}"
        subject: Subject | None = None
        try:
            subject = await self._subject(rig, key, fresh=scenario.fresh)
            if scenario.fresh and scenario.mode is not None:
                await subject.warm_up(rig, _WARM_UP)
            taken = derived_metrics.of(scenario, await subject.measure(rig, scenario))
        except StartError as error:
            self._failed[key] = str(error)
            return f"does not start: {error}"
        except LoadError as error:
            taken = {"errors": {"load": {"count": 1, "example": str(error)}}}
        finally:
            if scenario.fresh and subject is not None:
                await subject.stop()
        await rig.quiet()
        self._measured.setdefault(where, []).append(taken)
        if not scenario.fresh and _backlogged(taken):
            await self._subjects.pop(key).stop()
        if bounds := taken["errors"].keys() & {"time-limit", "load"}:
            self._not_repeated[where] = f"it ended with {', '.join(sorted(bounds))} before"
        return summary(taken)

    async def _subject(self, rig: Rig, key: Key, *, fresh: bool) -> Subject:
        known = None if fresh else self._subjects.pop(key, None)
        if known is not None and not known.is_alive():
            await known.stop()
            known = None
        subject = known or await Subject.start(rig, self._gateways[key[0]], key[1])
        self.started.setdefault(key, (subject.started.command, subject.started.config))
        if not fresh:
            self._subjects[key] = subject
            if known is None:
                await subject.warm_up(rig, _WARM_UP)
        return subject

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes so far, compared with the baseline and with no gateway.

        The comparison is made within each round, whose measurements are close in time; then the median is taken.
        """
        out = []
        for scenario in self.scenarios:
            for key in self.keys():
                upstream = key[1][1]
                same = (upstream, upstream)
                rounds = self._measured.get((key, scenario.name))
                if rounds is None:
                    why = self._gateways[key[0]].without.get(scenario.name) or self._failed.get(key)
                    if why is not None:
                        out.append(Outcome(*key, scenario.name, missing=why))
                    continue
                baseline = self._measured.get(((BASELINE, same), scenario.name), [])
                direct = self._measured.get(((NO_GATEWAY, same), scenario.name), [])
                compared = [
                    derived_metrics.compared(mine, its, none)
                    for mine, its, none in zip_longest(rounds, baseline[: len(rounds)], direct[: len(rounds)])
                ]
                out.append(Outcome(*key, scenario.name, derived_metrics.middle(compared), compared))
        return out


def _guess(scenario: Scenario) -> float:
    start = _START_GUESS if scenario.fresh else 0.0
    return start + scenario.duration() + _CLIENT_GUESS


def _backlogged(taken: Figures) -> bool:
    """True if a process may still be busy: its backlog must not affect the next scenario."""
    came, sent = taken.get("chunks_per_s"), taken.get("offered_per_s")
    return bool(taken["errors"]) or (came is not None and sent is not None and came < KEEPS_UP * sent)


def label(key: Key) -> str:
    """Return a gateway and its direction, for display."""
    return f"{key[0]} {key[1][0]}→{key[1][1]}"


_UNITS = {
    "cpu_us_per_chunk": ("{:.1f} µs/chunk", 1.0),
    "cpu_us_per_stream": ("{:.0f} µs/stream", 1.0),
    "cpu_us_per_reply": ("{:.0f} µs/reply", 1.0),
    "cpu_us_per_turn": ("{:.1f} ms/turn", 1e-3),
    "bytes_per_stream": ("{:.1f} kB/stream", 1e-3),
    "startup_s": ("starts in {:.2f} s", 1.0),
    "idle_bytes": ("{:.1f} MB idle", 1e-6),
    "grown_bytes": ("grew by {:.1f} MB", 1e-6),
    "streams_per_s": ("{:.0f} streams/s", 1.0),
    "chunks_per_s": ("{:.0f} chunks/s", 1.0),
    "replies_per_s": ("{:.0f} replies/s", 1.0),
    "cancelled_upstream": ("{:.0f} cancelled", 1.0),
    "left_open": ("{:.0f} left open", 1.0),
}


def summary(taken: Figures) -> str:
    """Return a measurement as one line."""
    out = [form.format(taken[name] * factor) for name, (form, factor) in _UNITS.items() if taken.get(name) is not None]
    shown = (("delay_ms", "delay"), ("alone_ms", "alone"), ("lag_ms", "lag"), ("ttft_ms", "first"), ("turn_ms", "turn"))
    for name, label in shown:
        if shares := taken.get(name):
            out.append(f"{label} p50 {shares['p50']:.2f} p99 {shares['p99']:.2f} ms")
    if errors := taken.get("errors"):
        out.append("ERRORS " + ", ".join(f"{kind} ×{found['count']}" for kind, found in errors.items()))
    return ", ".join(out)
