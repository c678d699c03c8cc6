"""The receipts and the state that this process shares with the others of its store, and those of the others.

One task writes: receipts and rows of requests that have ended, a quarter of a second after the first of them, and the
state of the process every few seconds. No request waits for it. While the store is away, receipts wait in a queue that
has a bound.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol

from dragoman import Failure
from dragoman.threads import StoreError
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.config.config_error import ConfigError
from dragoman_server.observability.metric_families import RECEIPTS_DROPPED, STORE_ERRORS, Totals
from dragoman_server.proxy.hosts.feed import HostFeed
from dragoman_server.proxy.hosts.interface import Batch, FoundReceipt, HostStore, Reading, StoredReceipt
from dragoman_server.receipt import Receipt, without_long_parts

log = logging.getLogger("dragoman")
GATHER = 0.25
"""Seconds for which receipts are gathered before they are written."""
STATE_INTERVAL = 2.0
"""Seconds between two writes of the state of the process."""
WATCHED_INTERVAL = 1.0
"""Seconds between two writes of open requests, while others want them."""
RETRY = 1.0
"""Seconds between two calls of a store that fails."""
QUEUE_MAX = 2000
"""Most receipts that wait for the store. Further ones replace the oldest."""
RECEIPTS_AT_ONCE = 32
"""Most receipts of one call: to write them as JSON takes about a millisecond of the event loop."""
_CLOSE = 1.0
"""Seconds that the last receipts have when the gateway closes."""
OPERATION = "hosts"
"""The operation of the calls in the metric of the store's errors."""


class Views(Protocol):
    """Makes what is stored of this process."""

    def state(self) -> bytes:
        """Return the state of the process, as JSON."""
        ...

    def stored(self, receipt: Receipt) -> tuple[StoredReceipt, bytes]:
        """Return a receipt as it is stored, and the row of its request, as JSON."""
        ...

    def open_rows(self) -> bytes:
        """Return the rows of the newest open requests, as a JSON list."""
        ...

    def find(self, request_id: str) -> Receipt | None:
        """Return the receipt of a request of this process, or None."""
        ...


