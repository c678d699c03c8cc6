"""`python -m dragoman_server.simulator --port N --pace 0.02`: serves the simulated upstream on its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal

from aiohttp import web

from dragoman_server.simulator.app import make_simulator


async def serve(host: str, port: int, app: web.Application) -> None:
    """Serve until SIGINT or SIGTERM. Port 0 selects a free one; the address is printed once it is open."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows has no signal handlers in event loops
            loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=4096)
        await site.start()
        bound = runner.addresses[0]
        print(f"simulator listening on http://{bound[0]}:{bound[1]}", flush=True)
        await stop.wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m dragoman_server.simulator", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8811, help="0 selects a free one")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds between two frames")
    parser.add_argument("--slow", type=float, default=1.0, help="seconds before sim-slow's first byte")
    parser.add_argument("--stall", type=float, default=60.0, help="seconds before a stalled stream is closed")
    parser.add_argument("--retry-after", type=float, default=1.0, help="value of retry-after, in seconds")
    parser.add_argument("--require-key", action="store_true", help="reject requests without an API key")
    given = parser.parse_args()
    app = make_simulator(
        given.pace,
        given.require_key,
        slow=given.slow,
        stall=given.stall,
        retry_after=given.retry_after,
    )
    asyncio.run(serve(given.host, given.port, app))


if __name__ == "__main__":
    main()
