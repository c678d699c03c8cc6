"""All stores in a Redis Cluster and behind a Sentinel, also at a failover, and the errors of a wrong set-up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.threads import RedisStore, StoreError
from dragoman_server.accounts.store.interface import Lease
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.redis import RedisAccountStore
from dragoman_server.proxy.shared_routing.redis import RedisRoutingStore
from dragoman_server.routing.shared_slots import Grant, PlaceClaim
from support.claims import claim_on, settlement_on
from support.named_keys import made
from support.redis_nodes import Watched, command, redis_behind_sentinel, redis_cluster
from support.redis_server import RedisServer, redis_server
from support.routing_stores import NO_RETRIES
from support.thread_stores import ids, node
from support.waiting import until_true


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[RedisAccountStore, RedisStore]]:
    accounts = RedisAccountStore(StoreOptions("redis", url=url, timeout=5.0))
    responses = RedisStore(url, timeout=5.0, setting="state.url")
    await accounts.open()
    await responses.open()
    try:
        yield accounts, responses
    finally:
        await accounts.close()
        await responses.close()


async def _use(accounts: RedisAccountStore, responses: RedisStore) -> None:
    """Call everything that the stores do."""
    await accounts.ping()
    assert await accounts.remarks() == ()
    assert await accounts.now() > 1_700_000_000
    records = [made(f"key-{number}")[1] for number in range(3)]
    for record in records:
        await accounts.put_key(record)
    found = await accounts.keys()
    assert found is not None
    assert found.whole
    assert set(found.records) == set(records)
    assert await accounts.keys(found.version) is None
    assert await accounts.remove_key(records[0].id)
    budgets = (("daily_tokens", "2026-11-22", 100, 10, 30),)
    for number in range(20):  # their hashes are on all nodes
        key = f"client-{number}"
        outcomes = await asyncio.gather(
            *(accounts.admit(claim_on(key, str(each), 9, (("requests", 9, 1),), budgets)) for each in range(4))
        )
        assert sorted(bool(each.rejected) for each in outcomes) == [False, False, True, True]
        leases = [str(at) for at, each in enumerate(outcomes) if not each.rejected]
        await accounts.renew([Lease(key, lease) for lease in leases])
        settlements = [settlement_on(key, lease, True, (), budgets) for lease in leases]
        for each in settlements:
            each.claim.periods = ()
        await accounts.settle(settlements)
        assert [each.amount for each in await accounts.spent(key)] == [40]
    await accounts.cool("provider", 30)
    assert [*await accounts.cooldowns()] == ["provider"]
    for owner in ("k", "l", "m"):
        await responses.put(node(owner, "a"))
        await responses.put(node(owner, "b", "a"))
        assert ids(await responses.path(owner, "b")) == ["a", "b"]
        assert ids(await responses.tree(owner, "a")) == ["a", "b"]
        assert await responses.delete(owner, "a")
    assert await responses.expire() == 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


async def test_all_stores_work_in_a_cluster(cluster: list[RedisServer]) -> None:
    nodes = ",".join(f"127.0.0.1:{each.port}" for each in cluster)
    url = f"redis+cluster://{nodes}"
    async with opened(url) as stores:
        await _use(*stores)
    routing = RedisRoutingStore(url, prefix="dragoman", timeout=5.0)
    await routing.open()
    claims = [PlaceClaim(name, 3, 0, 0, 2, False) for name in ("one", "two")]
    assert (await routing.exchange("a", claims, NO_RETRIES)).grants == [Grant(2, 0, 1)] * 2
    for number in range(20):
        await routing.keep_issuer(str(number), "01", "east")
        assert await routing.find_issuer(str(number), "01") == "east"
    await routing.close()
    counts = [command(each, "DBSIZE") for each in cluster]
    assert all(counts), "every node has some of the keys"


async def test_a_node_of_a_cluster_as_a_single_redis_is_named(cluster: list[RedisServer]) -> None:
    messages = []
    for each in cluster:
        async with opened(each.url) as (accounts, responses):
            try:
                await accounts.ping()
            except StoreError as error:
                messages.append((str(error), "store.url"))
            try:
                await responses.put(node("k", "z"))
            except StoreError as error:
                messages.append((str(error), "state.url"))
    assert messages
    for message, setting in messages:
        assert f"this is a node of a cluster: write {setting} as redis+cluster://HOST:PORT" in message
        assert "\n" not in message


async def test_a_cluster_without_slots_is_named(tmp_path: Path) -> None:
    with redis_cluster(tmp_path, slots=False) as nodes:
        async with opened(f"redis+cluster://127.0.0.1:{nodes[0].port}") as (accounts, _):
            with pytest.raises(StoreError, match=r"that serves all slots|does not serve all slots") as caught:
                await accounts.ping()
            assert "\n" not in str(caught.value)


async def test_a_single_redis_as_a_cluster_is_named() -> None:
    with redis_server() as server:
        async with opened(server.url.replace("redis://", "redis+cluster://").removesuffix("/0")) as (accounts, _):
            with pytest.raises(
                StoreError, match=r"check that the nodes in store\.url run, and that they are a cluster"
            ):
                await accounts.ping()


async def test_a_wrong_password_of_a_cluster_and_of_sentinels_is_named() -> None:
    with redis_server(options=("--requirepass", "right-7q3z")) as server:
        for form in ("redis+cluster://:wrong-7q3z@{}", "redis+sentinel://:x@{}/mine?sentinel_password=wrong-7q3z"):
            async with opened(form.format(f"127.0.0.1:{server.port}")) as (accounts, _):
                with pytest.raises(StoreError, match=r"store\.url") as caught:
                    await accounts.ping()
                assert "7q3z" not in str(caught.value)
                assert "\n" not in str(caught.value)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with redis_behind_sentinel(tmp_path) as found:
        yield found


async def test_both_stores_follow_the_sentinel_to_another_primary(watched: Watched) -> None:
    async with opened(watched.url) as (accounts, responses):
        await _use(accounts, responses)
        assert command(watched.primary, "WAIT", 1, 10_000) == 1
        await asyncio.to_thread(watched.primary.kill)

        async def works() -> bool:
            try:
                await accounts.ping()
            except StoreError:
                await asyncio.sleep(0.05)
                return False
            return True

        await until_true(works, 30)
        assert await asyncio.to_thread(watched.promoted)
        # The old primary comes back, and takes itself for one until the Sentinel demotes it. It gets no writes.
        await asyncio.to_thread(watched.primary.start)
        assert await asyncio.to_thread(command, watched.primary, "ROLE")
        for number in range(50):
            await responses.put(node("k", f"then-{number}"))
            assert not (await accounts.admit(claim_on("client", str(number)))).rejected
        for number in range(50):
            assert await responses.get("k", f"then-{number}") is not None
        kept = await asyncio.to_thread(command, watched.replica, "HLEN", "{dragoman:responses}:ids:k")
        assert kept >= 50


async def test_an_unknown_service_is_named(watched: Watched) -> None:
    async with opened(watched.url.replace("mine", "other")) as (accounts, _):
        with pytest.raises(StoreError, match="the name of the service there") as caught:
            await accounts.ping()
        assert "store.url" in str(caught.value)


async def test_a_slot_that_is_being_moved_is_named(tmp_path: Path) -> None:
    """Half of the keys of a script have moved (`TRYAGAIN`); when the move has ended, it answers again."""
    with redis_cluster(tmp_path) as nodes:
        async with opened(f"redis+cluster://127.0.0.1:{nodes[0].port}") as (accounts, _):
            await accounts.admit(claim_on("client", "1", 9, (("requests", 9, 1),), ()))
            slot = command(nodes[0], "CLUSTER", "KEYSLOT", "client")
            source = next(node for node in nodes if command(node, "CLUSTER", "COUNTKEYSINSLOT", slot))
            target = next(node for node in nodes if node is not source)
            command(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", command(source, "CLUSTER", "MYID"))
            command(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", command(target, "CLUSTER", "MYID"))
            with pytest.raises(StoreError, match="the cluster moves a slot, or its nodes disagree: look at CLUSTER"):
                await accounts.admit(claim_on("client", "2", 9, (("requests", 9, 1),), ()))
            for node in (source, target):
                command(node, "CLUSTER", "SETSLOT", slot, "STABLE")
            assert not (await accounts.admit(claim_on("client", "3", 9, (("requests", 9, 1),), ()))).rejected
