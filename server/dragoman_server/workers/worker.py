"""Worker process: `python -m dragoman_server.workers.worker FD`, started by `workers.supervisor` only.

FD is this end of a socket pair. The configuration arrives over it, so that no key is on a command line, and so do the
orders: which listening sockets to accept from, to drain (`retire`), to stop. The worker also stops if the supervisor
closes the socket.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from dragoman import DragomanError, Failure
from dragoman.aio import HijackRunner, HijackServer
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.wire import Json
from dragoman_server.app import make_app
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.schema import Config
from dragoman_server.observability.aiohttp_log import ServerLog
from dragoman_server.observability.logs import configure, name_host
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.unhandled_requests import connection_limits
from dragoman_server.workers.drain import LINGER, ConnectionDrain
from dragoman_server.workers.ipc import IpcChannel, Unanswered, receive_first
from dragoman_server.workers.old_objects import collected_rarely
from dragoman_server.workers.serve import DRAIN, run_loop, with_simulator

REPORT_EVERY = 5.0
"""Seconds between two reports of a worker's metrics. A crash loses what was counted after the last report."""
ASK_SECONDS = 3.0
"""Maximum wait for an answer of the supervisor, in seconds; longer than `registry.ANSWER_SECONDS`."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The first message to a worker: what it serves.

    `listeners` are the file descriptors of the listening sockets, by share. `sender` identifies the gateway, so that it
    recognizes its own requests (a routing loop). `drain` is the time in seconds that open replies have at a stop,
    `linger` that idle connections stay open while the worker drains.
    """

    number: int
    config: Config
    listeners: list[list[int]]
    sender: str
    log_level: int = logging.INFO
    log_format: str = "text"
    drain: float = DRAIN
    linger: float = LINGER


