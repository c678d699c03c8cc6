"""The store of hosts in Redis (or Valkey), for gateways on many machines.

A call is one round trip. Times are those of Redis. It needs Redis 6.2 or Valkey.
"""

from __future__ import annotations

from typing import Any

from dragoman.threads import RedisConnection
from dragoman_server.proxy.hosts import redis_scripts as scripts
from dragoman_server.proxy.hosts.interface import (
    LEASE,
    LIST_MAX,
    LOST_KEPT,
    PROCESSES_MAX,
    RECEIPT_BYTES,
    RECEIPTS_MAX,
    ROWS_MAX,
    WATCH,
    Batch,
    FoundReceipt,
    ProcessState,
    Reading,
    Wanted,
)

_CONNECTIONS = 4
"""One for the task that writes, one for the reader of a console, and some for receipts that clients read."""


class RedisHostStore:
    """The store in keys whose names begin with `{prefix:hosts}`. Receipts are kept for `kept` seconds.

    One call may take `timeout` seconds. `most` and `most_bytes` bound the receipts.
    """

    def __init__(
        self,
        url: str,
        *,
        kept: float,
        prefix: str = "dragoman",
        timeout: float = 5.0,
        most: int = RECEIPTS_MAX,
        most_bytes: int = RECEIPT_BYTES,
        setting: str = "store.url",
    ) -> None:
        self._connection = RedisConnection(url, timeout, setting=setting, connections=_CONNECTIONS)
        self._keys = (f"{{{prefix}:hosts}}",)
        bounds = (most, most_bytes, LIST_MAX, ROWS_MAX)
        times = (_milliseconds(LOST_KEPT), str(PROCESSES_MAX), _milliseconds(WATCH))
        self._bounds = (_milliseconds(kept), *map(str, bounds), *times)

    async def open(self) -> None:
        """Create the client. Connections are opened when they are needed, so Redis may start later."""
        await self._connection.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def _run(self, script: str, *args: str | bytes) -> Any:
        return await self._connection.run(script, self._keys, args)

    async def write(self, batch: Batch) -> Wanted:
        """Write what a process has."""
        parts: list[bytes] = []
        for name, owner, summary, view in batch.receipts:
            parts += (name.encode(), owner.encode(), summary, view)
        parts += batch.rows
        lengths = " ".join([str(len(part)) for part in parts])
        args: list[str | bytes] = [batch.process, batch.state, batch.open_rows or b"", *self._bounds]
        args += (str(len(batch.receipts)), lengths, b"".join(parts))
        watched, asked = await self._run(scripts.WRITE, *args)
        return Wanted(bool(watched), [each.decode() for each in asked])

    async def leave(self, process: str) -> None:
        """Remove a process."""
        await self._run(scripts.LEAVE, process)

    async def read(self, position: str = "", most: int = 0, *, watch: bool = False) -> Reading:
        """Return rows and all processes."""
        watched = _milliseconds(WATCH) if watch else ""
        at, rows, found = await self._run(scripts.READ, position, str(most), watched, _milliseconds(LEASE))
        parts = zip(found[::4], found[1::4], found[2::4], found[3::4], strict=True)
        states = [ProcessState(name.decode(), int(age) / 1000, state, rows) for name, age, state, rows in parts]
        return Reading(at.decode(), rows, states)

    async def receipt(self, request_id: str) -> FoundReceipt | None:
        """Return a receipt, or None if it is not there."""
        owner, view = await self._run(scripts.RECEIPT, request_id)
        return FoundReceipt(owner.decode(), view) if view is not None else None

    async def receipts(self, owner: str, most: int) -> list[bytes]:
        """Return the summaries of the last receipts of an owner."""
        found: list[bytes] = await self._run(scripts.RECEIPTS, owner, str(min(most, LIST_MAX)))
        return found

    async def ask(self, process: str, request_id: str) -> None:
        """Let a process write the receipt of a request that is still open."""
        await self._run(scripts.ASK, process, request_id, _milliseconds(WATCH))


def _milliseconds(seconds: float) -> str:
    return str(max(1, int(seconds * 1000)))
