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


def budget() -> tuple[str, str, int, int]:
    """Return the budget of this day."""
    return ("daily_tokens", datetime.now(UTC).strftime("%Y-%m-%d"), 10**6, 7)


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[RedisAccountStore]:
    found = RedisAccountStore(StoreOptions("redis", url=redis.url, prefix="own", timeout=1.0))
    await found.open()
    async with found.connection.call() as client:
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
    await store.admit(claim_on("alice", "1", 0, (), (budget(),)))
    await asyncio.to_thread(redis.kill)
    with pytest.raises(StoreError):
        await store.ping()
    await asyncio.to_thread(redis.start)
    assert (await store.admit(claim_on("alice", "2", 0, (), (budget(),)))).spent == (7,)
    await store.settle([settlement_on("alice", "2", True, (), (budget(),)), settlement_on("bob", "x", True)])
    assert [each.amount for each in await store.spent("alice")] == [14]
    await store.renew([Lease("alice", "1")])


async def test_one_admission_is_one_round_trip(store: RedisAccountStore) -> None:
    async def commands() -> int:
        async with store.connection.call() as client:
            info = await client.info("commandstats")
        names = [name for name in info if not name.startswith(("cmdstat_info", "cmdstat_client", "cmdstat_hello"))]
        # Commands that a script calls are counted too; a round trip is one `evalsha`.
        return sum(info[name]["calls"] for name in names if name in ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_get"))

    await store.admit(claim_on("alice", "0", 2, (), (budget(),)))
    await store.settle([settlement_on("alice", "0", True, (), (budget(),))])
    before = await commands()
    for number in range(1, 11):
        await store.admit(claim_on("alice", str(number), 20, (), (budget(),)))
    assert await commands() - before == 10
    await store.settle([settlement_on("alice", str(number), True, (), (budget(),)) for number in range(1, 11)])
    assert await commands() - before == 20


async def test_what_a_key_leaves_behind_expires(store: RedisAccountStore) -> None:
    await store.admit(claim_on("alice", "1", 2, (), (budget(),)))
    await store.settle([settlement_on("alice", "other", False, (), (budget(),))])
    async with store.connection.call() as client:
        keys = [key async for key in client.scan_iter("own:*")]
        assert sorted(keys) == ["own:{alice}:leases", "own:{alice}:settled:other", "own:{alice}:state"]
        for key in keys:
            assert await client.pttl(key) > 0


async def test_two_prefixes_are_two_stores(store: RedisAccountStore, redis: RedisServer) -> None:
    other = RedisAccountStore(StoreOptions("redis", url=redis.url, prefix="other", timeout=1.0))
    await other.open()
    await store.admit(claim_on("alice", "1", 0, (), (budget(),)))
    assert await other.spent("alice") == []
    await other.close()


async def test_a_key_that_cannot_be_read_is_left_out(
    store: RedisAccountStore, caplog: pytest.LogCaptureFixture
) -> None:
    _, record = made()
    await store.put_key(record)
    async with store.connection.call() as client:
        await client.hset("{own:keys}", "x", "canary-7f3a")
        version = await client.incr("{own:keys}:version")
        await client.hset("{own:keys}:marks", str(version), "other 2")
    found = await store.keys()
    assert found is not None
    assert list(found.records) == [record]
    assert "a key in the store cannot be read and is rejected" in caplog.text
    assert "canary" not in caplog.text


async def test_a_key_that_was_removed_differs_from_one_that_was_lost(store: RedisAccountStore) -> None:
    records = [made(name)[1] for name in "abc"]
    for record in records:
        await store.put_key(record)
    known = await store.keys()
    assert known is not None
    assert known.whole
    assert await store.keys(known.version) is None
    await store.remove_key(records[0].id)
    removed = await store.keys(known.version)
    assert removed is not None
    assert (removed.whole, len(removed.records)) == (True, 2)
    async with store.connection.call() as client:
        await client.hdel("{own:keys}", records[1].id)
    lost = await store.keys(removed.version)
    assert lost is not None
    assert (lost.whole, len(lost.records)) == (False, 1)
    fresh = await store.keys()
    assert fresh is not None
    assert not fresh.whole, "a process that starts sees it too"


async def test_keys_that_were_put_after_a_loss_do_not_hide_it(store: RedisAccountStore) -> None:
    for name in "abc":
        await store.put_key(made(name)[1])
    known = await store.keys()
    assert known is not None
    async with store.connection.call() as client:
        await client.flushall()
    for number in range(5):
        found = await store.keys(known.version)
        assert found is not None, "as many changes lead to the same number"
        assert (found.whole, len(found.records)) == (False, number)
        await store.put_key(made(f"new-{number}")[1])
    found = await store.keys()
    assert found is not None
    assert found.whole, "for a process that starts now, these are all"


async def test_a_loss_of_data_is_a_warning(store: RedisAccountStore, caplog: pytest.LogCaptureFixture) -> None:
    await store.ping()
    await store.ping()
    assert caplog.text == ""
    async with store.connection.call() as client:
        await client.flushall()
    await store.ping()
    await store.ping()
    assert caplog.text.count("Redis has lost its data: budgets and limits began again at zero") == 1


async def test_a_policy_that_evicts_is_a_remark(store: RedisAccountStore) -> None:
    assert await store.remarks() == ()
    async with store.connection.call() as client:
        await client.config_set("maxmemory-policy", "allkeys-lru")
        (remark,) = await store.remarks()
        assert "its maxmemory-policy is allkeys-lru; set it to noeviction" in remark
        await client.acl_setuser(
            "limited", enabled=True, nopass=True, keys=["*"], categories=["+@all"], commands=["-info"]
        )
        await client.config_set("maxmemory-policy", "noeviction")
    limited = StoreOptions("redis", url=store._options.url.replace("redis://", "redis://limited:x@"), timeout=1.0)
    other = RedisAccountStore(limited)
    await other.open()
    assert await other.remarks() == ()
    await other.close()


async def test_a_replica_is_not_healthy(store: RedisAccountStore, redis: RedisServer) -> None:
    async with store.connection.call() as client:
        await client.replicaof("127.0.0.1", str(free_port()))
        try:
            assert await client.ping()
            with pytest.raises(StoreError):
                await store.ping()
        finally:
            await client.replicaof("NO", "ONE")
    await store.ping()