class Worker:
    """A gateway that follows the orders of its supervisor."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._shares = [[socket.socket(fileno=fd) for fd in group] for group in assignment.listeners]
        self._sites: dict[int, list[web.SockSite]] = {}
        self._wanted_shares: list[int] = []
        self._changed = asyncio.Event()
        self._retire = False
        self._stop = asyncio.Event()
        self._gateway: Gateway | None = None

    def on_message(self, what: str, message: Json) -> None:
        """Follow an order: `listen` (accept from `shares`), `leave` (be not ready), `retire` (drain), `stop`, `hurry`.

        After `hurry` a stop waits for no reply.
        """
        if what == "listen":
            self._wanted_shares = message["shares"]
        elif what == "leave":
            if self._gateway is not None:
                self._gateway.leave()
        elif what == "retire":
            self._retire = True
        elif what == "stop":
            self._stop.set()
        elif what == "hurry" and self._gateway is not None:
            self._gateway.hurry()
        self._changed.set()

    def stop(self) -> None:
        """Stop, as after the order `stop`."""
        self.on_message("stop", {})

    async def answer(self, what: str, message: Json) -> Any:
        """Answer a question: `totals`, the number of `open` requests, a question of another worker's `console`, the
        `receipt` of a request, the last `receipts`.

        `owner` is the digest of the key that the requests were made with.
        """
        gateway = self._gateway
        if gateway is None:
            raise Unanswered
        if what == "totals":
            return gateway.metrics.snapshot().pack()
        if what == "open":
            return gateway.open_requests
        if what == "console":
            question = message["question"]
            return gateway.state() if question["kind"] == "state" else gateway.console_answer(question)
        owner = bytes.fromhex(message["owner"])
        if what == "receipts":
            return gateway.receipts.last(owner, message["most"])
        receipt = gateway.receipts.find(message["id"], owner)
        return receipt.json(gateway.host).decode() if receipt is not None else None

    async def serve(self, channel: IpcChannel) -> None:
        """Serve until the order `retire` or `stop`. Raises ConfigError or OSError if it cannot start."""
        assignment = self._assignment
        async with with_simulator(assignment.config) as (config, _):
            gateway = self._gateway = Gateway(
                config, sender=assignment.sender, siblings=_OtherWorkers(channel), lines=True
            )
            app = make_app(config, gateway=gateway, drain=assignment.drain)
            drain = ConnectionDrain(app, linger=assignment.linger)
            totals = gateway.metrics.totals
            bounds = connection_limits(config.server, totals)
            closes_kept = config.server.shutdown_delay > 0
            runner = HijackRunner(
                app, shutdown_timeout=1.0, log=ServerLog(totals), limits=bounds, closes_kept=closes_kept
            )
            await runner.setup()
            reports = asyncio.create_task(self._report(channel, gateway))
            try:
                channel.send("ready")
                gateway.discover()
                with collected_rarely(lambda: gateway.open_requests):
                    await self._accept(runner)
                if not self._stop.is_set() and runner.connections is not None:
                    drain.begin(runner.connections)
                    gateway.services.websockets.leave()
                    if not await self._drain_connections(drain, runner.connections):
                        await gateway.stop(0.0)
            finally:
                reports.cancel()
                await runner.cleanup()
                # All replies have ended: these metrics are final.
                totals_now = gateway.metrics.snapshot().pack()
                channel.send("totals", totals=totals_now, ended_by_stop=gateway.ended_by_stop)

    async def _accept(self, runner: web.AppRunner) -> None:
        """Accept from the assigned shares until the order `retire` or `stop`."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            stopping = self._retire or self._stop.is_set()
            wanted = [] if stopping else self._wanted_shares
            for share in [share for share in self._sites if share not in wanted]:
                for site in self._sites.pop(share):
                    await site.stop()
            if stopping:
                break
            for share in wanted:
                if share not in self._sites:
                    # A duplicate: the site closes its socket, and the share may be assigned again later.
                    backlog = self._assignment.config.server.backlog
                    self._sites[share] = [
                        web.SockSite(runner, sock.dup(), backlog=backlog) for sock in self._shares[share]
                    ]
                    for site in self._sites[share]:
                        await site.start()
        for sock in (sock for share in self._shares for sock in share):
            sock.close()

    async def _drain_connections(self, retirement: ConnectionDrain, lines: HijackServer) -> bool:
        """Wait until all connections have ended, or for the order `stop`. Return False if it took too long."""
        finishing = asyncio.create_task(retirement.finish(lines, self._assignment.config.server.reload_drain))
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait({finishing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (finishing, stopped):
            task.cancel()
        return not finishing.done() or finishing.result()

    async def _report(self, channel: IpcChannel, gateway: Gateway) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY)
            channel.send("totals", totals=gateway.metrics.snapshot().pack())


class _OtherWorkers:
    """Reaches the other workers through the supervisor (`PeerWorkers`)."""

    def __init__(self, channel: IpcChannel) -> None:
        self._channel = channel

    async def totals(self) -> Totals:
        return Totals.unpack(await self._ask("totals"))

    async def receipt(self, request_id: str, owner: bytes) -> bytes | None:
        found: str | None = await self._ask("receipt", id=request_id, owner=owner.hex())
        return found.encode() if found is not None else None

    async def receipts(self, owner: bytes, most: int) -> list[Json]:
        found: list[Json] = await self._ask("receipts", owner=owner.hex(), most=most)
        return found

    async def console(self, question: Json) -> list[Json]:
        answers: list[Json] = await self._ask("console", question=question)
        return answers

    async def _ask(self, what: str, **more: Any) -> Any:
        try:
            return await self._channel.ask(what, ASK_SECONDS, **more)
        except Unanswered:
            message = "the gateway's other processes did not answer; try again"
            failure = Failure(FailureKind.OVERLOADED, message, 503, origin=FailureOrigin.PROXY)
            raise DragomanError(failure) from None


async def run_worker(assignment: Assignment, sock: socket.socket) -> int:
    """Run one worker on its end of the socket pair. Return the exit status."""
    worker = Worker(assignment)
    channel = await IpcChannel.open(sock, worker.on_message, worker.answer)
    reading = asyncio.create_task(channel.run())
    reading.add_done_callback(lambda _: worker.stop())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    try:
        await worker.serve(channel)
    except (ConfigError, OSError) as error:
        channel.send("failed", message=str(error))
        return 1
    except Exception:
        channel.send("failed", message=traceback.format_exc())
        return 1
    finally:
        await channel.close()
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the process. Return the exit status."""
    args = sys.argv[1:] if argv is None else list(argv)
    if len(args) != 1 or not args[0].isdigit():
        print("this module is started by `dragoman serve --workers N`", file=sys.stderr)
        return 2
    # The supervisor handles Ctrl-C and the hang-up of the terminal.
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    sock = socket.socket(fileno=int(args[0]))
    try:
        assignment: Assignment = pickle.loads(receive_first(sock))
    except EOFError:
        return 1
    configure(assignment.log_level, assignment.log_format, worker=assignment.number)
    name_host(assignment.config.server.host_name)
    return run_loop(run_worker(assignment, sock))


if __name__ == "__main__":
    # Imported under its own name, because the pickle names the module of its class.
    from dragoman_server.workers.worker import main as worker_main

    sys.exit(worker_main())
