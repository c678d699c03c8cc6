"""Time the store of conversations: the wait until a reply is stored, and reading a path from a large store.

python bench/micro/threads.py [--stored 1000 100000] [--turns 200] [--folder .] [--redis redis://127.0.0.1:6379/0]
       [--postgres postgresql://user:password@127.0.0.1/database]

The wait depends on the disk: choose a folder on the one that matters. Responses have two kilobytes each way. The last
columns are the times to read one response and a path of so many turns, and to make the request for a Chat upstream of
it. A Redis gets keys with the prefix `bench`, which are deleted; the last column is then its memory for each response.
PostgreSQL gets a schema of its own for each size, which is not deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from statistics import median
from time import perf_counter, time

from dragoman.threads import Node, PostgresStore, RedisStore, SqliteStore, Store, Thread, ThreadLimits
from dragoman.wire import json_dumps

_ROUNDS = 30
_AT_ONCE = (1, 16, 64)
_LIMITS = ThreadLimits(size=10**12, owner_size=10**12)


def node(name: str, parent: str | None = None) -> Node:
    """Returns a response with 2 kB of input and 2 kB of output."""
    question = json_dumps([{"role": "user", "content": "x" * 2000}])
    reply = json_dumps({"output": [{"type": "message", "role": "assistant", "content": "y" * 2000}]})
    return Node("bench", name, parent, 0, question, reply)


async def seconds(work: Awaitable[object]) -> float:
    """Returns the duration of one call."""
    began = perf_counter()
    await work
    return perf_counter() - began


async def waits(store: Store, at_once: int) -> tuple[float, float]:
    """Returns the median and the 99th percentile of the wait of so many replies that end at the same time."""
    found: list[float] = []
    for number in range(_ROUNDS):
        puts = (seconds(store.put(node(f"w{at_once}.{number}.{index}"))) for index in range(at_once))
        found += await asyncio.gather(*puts)
    found.sort()
    return median(found), found[int(len(found) * 0.99)]


async def fill(store: Store, count: int) -> None:
    """Store responses in conversations of ten."""
    for start in range(0, count, 1000):
        for turn in range(10):
            names = range(start, min(start + 1000, count), 10)
            nodes = (node(f"f{n}.{turn}", f"f{n}.{turn - 1}" if turn else None) for n in names)
            await asyncio.gather(*map(store.put, nodes))


async def redis_memory(url: str, *, delete: bool = False) -> int:
    """Returns the bytes that Redis uses; with `delete`, after the keys of a measurement were deleted."""
    from redis.asyncio import Redis

    redis = Redis.from_url(url)
    if delete:
        async for key in redis.scan_iter("{bench:responses}*", count=1000):
            await redis.delete(key)
    used = int((await redis.info("memory"))["used_memory"])
    await redis.aclose()
    return used


async def measure(name: str, store: Store, stored: int, turns: int, url: str | None = None) -> None:
    """Print one line for a store of this size; `url` is that of a Redis, whose memory is measured."""
    before = await redis_memory(url, delete=True) if url else 0
    await store.open()
    await fill(store, stored)
    memory = f"{(await redis_memory(url) - before) / stored / 1000:8.1f} kB" if url else ""
    cells = [f"{name:<10}{stored:>9,}"]
    for at_once in _AT_ONCE:
        half, most = await waits(store, at_once)
        cells.append(f"{half * 1e3:6.2f} /{most * 1e3:7.2f}")
    head = None
    for number in range(turns):
        await store.put(node(f"t{number}", head))
        head = f"t{number}"
    thread = Thread(store, "bench", head)
    looked_up = median([await seconds(store.get("bench", "t0")) for _ in range(_ROUNDS)])
    path = median([await seconds(thread.path()) for _ in range(_ROUNDS)])
    payload = median([await seconds(thread.payload("chat", "m")) for _ in range(_ROUNDS)])
    cells += [f"{looked_up * 1e3:8.2f}", f"{path * 1e3:8.2f}", f"{payload * 1e3:8.2f}", memory]
    print("  ".join(cells), flush=True)
    await store.close()
    if url:
        await redis_memory(url, delete=True)


async def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--stored", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--redis", help="the URL of a Redis to measure too")
    parser.add_argument("--postgres", help="the URL of a database to measure too")
    options = parser.parse_args()
    heads = [f"wait of {count}" for count in _AT_ONCE]
    print("milliseconds, median / 99th percentile")
    print("           stored  ", "  ".join(f"{head:<15}" for head in heads), "   one      path   payload")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for stored in options.stored:
            file = str(Path(folder) / f"{stored}.db")
            await measure("sqlite", SqliteStore(file, _LIMITS, timeout=120.0), stored, options.turns)
            if options.redis:
                redis = RedisStore(options.redis, _LIMITS, prefix="bench", timeout=120.0)
                await measure("redis", redis, stored, options.turns, options.redis)
            if options.postgres:
                schema = f"bench-{time():.0f}"
                postgres = PostgresStore(options.postgres, _LIMITS, schema=schema, timeout=120.0)
                await measure("postgresql", postgres, stored, options.turns)


if __name__ == "__main__":
    asyncio.run(main())
