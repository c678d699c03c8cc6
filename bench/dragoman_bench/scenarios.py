"""The scenarios: the load of each, its shorter form for a quick run, and its figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from dragoman_bench.agent_request import agent_request
from dragoman_bench.plan import LONGEST, Mode, Plan, Slow
from dragoman_bench.processes import open_files_limit
from dragoman_bench.wire import ENDLESS, Script

_PACE_MS = 25
_TEXT = 32
"""Bytes of a delta's text: a mark and a word. A real token has four to six bytes; the frame dominates the cost."""
_SPARE_FILES = 64

Figure = Literal[
    "chunk", "delay", "first", "stream", "reply", "turn", "memory", "storm", "growth", "idle", "neighbours", "series"
]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load and its figures. `short` replaces fields in the quick form.

    `fresh` measures in a new process, because memory freed by earlier loads would be reused. With `agent`, the request
    is the long one of a coding agent, with `rich` also pictures and reasoning.
    """

    name: str
    about: str
    mode: Mode | None
    script: Script
    figures: frozenset[Figure]
    streams: int = 100
    seconds: float = 6.0
    warm: float = 0.5
    ramp_per_s: float = 400.0
    rate: float = 20.0
    total: int = 0
    fresh: bool = False
    agent: bool = False
    rich: bool = False
    slow: Slow | None = None
    neighbours: tuple[Script, ...] = ()
    mix: tuple[tuple[Script, float], ...] = ()
    """Replies of a mixed day, with their shares."""
    short: dict[str, Any] = field(default_factory=dict)

    def quick(self) -> Scenario:
        """Return the quick form: enough for a look, too short to publish."""
        return replace(self, **{"seconds": min(2.0, self.seconds), **self.short})

    def fitting(self) -> Scenario:
        """Return the scenario with at most as many streams as the limit of open files allows: two files per stream."""
        return replace(self, streams=min(self.streams, (open_files_limit() - _SPARE_FILES) // 2))

    def duration(self) -> float:
        """Return the approximate duration in seconds for a gateway that keeps up."""
        if self.mode is None:
            return IDLE_SECONDS
        ramp = self.streams / self.ramp_per_s
        if self.mode == "storm":
            return 2 * self.total / self.streams * 0.3 + 2
        if self.mode == "counted":
            return (self.total / self.streams + 1) * (self.script.events * self.script.pace_ms / 1000 + 0.1) + 1
        if self.neighbours:
            ramp += self.warm + self.seconds
        return ramp + self.warm + self.seconds + self.script.pace_ms / 1000 + 1

    def plan(self, url: str, upstream: str, dialect: str, model: str, headers: dict[str, str]) -> Plan:
        """Return the plan for the load client; `model` is in the gateway's form."""
        body = agent_request(dialect, model, rich=self.rich).decode() if self.agent else None
        return Plan(
            url,
            dialect,
            self.mode or "closed",
            model,
            self.streams,
            self.seconds,
            headers=headers,
            body=body,
            stream=not self.script.whole,
            warm=self.warm,
            ramp_per_s=self.ramp_per_s,
            rate=self.rate,
            total=self.total,
            slow=self.slow,
            neighbours=[script.model for script in self.neighbours],
            mix=[(script.model, share, not script.whole) for script, share in self.mix],
            upstream=upstream,
            memory=bool(self.figures & {"memory", "storm", "growth"}),
            limit=min(self.duration() * 3 + 60, LONGEST),
        )

    def as_data(self) -> dict[str, Any]:
        """Return the parameters, for the results."""
        data = {name: value for name, value in asdict(self).items() if name not in ("short", "figures")}
        return {**data, "model": self.script.model}


WARM_UP = Script(5)
"""Script of the warm-up streams."""
IDLE_SECONDS = 1.5
"""Seconds between a gateway's start and the reading of its memory."""


def _paced(events: int = ENDLESS, pace_ms: int = _PACE_MS) -> Script:
    return Script(events, pace_ms, _TEXT)


