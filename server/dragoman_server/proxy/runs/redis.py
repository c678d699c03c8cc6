"""The runs in Redis (or Valkey), for gateways on many machines. Their events are streams of Redis.

A call is one round trip for all runs that it names. Times are those of Redis. It needs Redis 6.2 or Valkey.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.threads import RedisConnection
from dragoman_server.proxy.runs import redis_scripts as scripts
from dragoman_server.proxy.runs.interface import (
    LEASE,
    LOST,
    READ_BYTES,
    READ_ENTRIES,
    Change,
    Entry,
    LostRun,
    Marks,
    NewRun,
    Position,
    Rest,
    Run,
    RunId,
)

_LEASE = str(int(LEASE * 1000))
SCHEMA = 1
"""The version of what is stored."""
_CONNECTIONS = 4
"""One for the task that writes and reads, and some for new runs: to open one costs more than a call."""
_MARKS: dict[bytes, Marks | None] = {b"-": None, b"?": LOST}
_FIELDS = ("running", "cancelled", "first", "end", "head", "state")


class RedisRunStore:
    """The runs in keys whose names begin with `{prefix:runs}`. One call may take `timeout` seconds.

    `setting` is the name of the URL in errors.
    """

    def __init__(self, url: str, *, prefix: str = "dragoman", timeout: float = 5.0, setting: str = "state.url") -> None:
        self._keys = (f"{{{prefix}:runs}}",)
        schema = f"{self._keys[0]}:schema", SCHEMA
        self._connection = RedisConnection(url, timeout, setting=setting, connections=_CONNECTIONS, schema=schema)

    async def open(self) -> None:
        """Create the client. Connections are opened when they are needed, so Redis may start later."""
        await self._connection.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def begin(self, run: NewRun) -> bool:
        """Add a run. Return False if its owner has too many that are open."""
        most = "" if run.most is None else str(run.most)
        args = (_name(run.name), run.host, _LEASE, _milliseconds(run.ttl), most, run.head, run.state, run.request)
        return bool(await self._connection.run(scripts.BEGIN, self._keys, args))

    async def write(self, host: str, changes: Sequence[Change]) -> list[Marks | None]:
        """Write changes, and renew the leases of the runs. None stands for a run of another host."""
        args: list[str | bytes] = [host, _LEASE]
        for change in changes:
            state = b"" if change.state is None else b"+" + change.state
            kept = "" if change.kept is None else _milliseconds(change.kept)
            attach = change.attach or b""
            args += (_name(change.name), str(change.first), state, kept, attach, str(len(change.entries)))
            for entry in change.entries:
                args += (str(entry.end), str(entry.events), entry.data)
        found: list[bytes] = await self._connection.run(scripts.WRITE, self._keys, args)
        return [_MARKS[each] if each in _MARKS else Marks(each[:1] == b"1", each[1:].decode()) for each in found]

    async def get(self, name: RunId) -> Run | None:
        """Return a run, or None if it is not there."""
        async with self._connection.call() as redis:
            key = b"%b:run:%b" % (self._keys[0].encode(), _name(name))
            found: list[Any] = await redis.hmget(key, list(_FIELDS))
        return _run(found[:4], "", *found[4:]) if found[0] is not None else None

    async def read(self, positions: Sequence[Position]) -> list[Rest | None]:
        """Return what follows each position; None for a run that is not there."""
        args: list[str | bytes] = [_LEASE, str(READ_BYTES), str(READ_ENTRIES)]
        for position in positions:
            args += (_name(position.name), str(position.number), position.reader)
        found = await self._connection.run(scripts.READ, self._keys, args)
        return [_rest(each) if each else None for each in found]

    async def cancel(self, name: RunId) -> bool:
        """Set the mark that a run be cancelled. Return False for one that does not run."""
        return bool(await self._connection.run(scripts.CANCEL, self._keys, (_name(name),)))

    async def set_reader(self, name: RunId, reader: str, before: str | None = None) -> None:
        """Set the mark of the last reader, which ends after a lease. With `before`, only that one is replaced."""
        args = (_name(name), reader, "-" if before is None else "+", before or "", _LEASE)
        await self._connection.run(scripts.SET_READER, self._keys, args)

    async def take(self, host: str, most: int) -> list[LostRun]:
        """Give at most so many runs that have lost their host to this one, with a new lease, and return them."""
        found = await self._connection.run(scripts.TAKE, self._keys, (host, _LEASE, str(most)))
        return [
            LostRun(_read_name(name), _run([b"1", *numbers], "", head, state), request, attach)
            for name, *numbers, head, state, request, attach in found
        ]

    async def release(self, host: str, name: RunId) -> None:
        """End the lease of a run that goes on, if it is this host's. It has no host until another process takes it."""
        await self._connection.run(scripts.RELEASE, self._keys, (host, _name(name)))

    async def remove(self, names: Sequence[RunId]) -> None:
        """Delete runs."""
        await self._connection.run(scripts.REMOVE, self._keys, [_name(name) for name in names])


def _name(name: RunId) -> bytes:
    """Return the name of a run in keys."""
    owner, run_id = (part.encode("utf-8", "surrogateescape") for part in name)
    return b"%d:%b%b" % (len(owner), owner, run_id)


def _read_name(name: bytes) -> RunId:
    length, _, rest = name.partition(b":")
    parts = rest[: int(length)], rest[int(length) :]
    return RunId(*(part.decode("utf-8", "surrogateescape") for part in parts))


def _run(numbers: Sequence[bytes], reader: str, head: bytes = b"", state: bytes = b"") -> Run:
    running, cancelled, first, end = numbers
    return Run(running == b"1", cancelled == b"1", reader, int(first), int(end), head, state)


def _rest(found: Sequence[Any]) -> Rest:
    entries = found[5]
    parts = zip(entries[::3], entries[1::3], entries[2::3], strict=True)
    return Rest(_run(found[:4], found[4].decode()), [Entry(int(end), int(count), data) for end, count, data in parts])


def _milliseconds(seconds: float) -> str:
    return str(max(1, int(seconds * 1000)))
