"""One connection for the scripts of a turn: they share a round trip, and fail together in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.threads import RedisConnection, StoreError
from dragoman_server.accounts.store.redis_pipe import RedisPipe
from support.redis_server import RedisServer

ECHO = "return ARGV[1]"


@pytest.fixture
async def pipe(redis: RedisServer) -> AsyncIterator[RedisPipe]:
    connection = RedisConnection(redis.url, 0.5, decode=True)
    await connection.open()
    made = RedisPipe(connection)
    yield made
    await made.close()
    await connection.close()


async def test_each_call_gets_its_own_result(pipe: RedisPipe) -> None:
    for _ in range(2):
        found = await asyncio.gather(*[pipe.run(ECHO, (), (str(number),)) for number in range(50)])
        assert found == [str(number) for number in range(50)]


async def test_calls_of_one_turn_are_written_together(pipe: RedisPipe, monkeypatch: pytest.MonkeyPatch) -> None:
    await pipe.run(ECHO, (), ("x",))
    sizes: list[int] = []
    exchange = pipe._exchange

    async def counted(commands: Any) -> list[Any]:
        sizes.append(len(commands))
        return await exchange(commands)

    monkeypatch.setattr(pipe, "_exchange", counted)
    await asyncio.gather(*[pipe.run(ECHO, (), (str(number),)) for number in range(20)])
    assert sizes == [20]


async def test_an_error_is_that_of_its_call_only(pipe: RedisPipe) -> None:
    first, wrong, last = (pipe.run(script, (), ("x",)) for script in (ECHO, "return redis.call('NO')", ECHO))
    with pytest.raises(StoreError, match=r"^Redis: "):
        await wrong
    assert (await first, await last) == ("x", "x")


async def test_a_cancelled_call_disturbs_no_other(pipe: RedisPipe) -> None:
    first, last = pipe.run(ECHO, (), ("1",)), pipe.run(ECHO, (), ("2",))
    first.cancel()
    assert await last == "2"


async def test_a_redis_that_hangs_fails_all_calls_in_time(pipe: RedisPipe, redis: RedisServer) -> None:
    assert await pipe.run(ECHO, (), ("x",)) == "x"
    redis.freeze()
    try:
        calls = [pipe.run(ECHO, (), (str(number),)) for number in range(3)]
        for call in calls:
            with pytest.raises(StoreError, match=r"did not answer within 0\.5 s"):
                await call
    finally:
        redis.thaw()
    assert await pipe.run(ECHO, (), ("new",)) == "new", "no late reply is read for another call"


async def test_a_closed_pipe_fails_what_waits(pipe: RedisPipe, redis: RedisServer) -> None:
    call = pipe.run(ECHO, (), ("x",))
    await pipe.close()
    with pytest.raises(StoreError, match="not open"):
        await call
