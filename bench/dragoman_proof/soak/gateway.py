"""The gateway of the soak, with a Redis of its own: processes that are killed, reloaded and stopped."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_READY: Final = re.compile(r"worker (\d+) \(pid (\d+)\) is ready")
_LISTENS: Final = re.compile(r"dragoman listens on (http://\S+)")
_START: Final = 60.0
_STOP: Final = 60.0
_HIDDEN: Final = re.compile(r"(OPENAI|ANTHROPIC|DRAGOMAN|NOTIFY_SOCKET)")
"""Variables that a gateway would read."""


@dataclass(frozen=True, slots=True)
class Life:
    """A process of the gateway: `name` is `supervisor` or `worker N`, `begun` in seconds of the monotonic clock."""

    name: str
    pid: int
    begun: float


@dataclass(slots=True)
class Running:
    """`dragoman serve` with its workers, by what its log states."""

    process: asyncio.subprocess.Process
    url: str = ""
    lives: list[Life] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """The lines of the log at level ERROR, and what is no line of the log."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _has_ended: bool = False

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.url.rpartition(":")[2])

    def worker(self, number: int) -> Life:
        """Return the newest process of a worker."""
        return next(life for life in reversed(self.lives) if life.name == f"worker {number}")

    def kill(self, number: int) -> None:
        """Kill a worker, if it runs."""
        with suppress(ProcessLookupError):
            os.kill(self.worker(number).pid, signal.SIGKILL)

    def reload(self) -> None:
        """Let the supervisor replace all workers."""
        self.process.send_signal(signal.SIGHUP)

    async def read_log(self) -> None:
        """Read the log until it ends. A process whose log no one reads stands still."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self._read(line)
            self._changed.set()
        self._has_ended = True
        self._changed.set()

    def _read(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            self.errors.append(line.decode("utf-8", "replace").strip()[:2000])
            return
        message = str(entry.get("message", ""))
        if entry.get("level") in ("ERROR", "error", "CRITICAL", "critical"):
            self.errors.append(line.decode("utf-8", "replace").strip()[:2000])
        if found := _READY.search(message):
            self.lives.append(Life(f"worker {found[1]}", int(found[2]), time.monotonic()))
        elif found := _LISTENS.search(message):
            self.url = found[1]

    async def has_started(self) -> None:
        """Wait until it listens. Raises TimeoutError, and RuntimeError if it has ended."""
        async with asyncio.timeout(_START):
            while not self.url:
                if self._has_ended:
                    raise RuntimeError("the gateway has ended: " + "\n".join(self.errors))
                self._changed.clear()
                await self._changed.wait()

    async def stop(self) -> int:
        """Stop it, and return its exit status."""
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(_STOP):
            return await self.process.wait()


@asynccontextmanager
async def serving(config: Path) -> AsyncIterator[Running]:
    """Run the gateway of a configuration on a free port; killed at the end if it still runs."""
    arguments = ("-m", "dragoman_server", "serve", str(config), "--port", "0", "--log-format", "json")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not _HIDDEN.match(name)},
        start_new_session=True,
    )
    running = Running(process, lives=[Life("supervisor", process.pid, time.monotonic())])
    reading = asyncio.create_task(running.read_log())
    try:
        await running.has_started()
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await reading
        await process.wait()


@asynccontextmanager
async def redis() -> AsyncIterator[tuple[str, int]]:
    """Run a Redis that keeps nothing on disk, on a free port. Yields its URL and its process id.

    Raises FileNotFoundError where redis-server is not installed.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise FileNotFoundError("redis-server is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_START):
            while not await _accepts(port):
                if process.returncode is not None:
                    raise RuntimeError("redis-server has ended")
                await asyncio.sleep(0.02)
        yield f"redis://127.0.0.1:{port}/0", process.pid
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
