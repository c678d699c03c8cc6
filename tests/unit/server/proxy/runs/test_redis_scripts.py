"""The scripts: one call has many runs, each with its own result."""

from __future__ import annotations

from dragoman_server.proxy.runs.interface import Change, Entry, Marks, NewRun, Position, RunId
from dragoman_server.proxy.runs.redis import RedisRunStore
from support.redis_server import redis_server


async def test_one_call_writes_and_reads_many_runs() -> None:
    names = [RunId("me", f"resp_{number}") for number in range(50)]
    with redis_server() as server:
        store = RedisRunStore(server.url, timeout=30.0)
        await store.open()
        for number, name in enumerate(names):
            await store.begin(NewRun(name, "a" if number % 2 else "b", b"", b"", b"", None, 100.0))
        changes = [
            Change(name, 0, [Entry(at + 1, 1, b"%d.%d" % (number, at)) for at in range(number % 4)], b"state")
            for number, name in enumerate(names)
        ]
        assert await store.write("a", changes) == [Marks(False, "") if number % 2 else None for number in range(50)]
        found = await store.read([Position(name, 1) for name in names])
        for number, rest in enumerate(found):
            assert rest is not None
            ends = range(2, number % 4 + 1) if number % 2 else ()
            assert rest.entries == [Entry(end, 1, b"%d.%d" % (number, end - 1)) for end in ends]
        await store.close()