_ALL = (
    Scenario("idle", "starting, and doing nothing", None, _paced(1), frozenset({"idle"}), fresh=True),
    Scenario(
        "stream-20",
        "20 streams of 10 deltas a second: what the slowest gateways can carry",
        "hold",
        _paced(pace_ms=100),
        frozenset({"chunk", "delay"}),
        20,
    ),
    Scenario(
        "stream-100",
        "100 streams of 40 deltas a second: one by one",
        "hold",
        _paced(),
        frozenset({"chunk", "delay"}),
    ),
    Scenario(
        "stream-400",
        "400 streams of 20 deltas a second: a busy core",
        "hold",
        _paced(pace_ms=50),
        frozenset({"chunk", "delay"}),
        400,
    ),
    Scenario(
        "burst-100",
        "100 streams of 1,000 deltas, each sent in a write of its own as fast as it is taken",
        "closed",
        Script(1000, 0, _TEXT),
        frozenset({"chunk"}),
    ),
    Scenario(
        "joined-100",
        "100 streams of 1,000 deltas, sixteen in a write, as fast as they are taken",
        "closed",
        Script(1000, 0, _TEXT, 16),
        frozenset({"chunk"}),
    ),
    Scenario(
        "start",
        "streams of 2 deltas, 32 at once over kept connections: what beginning and ending one takes",
        "closed",
        Script(2, 0, _TEXT, joined=True),
        frozenset({"stream"}),
        32,
        4.0,
    ),
    Scenario(
        "arrivals",
        "20 streams begin a second, at random times counted from the schedule",
        "open",
        _paced(20, 20),
        frozenset({"first", "delay"}),
        500,
        short={"rate": 40.0},
    ),
    Scenario(
        "whole",
        "replies that are not streamed, 32 at once over kept connections",
        "closed",
        Script(1, size=400, whole=True),
        frozenset({"reply"}),
        32,
        4.0,
    ),
    Scenario(
        "agent",
        "a coding agent's request of 218 messages, and a short streamed reply",
        "closed",
        Script(2, 0, _TEXT, joined=True),
        frozenset({"stream"}),
        8,
        4.0,
        agent=True,
    ),
    Scenario(
        "open-1000",
        "1,000 open streams with a delta every 2 s",
        "hold",
        _paced(ENDLESS, 2000),
        frozenset({"memory"}),
        1000,
        4.0,
        2.5,
        fresh=True,
        short={"seconds": 1.0, "warm": 1.0},
    ),
    Scenario(
        "open-10000",
        "10,000 open streams with a delta each second",
        "hold",
        _paced(ENDLESS, 1000),
        frozenset({"memory", "chunk", "delay"}),
        10_000,
        15.0,
        2.0,
        800.0,
        fresh=True,
        short={"streams": 2000, "seconds": 3.0},
    ),
    Scenario(
        "slow",
        "100 streams, and 20 readers that read 10 kB a second of streams sent at full speed",
        "hold",
        _paced(),
        frozenset({"delay", "growth"}),
        100,
        warm=2.0,
        fresh=True,
        slow=Slow(20, Script(9999, 0, 2000, 16).model),
    ),
    Scenario(
        "agent-turn",
        "turns of a coding agent over kept connections, 4 at once: a request of 218 messages with tools, reasoning and "
        "pictures, and 300 deltas of reasoning, text and two calls, one by one",
        "counted",
        Script(300, 10, _TEXT, turn=True),
        frozenset({"turn", "first"}),
        4,
        total=16,
        agent=True,
        rich=True,
        short={"total": 4},
    ),
    Scenario(
        "neighbours",
        "100 streams of 40 deltas a second: alone, then beside a stream that is sent as fast as it is read and one of "
        "comments only",
        "hold",
        _paced(),
        frozenset({"delay", "neighbours"}),
        100,
        warm=2.0,
        neighbours=(Script(ENDLESS, 0, _TEXT, 16), Script(ENDLESS, 0, _TEXT, 16, comments=True)),
    ),
    Scenario(
        "mixed-day",
        "short and long streams and whole replies, at random times counted from the schedule; some clients leave, and "
        "half of these ask again",
        "day",
        _paced(40, 25),
        frozenset({"first", "delay", "series"}),
        1000,
        30.0,
        rate=25.0,
        fresh=True,
        mix=(
            (_paced(40, 25), 0.6),
            (_paced(400, 25), 0.15),
            (_paced(200, 10), 0.05),
            (Script(1, size=2000, whole=True), 0.2),
        ),
        short={"seconds": 5.0},
    ),
    Scenario(
        "storm",
        "clients that disconnect at random points, 50 at once, 1,000 in all",
        "storm",
        Script(500, 20, _TEXT),
        frozenset({"storm"}),
        50,
        total=1000,
        fresh=True,
        short={"total": 300},
    ),
)

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _ALL}
QUICK = ("idle", "stream-100", "burst-100", "start", "arrivals", "whole", "open-1000")
"""Scenarios of the short run."""


def models() -> tuple[str, ...]:
    """Return every model name that a run requests: some gateways need them in their configuration."""
    variants = [variant for scenario in _ALL for variant in (scenario, scenario.quick())]
    names = [variant.script.model for variant in variants]
    names += [variant.slow.model for variant in variants if variant.slow is not None]
    names += [script.model for variant in variants for script in variant.neighbours]
    names += [script.model for variant in variants for script, _ in variant.mix]
    return tuple(dict.fromkeys((WARM_UP.model, *names)))
