"""Runs the soak: the load, the kills, the reloads and the samples, then the comparisons."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from dragoman import Dialect
from dragoman_bench.processes import memory_bytes
from dragoman_proof.soak.booking import Booked, compare
from dragoman_proof.soak.calls import day
from dragoman_proof.soak.clients import Clients, Outcome, clients
from dragoman_proof.soak.faulty import Faulty, faulty_upstreams
from dragoman_proof.soak.gateway import Running, redis, serving
from dragoman_proof.soak.samples import Sample, metrics, process
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows
from dragoman_server.simulator.app import make_simulator
from dragoman_server.simulator.ledger import Ledger

VICTIM: Final = 2
"""The number of the worker that is killed; the other one lives until the next reload."""
_FAULTS_EACH: Final = 4
"""Of so many requests, one is a case of the fault matrix."""
_AT_ONCE: Final = 200
_SETTLE: Final = 180.0
_PROGRESS: Final = 60.0
"""Seconds between two lines about the run on standard error."""
_TICK: Final = 0.25
_SLACK: Final = 2.0
"""Seconds before and after a call within which a kill may have ended it."""
_CONFIG: Final = """
[server]
workers = 2

[server.overload]
event_loop_lag = 0

[server.timeouts]
first_byte = 10
idle = 10
tool_stall = 10

[server.limits]
sse_line = 65536
sse_frame = 131072

[models]
unknown = "pass"
discover = false

[retries]
attempts = 1
failures = 0
backoff = 0.001
backoff_max = 0.01
budget = 1000.0

[usage]
kind = "jsonl"
path = "{folder}/usage"
max_bytes = 10000000000

[store]
timeout = 10
kind = "redis"
url = "{redis}"

[state]
timeout = 30
kind = "redis"
url = "{redis}"
background = 10000
ttl_days = 0.02

[keys.soak]
hash = "{hash}"
admin = true
daily_tokens = 10000000000
daily_cost = 1000000

