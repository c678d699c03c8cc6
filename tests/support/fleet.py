"""`dragoman serve --workers N` as processes, and a client that asks on a connection of its own each time."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp

from dragoman.dialects import Dialect
from support.commands import Command, command, new_process
from support.exposed import Sample, read_exposition
from support.gateways import MESSAGES, until
from support.samples import PATHS, TEXT, dump, request


def alive(pid: int) -> bool:
    """Return whether a process runs (one that has ended and was not waited for does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass(slots=True)
class Fleet:
    """A supervisor, its workers' process ids by number, and a session that keeps no connection."""

    command: Command
    url: str
    session: aiohttp.ClientSession
    pids: dict[int, int] = field(default_factory=dict)

    def command_lines(self) -> str:
        """Return what a process list shows of all processes."""
        pids = (self.command.process.pid, *self.pids.values())
        return "\n".join(Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in pids)

    def signal(self, name: signal.Signals, worker: int | None = None) -> None:
        """Send a signal to the supervisor or to a worker."""
        os.kill(self.command.process.pid if worker is None else self.pids[worker], name)

    async def reports_ready(self, count: int) -> None:
        """Read on until `count` more workers are ready."""
        for _ in range(count):
            found = await self.command.writes(r"worker (\d+) \(pid (\d+)\) is ready")
            self.pids[int(found[1])] = int(found[2])

    async def ask(
        self, client: Dialect, *, headers: Mapping[str, str] = MappingProxyType({}), **fields: Any
    ) -> aiohttp.ClientResponse:
        """A request; its reply is read."""
        body = dump(request(client, **{"model": "sim-text", **fields}))
        async with (
            asyncio.timeout(30),
            self.session.post(self.url + PATHS[client], data=body, headers=headers) as reply,
        ):
            await reply.read()
            return reply

    async def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body."""
        async with asyncio.timeout(30), self.session.get(self.url + path, headers=headers) as reply:
            return reply.status, await reply.read()

    async def metrics(self, **headers: str) -> dict[Sample, float]:
        """Return what one of the workers states about all."""
        status, page = await self.get("/metrics", **headers)
        assert status == 200, page
        return read_exposition(page)


@asynccontextmanager
async def fleet(
    *args: str,
    workers: int | None = 2,
    expected: int = 2,
    new: bool = False,
    env: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Fleet]:
    """`dragoman serve` with so many workers (None: as many as the configuration states, `expected`) on a free port, up.

    Its workers do not outlive it. It and they are forks, or new processes if `new`.
    """
    wish = () if workers is None else ("--workers", str(workers))
    async with (
        (new_process if new else command)("serve", *args, "--port", "0", *wish, **env) as running,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        up = Fleet(running, "", session)
        try:
            await up.reports_ready(expected if workers is None else workers)
            up.url = (await running.writes(r"dragoman listens on (http://\S+) with workers: "))[1]
            yield up
        finally:
            if running.process.returncode is None:
                running.process.kill()
            for pid in filter(alive, map(int, re.findall(r"pid (\d+)\) is ready", running.stated))):
                os.kill(pid, signal.SIGKILL)


class Crowd:
    """Clients that ask without a pause, half of them on connections that they keep; each reply must hold `text`."""

    def __init__(self, url: str, size: int, *, model: str = "m", text: str = TEXT) -> None:
        self.url = url
        self.size = size
        self.model = model
        self.text = text
        self.served = 0
        self.failed: list[str] = []
        self._enough = asyncio.Event()

    async def __aenter__(self) -> Crowd:
        self._tasks = [asyncio.create_task(self._ask(keep=number % 2 == 0)) for number in range(self.size)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._enough.set()
        await asyncio.wait_for(asyncio.gather(*self._tasks), 60)

    async def more(self, count: int) -> None:
        """Wait until so many more requests were served."""
        wanted = self.served + count
        await until(lambda: self.served >= wanted or self.failed, 60)

    async def _ask(self, keep: bool) -> None:
        body = dump(request(MESSAGES, model=self.model))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=not keep)) as session:
            while not self._enough.is_set():
                try:
                    async with session.post(self.url + PATHS[MESSAGES], data=body) as got:
                        text = await got.text()
                        if got.status != 200 or self.text not in text:
                            self.failed.append(f"{got.status} {text}")
                except aiohttp.ClientError as error:
                    self.failed.append(repr(error))
                self.served += 1
