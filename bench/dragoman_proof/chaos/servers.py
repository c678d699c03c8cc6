"""PostgreSQL and Redis of a scenario's own, and a proxy that makes them slow."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman_proof.chaos.gateway import until
from dragoman_proof.chaos.scenario import Missing, program

_PROGRAMS = Path("/usr/lib/postgresql")
"""Where Debian installs the programs of each version."""


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def _listens(port: int) -> bool:
    with suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False


@dataclass(slots=True)
class Slow:
    """A proxy before a server. `delay` is the time in seconds that each piece takes on its way."""

    server: int
    port: int = 0
    delay: float = 0.0
    links: set[asyncio.Task[None]] = field(default_factory=set)

    async def link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what a client and the server send."""
        task = asyncio.current_task()
        assert task is not None
        self.links.add(task)
        try:
            others, other = await asyncio.open_connection("127.0.0.1", self.server)
            try:
                await asyncio.gather(self._pass(reader, other), self._pass(others, writer))
            finally:
                other.close()
        except (OSError, asyncio.CancelledError):
            pass  # the server is away, or the scenario has ended, whose streams would log the cancellation
        finally:
            writer.close()
            self.links.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def slowed(port: int) -> AsyncIterator[Slow]:
    """A proxy before the server at a port."""
    proxy = Slow(port)
    listener = await asyncio.start_server(proxy.link, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        for task in list(proxy.links):
            task.cancel()
        await asyncio.gather(*proxy.links, return_exceptions=True)


@asynccontextmanager
async def redis() -> AsyncIterator[int]:
    """The port of a Redis without data."""
    port = _free_port()
    arguments = (program("redis-server", "redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "")
    process = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.DEVNULL)
    try:
        await until(lambda: _listens(port), "Redis listens")
        yield port
    finally:
        process.kill()
        await process.wait()


@dataclass(slots=True)
class Postgres:
    """A cluster in a folder, which can be killed and started again."""

    folder: Path
    port: int
    process: asyncio.subprocess.Process | None = None

    def url(self, port: int = 0) -> str:
        """The URL of its database, by way of a proxy at `port`."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/postgres?sslmode=disable"

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        options = (
            *("listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self.folder}"),
            *("fsync=off", "max_connections=100", "log_min_messages=panic"),
        )
        arguments = [each for option in options for each in ("-c", option)]
        self.process = await asyncio.create_subprocess_exec(
            *(_program("postgres"), "-D", str(self.folder / "data"), *arguments),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **_user(),
        )

        async def answers() -> bool:
            with suppress(Exception):  # of several kinds, while it starts
                return bool(await self.run("SELECT 1"))
            return False

        await until(answers, "PostgreSQL answers")

    async def kill(self) -> None:
        """End it at once, as a crash does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            await self.process.wait()
            self.process = None

    async def run(self, *statements: str) -> list[Any]:
        """Run statements, and return the rows of the last."""
        import asyncpg

        connection = await asyncpg.connect(self.url(), timeout=20)
        try:
            rows: list[Any] = []
            for statement in statements:
                rows = await connection.fetch(statement)
            return rows
        finally:
            await connection.close()


def _program(name: str) -> str:
    found = sorted(_PROGRAMS.glob(f"*/bin/{name}"), key=lambda path: float(path.parent.parent.name))
    if not found and (path := shutil.which(name)) is not None:
        return path
    if not found:
        raise Missing(f"{name} is not installed (Debian: apt-get install postgresql)")
    return str(found[-1])


def _user() -> dict[str, Any]:
    """The options of a process that may not be root's."""
    return {} if os.geteuid() else {"user": "postgres", "group": "postgres", "extra_groups": ()}


@asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[Postgres]:
    """A running cluster in a folder, to which others need no access."""
    try:
        import asyncpg  # noqa: F401
    except ImportError:
        raise Missing("asyncpg is not installed") from None
    place = folder / "postgres"
    place.mkdir()
    if not os.geteuid():
        os.chmod(folder, 0o711)
        shutil.chown(place, "postgres", "postgres")
    arguments = (_program("initdb"), "-D", str(place / "data"), "-U", "postgres", "-A", "trust", "-N")
    made = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.DEVNULL, **_user())
    if await made.wait():
        raise Missing("initdb cannot make a cluster")
    found = Postgres(place, _free_port())
    try:
        await found.start()
        yield found
    finally:
        await found.kill()
