"""A supervisor whose workers are scripts of a few lines: what it does when they fail, hang, fall silent or leave."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.schema import Config, Server
from dragoman_server.observability.metric_families import OPEN_STREAMS, REQUESTS, Totals
from dragoman_server.observability.prometheus import exposition
from dragoman_server.workers import registry, worker_process
from dragoman_server.workers import supervisor as supervisor_module
from dragoman_server.workers.supervisor import FAILED_STARTS_MAX, Supervisor, cores, pause_before
from support.exposed import read_exposition, total
from support.gateways import until

COUNTED = Totals()
COUNTED.add(REQUESTS, ("chat", "up", "*", "completed", "2xx"), 5)
COUNTED.add(OPEN_STREAMS, ("chat",), 1)

PREAMBLE = f"""
import json, os, signal, socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
def tell(**message):
    data = json.dumps(message).encode()
    sock.sendall(len(data).to_bytes(4, "big") + data)
def frame():
    head = sock.recv(4, socket.MSG_WAITALL)
    return sock.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL) if head else sys.exit()
def serve(last=True):
    tell(what="ready")
    while True:
        said = json.loads(frame())
        if said["what"] == "totals" and not os.path.exists("silent"):
            tell(what="", answered=said["ask"], known=True, answer=TOTALS)
        elif said["what"] in ("retire", "stop"):
            tell(what="totals", totals=TOTALS)
            break
TOTALS = {json.dumps(COUNTED.pack())}
frame()
"""
SERVES = "serve()"
SERVES_ONCE = """
if os.path.exists("again"):
    tell(what="failed", message="no luck today")
    sys.exit(3)
