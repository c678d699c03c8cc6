"""A worker from the supervisor's side: its process, the channel to it, and its state."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dragoman.wire import Json
from dragoman_server.observability.metric_families import Totals
from dragoman_server.workers.ipc import IpcChannel
from dragoman_server.workers.systemd import VARIABLE
from dragoman_server.workers.worker import Assignment

START_SECONDS = 60.0
"""Maximum time for a worker to start, in seconds. It takes half a second on an idle machine."""
_FINAL_MESSAGES_SECONDS = 1.0


class WorkerFailed(Exception):
    """A worker could not start; the text is the reason."""


@dataclass(eq=False, slots=True)
class WorkerProcess:
    """One worker process.

    `totals` are its metrics as last received; `answered` is True if it answered the last question for them. `leaving`
    is set when it was ordered to retire or stop; `ready_at` is the event loop's time when it became ready. Its stop had
    to end `ended_by_stop` requests.
    """

    number: int
    process: asyncio.subprocess.Process
    ready: asyncio.Future[None]
    channel: IpcChannel = field(init=False)
    totals: Totals | None = None
    answered: bool = False
    leaving: bool = False
    ready_at: float = 0.0
    ended_by_stop: int = 0

    def __str__(self) -> str:
        return f"worker {self.number} (pid {self.process.pid})"

    @classmethod
    async def start(
        cls, assignment: Assignment, answer: Callable[[WorkerProcess, str, Json], Awaitable[Any]]
    ) -> WorkerProcess:
        """Start a process and send it its assignment; `until_ready` waits for it. Raises OSError.

        `answer(worker, kind, message)` answers its questions.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *_command(theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), *(fd for group in assignment.listeners for fd in group)),
                    env={name: value for name, value in os.environ.items() if name != VARIABLE},
                    # Outside the terminal's foreground process group, so that only the supervisor receives its Ctrl-C.
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Retrieves the exception, so that asyncio does not log it as unhandled if no task waits for it.
        ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        worker = cls(assignment.number, process, ready)
        worker.channel = await IpcChannel.open(
            ours, worker._on_message, lambda what, message: answer(worker, what, message)
        )
        worker.channel.send_first(pickle.dumps(assignment))
        return worker

    async def until_ready(self) -> None:
        """Wait until it can accept connections.

        Raises WorkerFailed. Kills the process on failure and on cancellation.
        """
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(self.ready)
        except TimeoutError:
            self.kill()
            raise WorkerFailed(f"a worker was not ready within {START_SECONDS:g} s") from None
        except BaseException:
            self.kill()
            raise
        self.ready_at = asyncio.get_running_loop().time()

    async def until_gone(self) -> str:
        """Wait until the process has ended and its final messages are read. Return how it ended, for the log."""
        reading = asyncio.create_task(self.channel.run())
        status = await self.process.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINAL_MESSAGES_SECONDS):
                await reading
        await self.channel.close()
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        if not self.ready.done():
            self.ready.set_exception(WorkerFailed(f"a worker {how} before it was ready"))
        return how

    @property
    def started(self) -> bool:
        """True if it became ready."""
        return self.ready.done() and self.ready.exception() is None

    def dismiss(self, order: str) -> None:
        """Order it to `retire` (end when all its connections are closed) or to `stop` (end within `drain` seconds)."""
        self.leaving = True
        self.channel.send(order)

    def kill(self) -> None:
        """End its process at once."""
        with suppress(ProcessLookupError):
            self.process.kill()

    def _on_message(self, what: str, message: Json) -> None:
        if what == "totals":
            self.totals = Totals.unpack(message["totals"])
            self.ended_by_stop = message.get("ended_by_stop", 0)
        elif not self.ready.done():
            if what == "ready":
                self.ready.set_result(None)
            elif what == "failed":
                self.ready.set_exception(WorkerFailed(message["message"]))


def _command(descriptor: int) -> list[str]:
    # `-m` puts the current folder first on the module path; `-P` prevents that if this process does not have it.
    here = "" in sys.path or os.getcwd() in sys.path
    return [sys.executable, *([] if here else ["-P"]), "-m", "dragoman_server.workers.worker", str(descriptor)]