[prices."*"]
input = 3.0
output = 15.0
"""
_PROVIDER: Final = '\n[providers."{name}"]\ndialect = "{dialect}"\nbase_url = "{url}"\n'
_ROUTE: Final = '\n[[routes]]\nmodel = "{name}/*"\nprovider = "{name}"\nupstream_model = "*"\nattempts = {attempts}\n'


@dataclass(frozen=True, slots=True)
class Plan:
    """A run. Times are in seconds, `rate` in requests a second. A reload lets all workers be replaced."""

    seconds: float
    rate: float = 10.0
    kill_every: float = 180.0
    reload_every: float = 3000.0
    sample_every: float = 10.0
    seed: int = 1


@dataclass(slots=True)
class Run:
    """The record of a run. `kills` and `reloads` are in seconds since the begin."""

    plan: Plan
    samples: list[Sample] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    reloads: list[float] = field(default_factory=list)
    requests: int = 0
    faults: int = 0
    cut: int = 0
    """Calls that a kill ended."""
    skipped: int = 0
    """Requests that were not sent, as too many were open."""
    late: float = 0.0
    """The longest time in seconds that this process, which has the clients and the upstreams, stood still."""
    booked: Booked = field(default_factory=Booked)
    violations: list[str] = field(default_factory=list)


class Soak:
    """The load and what disturbs it, against one gateway."""

    def __init__(
        self, plan: Plan, gateway: Running, users: Clients, faulty: Sequence[Faulty], redis_pid: int, run: Run
    ) -> None:
        self._plan, self._gateway, self._users, self._faulty, self._run = plan, gateway, users, faulty, run
        self._redis = redis_pid
        self._begun = self._reported = time.monotonic()
        self._open: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Send the load for the time of the plan, and wait until all has ended."""
        for each in self._faulty:
            await asyncio.gather(*(self._users.break_stream(each.part, *each.next()) for _ in range(each.sound)))
            self._run.faults += each.sound
        self._begun = time.monotonic()
        chance, plan = random.Random(self._plan.seed), self._plan
        disturbing = [
            asyncio.create_task(self._every(plan.kill_every, self._kill, lambda: chance.uniform(0.7, 1.3))),
            asyncio.create_task(self._every(plan.reload_every, self._reload)),
            asyncio.create_task(self._every(plan.sample_every, self._sample)),
            asyncio.create_task(self._watch()),
        ]
        try:
            await self._send()
        finally:
            for task in disturbing:
                task.cancel()
            for done in await asyncio.gather(*disturbing, return_exceptions=True):
                if isinstance(done, Exception):
                    raise done
        await self._sample()
        if self._open:
            await asyncio.wait(self._open, timeout=_SETTLE)
        if self._open:
            self._run.violations.append(f"{len(self._open)} calls have not ended")

    async def _send(self) -> None:
        calls, number = day(self._plan.seed, 10**9), 0
        while (now := time.monotonic() - self._begun) < self._plan.seconds:
            if (due := number / self._plan.rate) > now:
                await asyncio.sleep(min(due - now, 1.0))
                continue
            number += 1
            if len(self._open) >= _AT_ONCE:
                self._run.skipped += 1
            elif number % _FAULTS_EACH:
                self._run.requests += 1
                self._spawn(self._users.play(next(calls)))
            else:
                self._run.faults += 1
                each = self._faulty[number // _FAULTS_EACH % len(self._faulty)]
                self._spawn(self._users.break_stream(each.part, *each.next()))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _every(
        self, seconds: float, act: Callable[[], Awaitable[None]], factor: Callable[[], float] = lambda: 1.0
    ) -> None:
        while True:
            await asyncio.sleep(seconds * factor())
            await act()

    async def _watch(self) -> None:
        while True:
            due = time.monotonic() + _TICK
            await asyncio.sleep(_TICK)
            self._run.late = max(self._run.late, time.monotonic() - due)

    async def _kill(self) -> None:
        self._gateway.kill(VICTIM)
        self._run.kills.append(time.monotonic() - self._begun)

    async def _reload(self) -> None:
        self._gateway.reload()
        self._run.reloads.append(time.monotonic() - self._begun)

    async def _sample(self) -> None:
        page = ""
        try:
            url, users = f"{self._users.url}/metrics", self._users
            async with users.fresh.get(url, headers=users.headers, timeout=aiohttp.ClientTimeout(30)) as response:
                page = await response.text()
        except (aiohttp.ClientError, TimeoutError):
            pass  # the worker that was to answer was killed
        now = time.monotonic()
        found = [each for life in self._gateway.lives if (each := process(life, now)) is not None]
        memory = memory_bytes([self._redis], "Anonymous")
        self._run.samples.append(Sample(now - self._begun, found, metrics(page), memory))
        if now - self._reported >= _PROGRESS:
            self._reported = now
            sizes = ", ".join(f"{each.name} {each.own / 2**20:.1f} MiB" for each in found)
            failed = sum(1 for each in self._users.outcomes if each.problem is not None)
            ended = f"{len(self._users.outcomes):,} calls, {failed} failed or cut by {len(self._run.kills)} kills"
            print(f"{(now - self._begun) / 60:.0f} min: {ended}; {sizes}", file=sys.stderr, flush=True)

    def cut(self, outcome: Outcome) -> bool:
        """True if a process was killed while a call ran."""
        begun, ended = outcome.begun - self._begun - _SLACK, outcome.ended - self._begun + _SLACK
        return any(begun <= at <= ended for at in self._run.kills)


async def soak(plan: Plan) -> Run:
    """Run a plan. Raises FileNotFoundError where redis-server is not installed."""
    run, ledger = Run(plan), Ledger()
    with tempfile.TemporaryDirectory(prefix="dragoman-soak-") as folder:
        async with _simulator(ledger) as url, faulty_upstreams(plan.seed) as faulty:
            await _against(Path(folder), url, faulty, ledger, run)
    return run


async def _against(folder: Path, url: str, faulty: Sequence[Faulty], ledger: Ledger, run: Run) -> None:
    """Run a gateway before these upstreams, send it the load, and compare what it booked."""
    usage, key = UsageOptions("jsonl", f"{folder}/usage"), new_key()
    config = folder / "dragoman.toml"
    async with redis() as (store, redis_pid):
        config.write_text(_configured(url, faulty, store, str(KeyHash.of(key)), folder))
        async with serving(config) as gateway, clients(gateway.url, key) as users:
            work = Soak(run.plan, gateway, users, faulty, redis_pid, run)
            await work.run()
            cut = frozenset(each.model for each in users.outcomes if work.cut(each))
            failed = [each for each in users.outcomes if each.problem is not None]
            run.violations += [f"{each.model}: {each.problem}" for each in failed if each.model not in cut]
            run.cut = sum(1 for each in failed if each.model in cut)
            await _settled(usage, ledger, faulty)
            if (status := await gateway.stop()) != 0:
                run.violations.append(f"the gateway ended with status {status}")
            run.violations += [f"logged: {line}" for line in gateway.errors]
    broken = dict(pair for each in faulty for pair in each.received())
    try:
        run.booked = compare(read_rows(usage), ledger, broken, cut, frozenset(each.model for each in failed))
    except (KeyError, TypeError, ValueError, OSError) as error:  # hours of samples must not be lost for it
        run.violations.append(f"the rows of usage cannot be compared: {error!r}")
    run.violations += run.booked.violations


async def _settled(usage: UsageOptions, ledger: Ledger, faulty: Sequence[Faulty]) -> None:
    """Wait until each request that was received has a row: those of killed processes are booked by the others."""
    expected = {*ledger.by_model(), *(model for each in faulty for model, _ in each.received())}
    deadline = time.monotonic() + _SETTLE
    while time.monotonic() < deadline:
        if not expected - {row["model"].partition("/")[2] for row in read_rows(usage)}:
            return
        await asyncio.sleep(1)


def _configured(url: str, faulty: Sequence[Faulty], store: str, key: str, folder: Path) -> str:
    text = _CONFIG.format(folder=folder, redis=store, hash=key)
    for each in Dialect:
        base = f"{url}/v1" if each in (Dialect.CHAT, Dialect.RESPONSES) else url
        text += _PROVIDER.format(name=each, dialect=each, url=base) + _ROUTE.format(name=each, attempts=3)
    for broken in faulty:
        text += _PROVIDER.format(name=broken.name, dialect=broken.part.upstream, url=broken.upstream.url)
        text += _ROUTE.format(name=broken.name, attempts=1)
    return text


@asynccontextmanager
async def _simulator(ledger: Ledger) -> AsyncIterator[str]:
    # A client that is gone while the simulator writes is no defect. What is one shows in the ledger.
    logger = logging.getLogger("dragoman_proof.simulator")
    logger.setLevel(logging.CRITICAL)
    app = make_simulator(ledger=ledger, retry_after=0.0)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2, logger=logger)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
