"""Many open streams through one worker and through two: memory, CPU time, lag, and whether all are complete."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

from dragoman_bench.load import Load, get_json
from dragoman_bench.wire import ENDLESS, Script
from dragoman_proof.load.clients import Clients
from dragoman_proof.load.outcome import Outcome
from dragoman_proof.load.rig import RESUME, RUNS, SQLITE, Stage, Usage, stage
from dragoman_proof.load.sizes import Size, fitting

_PACE_MS = 4000
"""Between two deltas of a stream: 20,000 streams have 5,000 deltas a second."""
_SHARE = 9_000
"""The most streams of one holder and of one upstream: each is a process with one file per stream."""
_RAMP = 400.0
_WORKER = 400 * 2**20
"""Most memory of a worker, in bytes."""
_STEPS = 4
"""Memory is read this many times while the streams open."""
_LAG = 100
_WITHIN = 1800.0
"""Seconds for the start or the end of a holder's streams, on a busy machine too."""


async def open_streams(size: Size, workers: int = 1) -> Outcome:
    """Open many streams, measure while all are open, then let them end."""
    detached = size.detached
    count, remark = fitting(size.open, workers, detached=detached)
    several = f"{workers} workers" if workers > 1 else "one worker"
    mix = f", of which {detached:,} are runs whose client has left" if detached else ""
    outcome = Outcome(
        f"open-{workers}", f"{count:,} open streams through {several}, a delta each {_PACE_MS // 1000} s{mix}"
    )
    outcome.remarks += [remark] if remark else []
    shares = _shares(count - detached)
    scripts = [Script(ENDLESS, _PACE_MS, 32 + number) for number in range(len(shares))]
    models = {f"part{number}": script.model for number, script in enumerate(scripts)}
    left = Script(ENDLESS, _PACE_MS, 32 + len(shares))
    models |= {"left": left.model} if detached else {}
    more = RUNS + SQLITE if detached else ""
    async with stage({**models, "rest": "*"}, workers=workers, more=more) as running:
        empty = running.used()
        series = [_point(running, 0, empty)]
        if detached:
            await _leave(running, left, detached, outcome)
            series.append(_point(running, detached, running.used()))
        async with _holders(running, shares, scripts, outcome) as holders:
            for holder, share in zip(holders, shares, strict=True):
                await holder.begin()
                series.append(_point(running, series[-1]["streams"] + share, running.used()))
            opened = running.used()
            sent = await _events(running, models)
            lag = await _lag(running, size)
            done, sent = running.used(), await _events(running, models) - sent
            for name in models:
                await get_json(running.upstreams[name].url, "/bench/finish")
            counts = [await holder.end() for holder in holders]
        rows = await running.booked_all(count)
        ends = Counter(row["ended"] for row in running.rows())
        after = running.used()
    _report(outcome, count, [empty, opened, done, after], sent, series)
    outcome.figures["health_ms"] = lag
    streams, errors = sum(part["streams"] for part in counts), [part["errors"] for part in counts if part["errors"]]
    attached = count - detached
    found = f"{streams} of {attached}, {errors or ''}"
    outcome.check("all streams are complete", streams == attached and not errors, found)
    if detached:
        outcome.figures["detached"] = detached
        outcome.check("streams without a client are complete", ends == {"completed": count}, dict(ends))
    once = len(rows) == count and set(rows.values()) == {1}
    outcome.check("each is booked once", once, f"{len(rows)} rows")
    if size.timed:
        heaviest = max(done.private.values())
        held = heaviest < _WORKER
        outcome.check(f"a worker has less than {_WORKER >> 20} MB", held, f"{heaviest / 2**20:.0f} MB")
    return outcome.ended()


def _shares(count: int) -> list[int]:
    """Return the streams of each holder: at least two, so that memory is read between them."""
    parts = max(_STEPS, -(-count // _SHARE))
    return [count * (number + 1) // parts - count * number // parts for number in range(parts)]


def _point(running: Stage, streams: int, used: Usage) -> dict[str, Any]:
    workers = sorted(used.private.values(), reverse=True)[: running.workers]
    return {"streams": streams, "bytes": used.bytes, "worker_bytes": workers, "files": used.files}


def _report(outcome: Outcome, count: int, used: Sequence[Usage], sent: int, series: list[dict[str, Any]]) -> None:
    empty, opened, done, after = used
    outcome.figures |= {
        "streams": count,
        "bytes_per_stream": (done.bytes - empty.bytes) / count,
        "cpu_us_per_start": (opened.cpu_ns - empty.cpu_ns) / 1e3 / count,
        "cpu_us_per_chunk": (done.cpu_ns - opened.cpu_ns) / 1e3 / max(sent, 1),
        "cpu_us_per_stream": (after.cpu_ns - empty.cpu_ns) / 1e3 / count,
        "chunks_in_window": sent,
        "waited_for_a_core_s": (after.waited_ns - empty.waited_ns) / 1e9,
        "memory": series,
        "bytes_after": after.bytes,
    }


async def _events(running: Stage, upstreams: Iterable[str]) -> int:
    return sum([(await running.stats(name))["events"] for name in upstreams])


async def _leave(running: Stage, script: Script, count: int, outcome: Outcome) -> None:
    """Open streams that go on without their clients, and leave them."""
    clients = Clients(running, script)
    clients.load = Load(replace(running.plan(script), headers=RESUME))
    await clients.open(count)
    begun = clients.open_streams
    clients.cut()
    outcome.check("all streams without a client begin", begun == count, f"{begun} of {count}")


async def _lag(running: Stage, size: Size) -> dict[str, float]:
    """Return percentiles of the time of `GET /health`, in ms, over some seconds, while all streams are open."""
    loop, times = asyncio.get_running_loop(), list[float]()
    reader, writer = await asyncio.open_connection(*running.plan(Script(1)).address)
    for _ in range(_LAG if size.timed else 5):
        at = loop.time()
        writer.write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"}")
        times.append((loop.time() - at) * 1e3)
        await asyncio.sleep(size.window * 2 / _LAG)
    writer.close()
    times.sort()
    return {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "max": times[-1]}


class _Holding:
    def __init__(self, process: asyncio.subprocess.Process, plan: dict[str, Any], outcome: Outcome) -> None:
        self._process, self._plan, self._outcome = process, plan, outcome

    async def begin(self) -> None:
        """Open the streams."""
        begun = await self._ask(json.dumps(self._plan))
        if begun["begun"] != self._plan["streams"]:
            found = f"{begun['begun']} of {self._plan['streams']}, {begun['errors']}"
            self._outcome.check("all streams begin", False, found)

    async def end(self) -> dict[str, Any]:
        """Wait for the ends of the streams. Returns the counts."""
        return await self._ask("")

    async def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        async with asyncio.timeout(_WITHIN):
            answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return answer


@asynccontextmanager
async def _holders(
    running: Stage, shares: Sequence[int], scripts: Sequence[Script], outcome: Outcome
) -> AsyncIterator[list[_Holding]]:
    """Start a process for each share of the streams."""
    async with AsyncExitStack() as stack:
        holders = []
        for share, script in zip(shares, scripts, strict=True):
            pipe = asyncio.subprocess.PIPE
            words = ("-m", "dragoman_proof.load.holder")
            process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=pipe, stdout=pipe)
            stack.push_async_callback(_kill, process)
            plan = replace(running.plan(script, share), ramp_per_s=_RAMP)
            holders.append(_Holding(process, asdict(plan), outcome))
        yield holders


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