class SharedHosts:
    """The part of one process.

    Args:
        store: The store.
        host: The name of the host.
        gateway: The id of the gateway, the same in all its workers.
        totals: Counts.
        shares_receipts: False if only the state of the process is shared.
    """

    def __init__(
        self, store: HostStore, host: str, gateway: str, totals: Totals, *, shares_receipts: bool = True
    ) -> None:
        self.host = host
        self.gateway = gateway
        self.process = f"{host}:{os.getpid()}:{os.urandom(6).hex()}"
        """The name of this process."""
        self.views: Views | None = None
        """Nothing is written without it. The application sets it."""
        self.feed = HostFeed(store, gateway)
        """The requests of other hosts, for consoles."""
        self.failure = ""
        """The reason for which the store fails; empty while it answers."""
        self._store = store
        self._totals = totals
        self._shares_receipts = shares_receipts
        self._queue: deque[Receipt] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_watched = False
        self._state = b""
        self._state_at = -STATE_INTERVAL
        self._open_at = -WATCHED_INTERVAL

    def ended(self, receipt: Receipt, _: Failure | None) -> None:
        """Share the receipt of a request that has ended (`Ending`)."""
        self._add(receipt)

    def _add(self, receipt: Receipt) -> None:
        if not self._shares_receipts:
            return
        if len(self._queue) >= QUEUE_MAX:
            self._queue.popleft()
            self._totals.add(RECEIPTS_DROPPED)
        self._queue.append(receipt)
        self._wake.set()

    async def amend(self, request_id: str, fields: Json) -> None:
        """Replace fields of a receipt that another process has stored, if it is there."""
        if not self._shares_receipts:
            return
        with suppress(StoreError):
            found = await self._store.receipt(request_id)
            if found is None:
                return
            view: Json = json_loads(found.view)
            view["receipt"] = shown = {**view["receipt"], **fields}
            summary = json_dumps(without_long_parts(shown))
            amended = StoredReceipt(request_id, found.owner, summary, json_dumps(view))
            await self._store.write(Batch(self.process, self._state, [amended]))

    async def open(self) -> None:
        """Open the store, and begin to write. Raises ConfigError if the store cannot be used at all."""
        try:
            await self._store.open()
        except StoreError as error:
            raise ConfigError("store", str(error)) from None
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Write what is pending, and leave the store."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.feed.close()
        with suppress(StoreError, TimeoutError):
            if not self.failure:
                async with asyncio.timeout(_CLOSE):
                    await self._write()
                    await self._store.leave(self.process)
        with suppress(StoreError):
            await self._store.close()

    # --- the task ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            try:
                await self._write()
            except StoreError as error:
                self._failed(str(error))
            except Exception:
                log.exception("sharing receipts failed by a defect")
                for _ in range(min(RECEIPTS_AT_ONCE, len(self._queue))):
                    self._queue.popleft()  # one of them may be the reason
            else:
                self._answered()
            if self.failure:
                await asyncio.sleep(RETRY)
                continue
            self._wake.clear()
            if not self._queue:
                with suppress(TimeoutError):
                    async with asyncio.timeout(WATCHED_INTERVAL if self._is_watched else STATE_INTERVAL):
                        await self._wake.wait()
                        await asyncio.sleep(GATHER)

    async def _write(self) -> None:
        """Write the state of the process, and all receipts that wait. Raises StoreError."""
        views = self.views
        if views is None:
            return
        while True:
            some = list(islice(self._queue, RECEIPTS_AT_ONCE))
            open_rows = self._due_open_rows(views)
            stored = [views.stored(receipt) for receipt in some]
            # Those that are written before their end have no row yet.
            rows = [row for receipt, (_, row) in zip(some, stored, strict=True) if receipt.ended != "open"]
            receipts = [receipt for receipt, _ in stored]
            wanted = await self._store.write(Batch(self.process, self._current_state(views), receipts, rows, open_rows))
            for receipt in some:
                # A full queue may have dropped some of them in the meantime.
                if self._queue and self._queue[0] is receipt:
                    self._queue.popleft()
            self._is_watched = wanted.watched
            for request_id in wanted.ids:
                if (receipt_of_it := views.find(request_id)) is not None:
                    self._add(receipt_of_it)
            if not self._queue:
                return

    def _current_state(self, views: Views) -> bytes:
        now = asyncio.get_running_loop().time()
        if now - self._state_at >= STATE_INTERVAL / 2:
            self._state, self._state_at = views.state(), now
        return self._state

    def _due_open_rows(self, views: Views) -> bytes | None:
        now = asyncio.get_running_loop().time()
        if not self._is_watched or not self._shares_receipts or now - self._open_at < WATCHED_INTERVAL / 2:
            return None
        self._open_at = now
        return views.open_rows()

    def _failed(self, reason: str) -> None:
        self._totals.add(STORE_ERRORS, (OPERATION,))
        if not self.failure:
            log.error("receipts are not shared with other hosts: %s", reason)
        self.failure = reason

    def _answered(self) -> None:
        if self.failure:
            self.failure = ""
            log.warning("receipts are shared with other hosts again")

    # --- for endpoints -----------------------------------------------------------------------------------------------

    async def receipt(self, request_id: str, owner: str | None = None) -> Json | None:
        """Return what any host has stored of a request, or None; with `owner`, only of its own. Raises StoreError."""
        found: FoundReceipt | None = await self._store.receipt(request_id)
        if found is None or (owner is not None and found.owner != owner):
            return None
        view: Json = json_loads(found.view)
        return view

    async def receipts(self, owner: str, most: int) -> list[Json]:
        """Return summaries of an owner's last receipts of all hosts, the newest first. Raises StoreError."""
        return [json_loads(summary) for summary in await self._store.receipts(owner, most)]

    async def processes(self) -> Sequence[tuple[float, Json]]:
        """Return the states of all processes, each with the seconds since it was written. Raises StoreError."""
        reading: Reading = await self._store.read()
        return [(each.age, json_loads(each.state)) for each in reading.processes]
