"""Common part of all load shapes: connections, the measurement window, and samples at its edges."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from dragoman_bench.delays import Delays
from dragoman_bench.plan import Plan
from dragoman_bench.processes import cpu_ns, memory_bytes, tree
from dragoman_bench.receiver import Receiver, Tally
from dragoman_bench.stamped_connection import StampedConnection

_CONNECT_WITHIN = 10.0
_ASK_WITHIN = 10.0
_STEP = 0.1
_PER_ADDRESS = 20_000
"""Maximum number of connections from one loopback address; a port range has some 28,000 ports."""


async def get_json(url: str, path: str) -> dict[str, Any]:
    """GET a JSON object from the upstream simulator. Raises OSError, TimeoutError, ValueError."""
    parts = urlsplit(url)
    async with asyncio.timeout(_ASK_WITHIN):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n".encode())
            answer = await reader.read()
        finally:
            writer.close()
    data: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return data


class Load:
    """Carries out a plan. `samples` holds the counters before the load and at the begin and end of the window."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tally = Tally()
        self.samples: dict[str, dict[str, Any]] = {}
        self.alone: Delays | None = None
        """Delays before the neighbours came."""
        self.alone_lag: Delays | None = None
        self.lag: Delays | None = None
        self.series: list[dict[str, float | None]] = []
        self.request = plan.request()
        self._connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, shape: Callable[[Load], Coroutine[Any, Any, None]]) -> None:
        """Run a load shape until the last reply has ended, or the plan's time limit. Errors of streams are counted."""
        await self.sample("before")
        try:
            async with asyncio.timeout(self.plan.limit):
                await shape(self)
        except TimeoutError:
            self.tally.error("time-limit", f"not done after {self.plan.limit:.0f} s; raise `limit` or reduce the load")
        for task in self._tasks:
            task.cancel()
        for receiver in tuple(self.tally.live):
            receiver.cut()

    async def sample(self, name: str) -> None:
        """Sample the counters: first memory, because reading it takes long, then CPU and counts at one instant."""
        plan, tally = self.plan, self.tally
        trees = {name: tree(pid) for name, pid in plan.watch.items()}
        memory = {name: memory_bytes(pids) for name, pids in trees.items()} if plan.memory else {}
        upstream: dict[str, Any] = {}
        if plan.upstream:
            with suppress(OSError, TimeoutError, ValueError):
                upstream = await get_json(plan.upstream, "/bench/stats")
        self.samples[name] = {
            "at_ns": time.monotonic_ns(),
            "cpu_ns": {name: cpu_ns(pids) for name, pids in trees.items()} | {"client": time.process_time_ns()},
            "pss": memory,
            "chunks": tally.chunks,
            "streams": tally.streams,
            "replies": tally.replies,
            "received": tally.received,
            "sent_events": upstream.get("events", 0),
        }

    async def window(self, alive: Callable[[], bool]) -> None:
        """Measure for the plan's `seconds`, or until `alive()` is False."""
        await self.sample("begin")
        self.tally.measuring = True
        steps = max(1, round(self.plan.seconds / _STEP))
        for _ in range(steps):
            if not alive():
                break
            await asyncio.sleep(self.plan.seconds / steps)
        self.tally.measuring = False
        await self.sample("end")

    async def connect(self, make: Callable[[], Receiver], sock: socket.socket | None = None) -> Receiver | None:
        """Open a connection. On failure, count an error and return None."""
        loop = asyncio.get_running_loop()
        self._connections += 1
        crowd = self._connections // _PER_ADDRESS
        local = (f"127.0.0.{1 + crowd % 250}", 0) if crowd else None
        try:
            async with asyncio.timeout(_CONNECT_WITHIN):
                if sock is not None:
                    sock.setblocking(False)
                    await loop.sock_connect(sock, self.plan.address)
                    return (await loop.create_connection(make, sock=sock))[1]
                return (await loop.create_connection(make, *self.plan.address, local_addr=local))[1]
        except (OSError, TimeoutError) as error:
            self.tally.error("connect", f"{error!r} at connection {self._connections}")
            if sock is not None:
                sock.close()
            return None

    async def connect_stamped(self, make: Callable[[], Receiver]) -> Receiver | None:
        """Open a connection whose data has the kernel's times. On failure, count an error and return None."""
        sock = socket.socket()
        sock.setblocking(False)
        try:
            async with asyncio.timeout(_CONNECT_WITHIN):
                await asyncio.get_running_loop().sock_connect(sock, self.plan.address)
        except (OSError, TimeoutError) as error:
            self.tally.error("connect", repr(error))
            sock.close()
            return None
        receiver = make()
        StampedConnection(sock, receiver)
        return receiver

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task, which is cancelled at the end of the load."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
