"""Command line and event loop of the rig's own gateways: an asyncio server on uvloop until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Place:
    """The command line: port, upstream, and dialects."""

    port: int
    upstream: str
    host: str
    upstream_port: int
    client: str
    dialect: str


End = Callable[[], Awaitable[None]]
"""A function that closes what a gateway has opened."""


def serve(begin: Callable[[Place], Awaitable[End]]) -> None:
    """Call `begin` in an event loop, serve until SIGTERM, then call its result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True, metavar="URL")
    parser.add_argument("--client", required=True)
    parser.add_argument("--dialect", required=True)
    args = parser.parse_args()
    parts = urlsplit(args.upstream)
    place = Place(args.port, args.upstream, parts.hostname or "", parts.port or 80, args.client, args.dialect)

    async def main() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        end = await begin(place)
        await stop.wait()
        await end()

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
