"""The delays of steady clients, alone and together with each kind of load, in turns.

A delay is from the upstream's write to the time at which the kernel had the data for the client (`SO_TIMESTAMPNS`).
Each window with others stands between two windows alone, and is compared with their mean: other work of the machine
that lasts longer than a window slows all three. The median of these ratios counts, so that one pause decides nothing.
In a window with others, the loads go on all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import Any

from dragoman_bench.wire import ENDLESS, Script
from dragoman_proof.load.churn import KINDS
from dragoman_proof.load.clients import Clients, Unread, reading, steady
from dragoman_proof.load.outcome import Outcome
from dragoman_proof.load.reading import paused_upstreams
from dragoman_proof.load.rig import Stage, noise_and_steady, stage
from dragoman_proof.load.sizes import Size

MOST = 1.2
"""The 99th percentile with others, in multiples of that alone."""
_SHORT = Script(2, 0, 32, joined=True)
_PACED = Script(ENDLESS, 2000, 32)
_PER_TURN = 5
_PAUSE = 0.25
"""Others come and go in small numbers, 20 a second, so that the load of a window is the same in each."""

_WRITE = 600.0
"""No client is ended in a window."""

Load = Callable[[Stage, Size, asyncio.Event], Coroutine[Any, Any, None]]


async def neighbours(size: Size) -> Outcome:
    """Measure steady clients alone and together with each load."""
    outcome = Outcome("neighbours", f"{size.steady} steady streams of 40 deltas a second beside each of the loads")
    async with stage(noise_and_steady(), write=_WRITE) as running, steady(running, size.steady) as clients:
        for name in size.loads or LOADS:
            figures = outcome.figures[name] = await _turns(running, clients, LOADS[name], size)
            alone, beside = median(figures["alone_p99_ms"]), median(figures["beside_p99_ms"])
            ratio = figures["ratio"] = ratio_of(figures["alone_p99_ms"], figures["beside_p99_ms"])
            if size.timed:
                found = f"{ratio:.2f} × ({alone:.2f} and {beside:.2f} ms)"
                outcome.check(f"{name}: the 99th percentile is at most {MOST} × that alone", ratio <= MOST, found)
    streams = clients.tally.streams
    complete = streams == size.steady and not clients.tally.errors
    outcome.check("all steady streams are complete", complete, f"{streams} of {size.steady}, {clients.tally.errors}")
    return outcome.ended()


async def _turns(running: Stage, clients: Clients, load: Load, size: Size) -> dict[str, Any]:
    """Measure alone and together with a load, in turns. Returns the figures."""
    alone, beside, cpu, waited = list[float](), list[float](), list[float](), list[float]()
    alone.append(await _window(clients, size))
    for _ in range(size.rounds):
        ready = asyncio.Event()
        task = asyncio.create_task(load(running, size, ready))
        try:
            await ready.wait()
            before = running.used()
            beside.append(await _window(clients, size))
            after = running.used()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        cpu.append((after.cpu_ns - before.cpu_ns) / 1e9 / size.window)
        waited.append((after.waited_ns - before.waited_ns) / 1e9 / size.window)
        await running.quiet()
        alone.append(await _window(clients, size))
    return {
        "alone_p99_ms": alone,
        "beside_p99_ms": beside,
        "cpu_share": median(cpu),
        "share_waited_for_a_core": median(waited),
    }


def ratio_of(alone: Sequence[float], beside: Sequence[float]) -> float:
    """Return the median ratio of each window with others to the mean of the two windows alone around it."""
    return median(each / max(sum(pair) / 2, 1e-6) for each, pair in zip(beside, pairwise(alone), strict=True))


async def _window(clients: Clients, size: Size) -> float:
    """Return the 99th percentile of the delays in a window, in milliseconds."""
    with clients.measured() as delays:
        await asyncio.sleep(size.window)
    found: float = delays.summary().get("p99", 0.0)
    return found


async def _stopped(running: Stage, size: Size, ready: asyncio.Event) -> None:
    """As many clients as in `stopped` have stopped: their upstreams are paused."""
    clients = Unread()
    try:
        await clients.open(running, size.stopped)
        await paused_upstreams(running, size.stopped)
        ready.set()
        await asyncio.Event().wait()
    finally:
        clients.close()


async def _flooding(running: Stage, size: Size, ready: asyncio.Event) -> None:
    """A tenth as many clients as in `stopped` come, read nothing of a stream at full speed, and leave, all the time."""
    ready.set()
    while True:
        clients = Unread()
        try:
            await clients.open(running, max(1, size.stopped // 10))
            await paused_upstreams(running, max(1, size.stopped // 10))
        finally:
            clients.close()
        await running.quiet()


async def _slow(running: Stage, size: Size, ready: asyncio.Event) -> None:
    """A tenth as many clients as in `slow` read slowly."""
    clients = Unread()
    try:
        await clients.open(running, max(1, size.slow // 10))
        async with reading(clients, size.slow_bytes_per_s):
            await paused_upstreams(running, max(1, size.slow // 10))
            ready.set()
            await asyncio.Event().wait()
    finally:
        clients.close()


async def _leaving(running: Stage, size: Size, ready: asyncio.Event) -> None:
    """Clients come and leave in mid-stream."""
    ready.set()
    while True:
        clients = Clients(running, _PACED)
        try:
            await clients.open(_PER_TURN)
            await asyncio.sleep(_PAUSE)
        finally:
            clients.leave()


async def _churn(running: Stage, size: Size, ready: asyncio.Event) -> None:
    """Connections of each kind come and go."""
    request = running.plan(_SHORT).request()
    ready.set()
    while True:
        for visit in KINDS.values():
            await visit(running, request)
        await asyncio.sleep(_PAUSE)


async def _open(running: Stage, size: Size, ready: asyncio.Event) -> None:
    """A twentieth of the streams of `open` are open, with a delta every two seconds."""
    clients = Clients(running, _PACED)
    try:
        await clients.open(max(1, size.open // 20))
        ready.set()
        await asyncio.Event().wait()
    finally:
        clients.cut()


LOADS: dict[str, Load] = {
    "stopped": _stopped,
    "slow": _slow,
    "flooding": _flooding,
    "leaving": _leaving,
    "churn": _churn,
    "open": _open,
}
