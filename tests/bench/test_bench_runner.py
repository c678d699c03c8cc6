"""A run: who is measured in which order, what becomes of figures, and what is left of it when things fail."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman_bench import cli, derived_metrics, rig, runner
from dragoman_bench.client import result
from dragoman_bench.gateways import ALL, SAME, Direction, Gateway, Started, StartError
from dragoman_bench.gateways.direct import Direct
from dragoman_bench.gateways.gateway import Kind
from dragoman_bench.load import Load
from dragoman_bench.machine_lock import Busy, machine_lock
from dragoman_bench.plan import LONGEST, Plan
from dragoman_bench.processes import alive, cpu_ns, divided_cores, memory_bytes, tree
from dragoman_bench.rig import LoadError, Rig, Subject
from dragoman_bench.runner import Run
from dragoman_bench.scenarios import QUICK, SCENARIOS, WARM_UP, Scenario, models
from dragoman_bench.shapes import SHAPES
from dragoman_bench.wire import Script

CHAT = ("chat", "chat")
ACROSS = ("messages", "chat")


@dataclass
class Stub:
    """A gateway that sends clients straight to the upstream, and stands for this process."""

    name: str
    kind: Kind = "pass"
    directions: frozenset[Direction] = SAME
    about: str = ""
    note: str = ""
    without: Mapping[str, str] = field(default_factory=dict)
    why_missing: str | None = None
    why_not: str | None = None
    starts: int = 0
    stops: int = 0

    def missing(self) -> str | None:
        """Return the configured value."""
        return self.why_missing

    def version(self) -> str:
        """None."""
        return ""

    async def start(self, upstream_url: str, direction: Direction, core: int | None) -> Started:
        """Return the configured value."""
        if self.why_not is not None:
            raise StartError(self.why_not)
        self.starts += 1

        async def stop() -> None:
            self.stops += 1

        return Started(upstream_url, os.getpid(), stop, command=f"{self.name} --on {core}", config="[x]")


def short(name: str, **changes: Any) -> Scenario:
    """A scenario for a fraction of a second."""
    return replace(SCENARIOS[name].quick(), **{"streams": 3, "seconds": 0.2, "warm": 0.1, **changes})


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_WARM_UP", 0.1)
    monkeypatch.setattr(rig, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(rig, "_SETTLE", 0.0)


async def in_this_process(self: Rig, plan: Plan) -> dict[str, Any]:
    """A load without the second or so that another interpreter takes."""
    load = Load(plan)
    await load.run(SHAPES[plan.mode])
    return result(load)


@pytest.mark.whole
async def test_a_run_measures_in_rounds_and_compares_with_the_baseline_and_with_no_gateway() -> None:
    mine = Stub("mine", "translate", ALL - {ACROSS})
    gateways: list[Gateway] = [Direct(), Stub("aiohttp-pass"), mine, Stub("absent", why_missing="install it")]
    output: list[str] = []
    run = Run(gateways, [CHAT], [short("stream-100")], 2, output.append)
    assert [(number, key[0]) for _, number, key in run.steps()] == [
        (number, name) for number in (0, 1) for name in ("direct", "aiohttp-pass", "mine")
    ]
    before = os.sched_getaffinity(0)
    await run.go()
    assert os.sched_getaffinity(0) == before
    assert output[0] == "without absent: install it"
    assert output[-1].startswith("[6/6] stream-100 2/2 mine chat→chat: ")
    assert output[-1].endswith("(0 s left)")
    rows = {row.gateway: row.figures for row in run.outcomes()}
    assert all(not row["errors"] for row in rows.values())
    for name in ("mine", "aiohttp-pass"):
        assert rows[name]["cpu_us_per_chunk"] > 0
        assert rows[name]["ratio"]["cpu_us_per_chunk"] > 0
        assert set(rows[name]["added_delay_ms"]) == {"p50", "p90", "p99", "p99.9"}
        assert set(rows[name]["cpu_share"]) == {"gateway", "upstream", "client"}
    assert rows["aiohttp-pass"]["ratio"] == {"cpu_us_per_chunk": 1.0}
    assert "cpu_us_per_chunk" not in rows["direct"]
    assert (mine.starts, mine.stops) == (1, 1)
    assert run.started["mine", CHAT][1] == "[x]"


@pytest.mark.whole
async def test_each_kind_of_scenario_has_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rig, "load", in_this_process)
    monkeypatch.setattr(runner, "_backlogged", lambda _: False)  # as on a machine that has nothing else to do
    mine = Stub("mine")
    paced, paced_short = Script(9999, 10), Script(10, 10)
    fresh = [short("idle"), short("open-1000", script=paced), short("storm", total=9), short("slow", script=paced)]
    kept = [short(name) for name in ("whole", "start", "agent", "burst-100")] + [short("arrivals", streams=100)]
    kept.append(short("neighbours", script=paced, warm=0.3, neighbours=(Script(2000, 0, 32, 16),)))
    kept.append(short("agent-turn", script=Script(30, 2, 32, turn=True), total=4))
    fresh.append(short("mixed-day", seconds=1.0, streams=100, mix=((paced_short, 0.8), (Script(1, whole=True), 0.2))))
    asked = {(scenario.name, key[0]) for scenario, _, key in Run([Direct(), mine], [CHAT], fresh + kept, 1).steps()}
    assert ("whole", "direct") in asked
    assert ("idle", "direct") not in asked
    run = Run([mine], [CHAT], fresh + kept, 1, lambda text: None)
    await run.go()
    rows = {row.scenario: row.figures for row in run.outcomes() if row.gateway == "mine"}
    assert all(not row["errors"] for row in rows.values())
    assert rows["idle"]["startup_s"] > 0
    assert rows["idle"]["idle_bytes"] > 10**6
    assert "bytes_per_stream" in rows["open-1000"]
    assert (rows["storm"]["hung_up"], rows["storm"]["left_open"]) == (18, 0)
    assert rows["slow"]["delay_ms"]["p50"] > 0
    # Without a gateway and with a busy upstream, a delta takes 0 to 3 µs from the upstream to the client's kernel.
    assert set(rows["neighbours"]["delay_ms"]) == {"p50", "p90", "p99", "p99.9"}
    assert rows["neighbours"]["alone_ms"]["p50"] > 0
    assert rows["neighbours"]["lag_ms"]["p50"] > 0
    assert rows["neighbours"]["times_alone"]["p99"] == pytest.approx(
        rows["neighbours"]["delay_ms"]["p99"] / rows["neighbours"]["alone_ms"]["p99"]
    )
    assert (rows["agent-turn"]["turns"], rows["agent-turn"]["cpu_us_per_turn"] > 0) == (4, True)
    assert rows["agent-turn"]["turn_ms"]["p50"] > 50
    assert rows["mixed-day"]["replies_per_s"] > 0
    assert {"at_s", "delay_p99", "lag_p99", "memory_mb"} < set(rows["mixed-day"]["series"][0])
    assert rows["whole"]["cpu_us_per_reply"] > 0
    assert rows["start"]["cpu_us_per_stream"] > 0
    assert rows["agent"]["cpu_us_per_stream"] > 0
    assert rows["arrivals"]["ttft_ms"]["p50"] > 0
    assert rows["burst-100"]["chunks_per_s"] > 0
    assert mine.starts == mine.stops == len(fresh) + 1


async def test_a_gateway_that_does_not_start_or_is_left_out_is_a_row_with_the_reason() -> None:
    broken = Stub("broken", why_not="no such port\nlast words")
    picky = Stub("picky", without={"whole": "it would cheat"})
    output: list[str] = []
    run = Run([broken, picky], [ACROSS], [short("whole", seconds=0.1)], 2, output.append)
    assert run.keys() == [("broken", CHAT), ("picky", CHAT)]
    await run.go()
    assert "not tried again: no such port (" in output[-1]
    reasons = {row.gateway: row.missing for row in run.outcomes()}
    assert reasons == {"broken": "no such port\nlast words", "picky": "it would cheat"}


async def test_a_failed_load_is_an_error_of_its_row_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    async def fails(self: Subject, rig: Rig, scenario: Scenario) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        raise LoadError("the client fell over")

    monkeypatch.setattr(Subject, "measure", fails)
    stub = Stub("stub")
    run = Run([stub], [CHAT], [short("whole")], 3, lambda text: None)
    await run.go()
    [row] = run.outcomes()
    assert row.figures["errors"] == {"load": {"count": 1, "example": "the client fell over"}}
    assert (calls, stub.starts, stub.stops) == (1, 1, 1)


@pytest.mark.whole
async def test_a_gateway_that_may_still_be_busy_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def measured(self: Subject, rig: Rig, scenario: Scenario) -> dict[str, Any]:
        return {}

    came = iter([100, 10, 10])
    monkeypatch.setattr(Subject, "measure", measured)
    monkeypatch.setattr(
        derived_metrics,
        "of",
        lambda *_: {"errors": {}, "chunks_per_s": next(came), "offered_per_s": 100, "cpu_us_per_chunk": 1.0},
    )
    stub = Stub("stub")
    await Run([stub], [CHAT], [short("burst-100")], 3, lambda text: None).go()
    assert (stub.starts, stub.stops) == (2, 2)


async def test_a_cancelled_run_stops_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = asyncio.Event()
    upstreams: list[int] = []

    async def endless(self: Subject, rig: Rig, scenario: Scenario) -> dict[str, Any]:
        upstreams.append(rig.pid)
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Subject, "measure", endless)
    stub = Stub("stub")
    run = Run([stub], [CHAT], [short("whole")], 1, lambda text: None)
    task = asyncio.create_task(run.go())
    async with asyncio.timeout(30):
        await reached.wait()
    assert alive(upstreams[0])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stub.stops == 1
    assert not alive(upstreams[0])
    assert run.outcomes() == []


def test_a_run_without_rounds_is_none() -> None:
    with pytest.raises(ValueError, match="at least one round"):
        Run([], [], [], 0)


def test_the_median_of_rounds_is_taken_figure_by_figure() -> None:
    error = {"cut": {"count": 2, "example": "first"}}
    rounds: list[derived_metrics.Figures] = [
        {"cpu_us_per_chunk": 10.0, "delay_ms": {"p50": 1.0}, "errors": {}},
        {"cpu_us_per_chunk": 30.0, "delay_ms": None, "errors": error},
        {"cpu_us_per_chunk": 20.0, "delay_ms": {"p50": 3.0}, "errors": error},
    ]
    assert derived_metrics.middle(rounds) == {
        "cpu_us_per_chunk": 20.0,
        "delay_ms": {"p50": 2.0},
        "errors": {"cut": {"count": 4, "example": "first"}},
    }
    assert derived_metrics.middle([{"series": [1]}, {"series": [2]}]) == {"series": [2]}
    assert error["cut"]["count"] == 2
    compared = derived_metrics.compared(rounds[2], rounds[0], rounds[0])
    assert compared["ratio"] == {"cpu_us_per_chunk": 2.0}
    assert compared["added_delay_ms"] == {"p50": 2.0}
    assert "ratio" not in derived_metrics.compared(rounds[0], None, None)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_makes_a_plan_in_both_forms(name: str) -> None:
    for scenario in (SCENARIOS[name], SCENARIOS[name].quick().fitting()):
        plan = scenario.plan(
            "http://127.0.0.1:1", "http://127.0.0.1:2", "messages", scenario.script.model, {"x-a": "b"}
        )
        request = plan.request()
        assert scenario.script.model.encode() in request
        assert b"\r\nx-a: b\r\n" in request
        assert scenario.script.model in models()
        assert plan.limit <= LONGEST
        assert scenario.duration() < (10 if scenario is not SCENARIOS[name] else 60)
    assert WARM_UP.model in models()
    assert set(QUICK) <= set(SCENARIOS)


def test_streams_are_as_many_as_open_files_allow() -> None:
    assert SCENARIOS["stream-100"].fitting().streams == 100
    assert replace(SCENARIOS["open-10000"], streams=10**9).fitting().streams < 10**9


def test_processes_are_measured_as_trees() -> None:
    parent = (
        "import subprocess, sys; child = [sys.executable, '-c', 'print(flush=True); input()'];"
        "c = subprocess.Popen(child, stdin=subprocess.PIPE, stdout=subprocess.PIPE);"
        "c.stdout.readline();"  # it grows until then
        "print(c.pid, flush=True); input(); c.communicate(b'\\n')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert tree(process.pid) == [process.pid, child]
        assert 0 < cpu_ns([process.pid]) < cpu_ns([process.pid, child])
        assert memory_bytes([process.pid, child]) > memory_bytes([child]) > 0
        assert memory_bytes([child], "Rss") >= memory_bytes([child])
        process.communicate("\n")
    assert (tree(0), cpu_ns([process.pid]), memory_bytes([process.pid]), alive(process.pid)) == ([], 0, 0, False)
    core, others = divided_cores()
    assert core is None or core not in others


async def test_runs_take_turns(tmp_path: Path) -> None:
    lock, output = tmp_path / "lock", list[str]()
    async with machine_lock(output.append, lock):
        with pytest.raises(Busy, match="lock"):
            async with machine_lock(output.append, lock, 0.02, 0.01):
                raise AssertionError
    async with machine_lock(output.append, lock):
        pass
    assert len(output) == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--gateways", "nosuch"], "no gateway is named 'nosuch'; known: direct"),
        (["--scenarios", "nosuch"], "no scenario"),
        (["--directions", "chat"], "no direction is named 'chat'; known: chat-chat"),
        (["--rounds", "0"], "at least 1"),
        (["--day", "0"], "--day is 0: above 0"),
        (["--day", "1e9"], "at most 3600 seconds"),
        (["peers"], "peers install NAME"),
        (["peers", "install", "nosuch"], "no peer"),
    ],
)
def test_a_wrong_command_line_lists_the_choices(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert expected in capsys.readouterr().err


def test_directions_are_named_client_first() -> None:
    assert cli.directions("messages-chat, chat-chat") == (ACROSS, CHAT)
    assert set(cli.directions("cross")) == ALL - SAME
    assert set(cli.directions("same")) == SAME
    assert set(cli.directions("all")) == ALL


def test_the_command_measures_saves_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # another run may go on outside
    words = ["--quick", "--gateways", "direct", "--directions", "chat-chat", "--scenarios", "idle", f"--out={tmp_path}"]
    assert cli.main(words) == 0
    expected = capsys.readouterr().err
    assert "[1/1] idle 1/1 aiohttp-pass chat→chat: starts in" in expected
    assert len(list(tmp_path.glob("*/results.json"))) == 1
    assert cli.main(["peers", "list"]) == 0
    assert "litellm" in capsys.readouterr().out
