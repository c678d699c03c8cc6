"""The loads of `neighbours`, each made by a process of its own: `python -m dragoman_proof.load.noise`.

The process has the idle priority of the scheduler, as the upstream of its streams has: it shares its core with the
steady clients and their upstream, and delays neither.

The first line of stdin is an `Order` as JSON. The process prints a line when the load is there, and goes on until stdin
ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman_bench.gateways import Started
from dragoman_bench.processes import open_files_limit, run_when_idle
from dragoman_bench.rig import Rig, RigError
from dragoman_bench.wire import ENDLESS, Script
from dragoman_proof.load.churn import KINDS
from dragoman_proof.load.clients import Clients, Unread, reading
from dragoman_proof.load.reading import paused_upstreams
from dragoman_proof.load.rig import Stage
from dragoman_proof.load.sizes import Size

_SHORT = Script(2, 0, 32, joined=True)
_PACED = Script(ENDLESS, 2000, 32)
_PER_TURN = 5
_PAUSE = 0.25
"""Others come and go in small numbers, 20 a second, so that the load of a window is the same in each."""
_READY = b"ready\n"
_WITHIN = 120.0

Load = Callable[[Stage, Size, asyncio.Event], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Order:
    """A load that a process makes: its name and numbers, and the URLs of the gateway and of the upstreams."""

    load: str
    gateway: str
    upstreams: dict[str, str]
    size: dict[str, Any]


@asynccontextmanager
async def noise(running: Stage, load: str, size: Size) -> AsyncIterator[None]:
    """Make a load by another process while the context lasts. Raises RigError if it does not begin or fails."""
    upstreams = {name: rig.url for name, rig in running.upstreams.items()}
    order = json.dumps(asdict(Order(load, running.started.url, upstreams, asdict(size)))).encode()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dragoman_proof.load.noise",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(order + b"\n")
        async with asyncio.timeout(_WITHIN):
            ready = await process.stdout.readline()
        if ready != _READY:
            raise RigError(f"the load {load!r} did not begin")
        yield
        if process.returncode is not None:
            raise RigError(f"the load {load!r} failed: see its error output")
        process.stdin.close()
        async with asyncio.timeout(_WITHIN):
            await process.wait()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _make(order: Order) -> None:
    """Make a load until stdin ends. Raises the load's error."""
    upstreams = {name: Rig(url, 0, None) for name, url in order.upstreams.items()}
    running = Stage(Started(order.gateway, 0, _stop), upstreams, Path(), 1)
    ready = asyncio.Event()
    task = asyncio.create_task(LOADS[order.load](running, Size(**order.size), ready))
    begun = asyncio.create_task(ready.wait())
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    await asyncio.wait((task, begun), return_when=asyncio.FIRST_COMPLETED)
    if begun.done():
        print("ready", flush=True)
        await asyncio.wait((task, ended), return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    if not task.done():
        task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _stop() -> None:
    """Return at once: the process that has started the gateway stops it."""


def main() -> None:
    """Make the load that stdin orders."""
    order = Order(**json.loads(sys.stdin.readline()))
    open_files_limit()
    run_when_idle()
    asyncio.run(_make(order))


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


if __name__ == "__main__":
    main()