open("again", "w").close()
tell(what="ready")
frame()
os.kill(os.getpid(), signal.SIGKILL)
"""


@dataclass(slots=True)
class Run:
    """A supervisor that runs. `configs` is what it finds at reloads; `ended` its exit status."""

    supervisor: Supervisor
    configs: list[Config | ConfigError]
    ended: asyncio.Task[int]
    announced: list[str]

    def value(self, name: str, **labels: str) -> float:
        return total(read_exposition(exposition(self.supervisor._registry.totals())), name, **labels)

    async def asked(self) -> None:
        """As if a worker had been asked for the metrics."""
        serving = self.supervisor._registry.serving
        await self.supervisor._registry.answer(next(iter(serving.values())), "totals", {})

    async def up(self) -> None:
        await until(lambda: self.announced)


@pytest.fixture(autouse=True)
def at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A folder of the test's own for its workers, short pauses, and all that is logged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(supervisor_module, "_PAUSE", 0.001)
    caplog.set_level(logging.INFO)


@asynccontextmanager
async def running(monkeypatch: pytest.MonkeyPatch, script: str, count: int = 2) -> AsyncIterator[Run]:
    code = PREAMBLE + script
    monkeypatch.setattr(worker_process, "_command", lambda fd: [sys.executable, "-I", "-S", "-c", code, str(fd)])
    config = Config(server=Server(port=0, workers=count))
    configs: list[Config | ConfigError] = []
    announced: list[str] = []

    def load() -> Config:
        found = configs.pop(0)
        if isinstance(found, ConfigError):
            raise found
        return found

    supervisor = Supervisor(config, load, lambda url, _: announced.append(url), drain=1)
    run = Run(supervisor, configs, asyncio.create_task(supervisor.run()), announced)
    try:
        yield run
    finally:
        supervisor.stop()
        await asyncio.wait_for(run.ended, 30)
        assert not supervisor._registry.workers


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("sys.exit(3)", "a worker ended with status 3 before it was ready"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "a worker was killed by SIGKILL before it was ready"),
        ('tell(what="failed", message="the disk is full"); sys.exit(1)', "the disk is full"),
    ],
)
async def test_a_worker_that_cannot_start_ends_it_all_with_its_own_words_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, script: str, output: str
) -> None:
    async with running(monkeypatch, script, count=3) as run:
        assert await asyncio.wait_for(run.ended, 30) == 1
    assert not run.announced
    log_lines = [record.getMessage() for record in caplog.records if record.name == "dragoman"]
    assert log_lines == [f"dragoman stops: {output}"]


async def test_a_worker_that_hangs_at_its_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_process, "START_SECONDS", 0.05)
    async with running(monkeypatch, "frame()") as run:
        assert await asyncio.wait_for(run.ended, 30) == 1
    assert "stops: a worker was not ready within 0.05 s" in caplog.text


async def test_it_stops_when_no_worker_is_left_and_none_can_be_started(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(monkeypatch, SERVES_ONCE, count=1) as run:
        assert await asyncio.wait_for(run.ended, 30) == 1
    assert run.announced
    assert "was killed by SIGKILL" in caplog.text
    assert caplog.text.count("worker 1 could not start: no luck today") == FAILED_STARTS_MAX
    assert "stops: no worker is left, and none could start 5 times in a row: no luck today" in caplog.text


async def test_a_lost_worker_is_replaced_and_its_numbers_are_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(monkeypatch, SERVES) as run:
        await run.up()
        await run.asked()
        assert run.value("dragoman_requests_total") == 10
        assert run.value("dragoman_open_streams") == 2
        first = run.supervisor._registry.serving[1]
        first.kill()
        await until(lambda: run.supervisor._registry.serving.get(1, first) is not first)
        assert run.value("dragoman_requests_total") == 10
        assert run.value("dragoman_open_streams") == 1
        await run.asked()
        assert run.value("dragoman_requests_total") == 15
        assert run.value("dragoman_worker_restarts_total", worker="1") == 1
        assert run.value("dragoman_worker_up") == 2
    assert f"{first} was killed by SIGKILL" in caplog.text
    assert run.value("dragoman_requests_total") == 15, "last words count once"


async def test_a_worker_that_does_not_answer_is_down_and_its_numbers_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "ANSWER_SECONDS", 0.05)
    async with running(monkeypatch, SERVES) as run:
        await run.up()
        monkeypatch.setattr(registry, "ANSWER_SECONDS", 5)
        await run.asked()
        assert run.value("dragoman_worker_up") == 2
        monkeypatch.setattr(registry, "ANSWER_SECONDS", 0.05)
        (tmp_path / "silent").touch()
        await run.asked()
        assert run.value("dragoman_worker_up") == 0
        assert run.value("dragoman_requests_total") == 10


async def test_a_reload_replaces_all_or_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = 'sys.exit(5) if os.path.exists("broken") else serve()'
    async with running(monkeypatch, script) as run:
        await run.up()
        before, config = run.supervisor.pids(), run.supervisor._config
        (tmp_path / "broken").touch()
        run.configs += [
            config,
            ConfigError("knobs.x", "unknown key"),
            replace(config, server=Server(port=7, workers=2)),
        ]
        for output in (
            "could not reload, the old workers stay: a worker ended with status 5",
            "knobs.x",
            "server.port: ",
        ):
            run.supervisor.reload()
            await until(lambda output=output: output in caplog.text)  # type: ignore[misc]
            assert run.supervisor.pids() == before
        (tmp_path / "broken").unlink()
        run.configs.append(replace(config, server=Server(port=0, workers=3)))
        run.supervisor.reload()
        await until(lambda: "has reloaded; workers: 3" in caplog.text)
        assert len(run.supervisor.pids()) == 3
        assert not set(run.supervisor.pids()) & set(before)
        await until(lambda: len(run.supervisor._registry.workers) == 3)
        results = {
            result: run.value("dragoman_reloads_total", result=result) for result in ("failed", "refused", "done")
        }
        assert results == {"failed": 1, "refused": 2, "done": 1}
        assert run.value("dragoman_requests_total") == 10, "those of the workers that have left"


async def test_it_can_be_stopped_while_workers_start_or_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, "frame()") as run:
        await until(lambda: len(run.supervisor._registry.workers) == 2)
        run.supervisor.stop()
        assert await asyncio.wait_for(run.ended, 30) == 0
    monkeypatch.setattr(supervisor_module, "_PAUSE", 30)
    async with running(monkeypatch, SERVES) as run:
        await run.up()
        run.supervisor._registry.serving[2].kill()
        await until(lambda: len(run.supervisor._registry.workers) == 1)
        run.supervisor.stop()
        assert await asyncio.wait_for(run.ended, 30) == 0


def test_pauses_grow_to_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert [pause_before(failures) for failures in (1, 2, 3, 8, 9, 10, 1000)] == [0.1, 0.2, 0.4, 12.8, 25.6, 30, 30]
    assert cores() >= 1
