"""The Redis store where it is away, slow, restarted, or holds something else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from dragoman_server.accounts.store.interface import Lease, StoreError
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.redis import RedisAccountStore
from support.claims import claim_on, settlement_on
from support.named_keys import made
from support.redis_server import RedisServer, free_port
from support.waiting import PATIENCE

BUDGET = ("daily_tokens", datetime.now(UTC).strftime("%Y-%m-%d"), 10**6, 7)


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[RedisAccountStore]:
    found = RedisAccountStore(StoreOptions("redis", url=redis.url, prefix="own", timeout=1.0))
    await found.open()
    async with found._client() as client:
        await client.flushall()
    yield found
    await found.close()


async def test_a_server_that_is_away_is_an_error_in_time() -> None:
    store = RedisAccountStore(StoreOptions("redis", url=f"redis://:canary-7f3a@127.0.0.1:{free_port()}/0"))
    await store.open()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreError) as caught:
            await store.ping()
    assert "canary" not in str(caught.value)
    await store.close()


async def test_an_address_that_does_not_answer_is_an_error_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # it accepts nothing, but the system does
        port = server.getsockname()[1]
        store = RedisAccountStore(StoreOptions("redis", url=f"redis://127.0.0.1:{port}/0", timeout=0.1))
        await store.open()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(StoreError, match=r"did not answer within 0\.1 s"):
                await store.admit(claim_on("alice", "1"))
        await store.close()


async def test_the_scripts_are_loaded_again_after_a_restart(store: RedisAccountStore, redis: RedisServer) -> None:
    await store.admit(claim_on("alice", "1", 0, (), (BUDGET,)))
    await asyncio.to_thread(redis.kill)
    with pytest.raises(StoreError):
        await store.ping()
    await asyncio.to_thread(redis.start)
    assert (await store.admit(claim_on("alice", "2", 0, (), (BUDGET,)))).spent == (7,)
    await store.settle([settlement_on("alice", "2", True, (), (BUDGET,)), settlement_on("bob", "x", True)])
    assert [each.amount for each in await store.spent("alice")] == [14]
    await store.renew([Lease("alice", "1")])


async def test_one_admission_is_one_round_trip(store: RedisAccountStore) -> None:
    async def commands() -> int:
        async with store._client() as client:
            info = await client.info("commandstats")
        names = [name for name in info if not name.startswith(("cmdstat_info", "cmdstat_client", "cmdstat_hello"))]
        # Commands that a script calls are counted too; a round trip is one `evalsha`.
        return sum(info[name]["calls"] for name in names if name in ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_get"))

    await store.admit(claim_on("alice", "0", 2, (), (BUDGET,)))
    await store.settle([settlement_on("alice", "0", True, (), (BUDGET,))])
    before = await commands()
    for number in range(1, 11):
        await store.admit(claim_on("alice", str(number), 20, (), (BUDGET,)))
    assert await commands() - before == 10
    await store.settle([settlement_on("alice", str(number), True, (), (BUDGET,)) for number in range(1, 11)])
    assert await commands() - before == 20


async def test_what_a_key_leaves_behind_expires(store: RedisAccountStore) -> None:
    await store.admit(claim_on("alice", "1", 2, (), (BUDGET,)))
    await store.settle([settlement_on("alice", "other", False, (), (BUDGET,))])
    async with store._client() as client:
        keys = [key async for key in client.scan_iter("own:*")]
        assert sorted(keys) == ["own:{alice}:leases", "own:{alice}:settled:other", "own:{alice}:state"]
        for key in keys:
            assert await client.pttl(key) > 0


async def test_two_prefixes_are_two_stores(store: RedisAccountStore, redis: RedisServer) -> None:
    other = RedisAccountStore(StoreOptions("redis", url=redis.url, prefix="other", timeout=1.0))
    await other.open()
    await store.admit(claim_on("alice", "1", 0, (), (BUDGET,)))
    assert await other.spent("alice") == []
    await other.close()


async def test_a_key_that_cannot_be_read_is_left_out(
    store: RedisAccountStore, caplog: pytest.LogCaptureFixture
) -> None:
    _, record = made()
    await store.put_key(record)
    async with store._client() as client:
        await client.hset("{own:keys}", "x", "canary-7f3a")
        await client.incr("{own:keys}:version")
    found = await store.keys()
    assert found is not None
    assert list(found.records) == [record]
    assert "a key in the store cannot be read and is rejected" in caplog.text
    assert "canary" not in caplog.text
