"""The requests of other hosts, which a console shows. They are read only while one is open, once for all pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from dragoman.threads import StoreError
from dragoman.wire import Json, json_loads
from dragoman_server.proxy.hosts.interface import LEASE, HostStore, Reading

log = logging.getLogger("dragoman")
INTERVAL = 1.0
"""Seconds between two reads."""
IDLE = 10.0
"""Seconds after the last call of `follow` at which reading ends."""
FIRST = 1.0
"""Longest wait for the first read, in seconds."""
KEPT = 2000
"""Most rows that are kept here."""
ROWS_AT_ONCE = 1000
"""Most rows of one read."""
ASK_SECONDS = 4.0
"""Longest wait for the receipt of a request that is open at another host."""
_ASK_INTERVAL = 0.25


class HostFeed:
    """Reads the rows of all processes but those of `gateway`, the id of this one."""

    def __init__(self, store: HostStore, gateway: str) -> None:
        self._store = store
        self._gateway = gateway
        self._ended: dict[str, Json] = {}
        """The rows of requests that have ended, by id, the oldest first."""
        self._open: dict[str, Json] = {}
        self._own: frozenset[str] = frozenset()
        """The processes of this gateway, which answer for themselves."""
        self._position = ""
        self._followed = 0.0
        self._read = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.open_requests = 0
        """The number of open requests at other hosts."""

    async def follow(self) -> None:
        """Read now, and for some seconds more. Waits for the first read, but not for long."""
        loop = asyncio.get_running_loop()
        self._followed = loop.time()
        if self._task is None or self._task.done():
            self._read.clear()
            self._task = loop.create_task(self._run())
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST):
                await self._read.wait()

    def rows(self) -> Iterator[Json]:
        """Yield the rows of other hosts; those of requests that have ended are the newest first."""
        for row in self._open.values():
            if row["id"] not in self._ended:
                yield row
        for row in reversed(self._ended.values()):
            if row["process"] not in self._own:
                yield row

    async def ask(self, request_id: str) -> bool:
        """Let another host store the receipt of a request that is open there. False if none has it. Raises StoreError.

        Returns once the receipt is there, or after some seconds.
        """
        row = self._open.get(request_id)
        if row is None:
            return False
        await self._store.ask(row["process"], request_id)
        end = asyncio.get_running_loop().time() + ASK_SECONDS
        while asyncio.get_running_loop().time() < end:
            if await self._store.receipt(request_id) is not None:
                return True
            await asyncio.sleep(_ASK_INTERVAL)
        return False

    async def close(self) -> None:
        """End reading."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() - self._followed < IDLE:
            try:
                self._take(await self._store.read(self._position, ROWS_AT_ONCE, watch=True))
            except StoreError:
                # It is logged where the process writes. What is open elsewhere is not known.
                self._open, self.open_requests = {}, 0
            except Exception:
                log.exception("reading the requests of other hosts failed by a defect")
            self._read.set()
            await asyncio.sleep(INTERVAL)
        self._open, self.open_requests = {}, 0

    def _take(self, reading: Reading) -> None:
        self._position = reading.position
        for data in reading.rows:
            row = json_loads(data)
            self._ended.pop(row["id"], None)
            self._ended[row["id"]] = row
        while len(self._ended) > KEPT:
            del self._ended[next(iter(self._ended))]
        own, open_requests = set(), 0
        self._open = {}
        for process in reading.processes:
            if process.age > LEASE:
                continue
            state = json_loads(process.state)
            if state["gateway"] == self._gateway:
                own.add(process.process)
                continue
            open_requests += state["open_requests"]
            if process.open_rows:
                self._open |= {row["id"]: row for row in json_loads(process.open_rows)}
        self._own, self.open_requests = frozenset(own), open_requests
