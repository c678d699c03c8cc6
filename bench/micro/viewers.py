"""Measure what a viewer of the console costs the gateway for each chunk of other clients' streams.

python bench/micro/viewers.py [--streams 1000] [--seconds 5] [--pairs 6]

Paced streams are open all the time. Windows with a viewer of the live table and without one take turns, so that what
else the machine does meets both. A figure is the CPU time of the gateway's process in a window, divided by the chunks
that arrived, in microseconds. Needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from typing import cast

import uvloop

from dragoman_bench.gateways.dragoman import config
from dragoman_bench.gateways.launch import free_port, launch, own_module
from dragoman_bench.plan import Plan
from dragoman_bench.processes import cpu_ns, resident_bytes
from dragoman_bench.upstream import serve
from dragoman_bench.wire import ENDLESS, Script

_PACE_MS = 250
_ROWS = 100
"""Rows of the live table: the most that the page requests."""
_SETTLE = 0.5
"""Seconds between a change of viewers and the next window."""
_VIEW = b"GET /ui/api/live?rows=%d HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % _ROWS


class Client(asyncio.Protocol):
    """A connection that sends a request and counts the occurrences of `mark` in what comes back."""

    def __init__(self, request: bytes, mark: bytes) -> None:
        self._request = request
        self._mark = mark
        self.received = 0
        self.begun = asyncio.Event()
        """Set by the first mark."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Count the marks."""
        self.received += data.count(self._mark)
        if self.received:
            self.begun.set()

    async def connect(self, port: int) -> None:
        """Connect to the gateway on `port`, and wait for the first mark."""
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)
        await self.begun.wait()


async def _window(streams: Sequence[Client], pid: int, seconds: float) -> float:
    """Return the microseconds of CPU time per chunk in the next seconds."""
    await asyncio.sleep(_SETTLE)
    chunks, spent = sum(stream.received for stream in streams), cpu_ns([pid])
    await asyncio.sleep(seconds)
    spent = cpu_ns([pid]) - spent
    return spent / 1000 / (sum(stream.received for stream in streams) - chunks)


async def measure(options: argparse.Namespace) -> tuple[list[float], list[float], int]:
    """Return the windows without a viewer, those with one, and the bytes of memory at the end."""
    server, simulator = await serve()
    port = free_port()
    files = {"config.toml": config(port, "chat", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")}
    command, env = own_module("dragoman_server", "serve", "--quiet", "--ui", "{folder}/config.toml")
    gateway = await launch(command, port, None, env=env, files=files, ready="/health")
    alone, viewed = list[float](), list[float]()
    try:
        plan = Plan(gateway.url, "messages", "closed", Script(ENDLESS, _PACE_MS, 32).model, 1, stream=True)
        streams = [Client(plan.request(), b"event: content_block_delta") for _ in range(options.streams)]
        for at in range(0, len(streams), 50):
            await asyncio.gather(*(stream.connect(port) for stream in streams[at : at + 50]))
        for _ in range(options.pairs):
            alone.append(await _window(streams, gateway.pid, options.seconds))
            viewer = Client(_VIEW, b"data: ")
            await viewer.connect(port)
            viewed.append(await _window(streams, gateway.pid, options.seconds))
            assert viewer.received > options.seconds / 2, "the viewer got nothing"
            viewer.transport.abort()
        return alone, viewed, resident_bytes([gateway.pid])
    finally:
        await gateway.stop()
        server.close()
        simulator.pacer.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0, help="the length of a window")
    parser.add_argument("--pairs", type=int, default=6)
    options = parser.parse_args(arguments)
    alone, viewed, memory = uvloop.run(measure(options))
    for name, found in (("without a viewer", alone), ("with a viewer", viewed)):
        print(f"{name:18} {statistics.median(found):8.2f} µs per chunk, windows: {[round(each, 1) for each in found]}")
    ratio = statistics.median(viewed) / statistics.median(alone)
    print(f"ratio {ratio:.3f}; {memory / 1e6:.0f} MB with {options.streams} streams")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
