"""Shared routing in Redis."""

from __future__ import annotations

import asyncio

import pytest

from dragoman_server.proxy.shared_routing.interface import StoreError
from dragoman_server.proxy.shared_routing.redis import RedisRoutingStore
from dragoman_server.routing.shared_slots import Grant, PlaceClaim
from support.redis_nodes import command
from support.redis_server import redis_server
from support.routing_stores import NO_RETRIES


async def test_the_calls_of_one_turn_share_a_connection() -> None:
    with redis_server() as server:
        store = RedisRoutingStore(server.url, prefix="test", timeout=5.0)
        await store.open()
        await store.exchange("a", [], NO_RETRIES)
        before = command(server, "INFO", "stats")["total_connections_received"]
        await asyncio.gather(*(store.keep_issuer("aa", str(number), "east") for number in range(200)))
        found = await asyncio.gather(*(store.find_issuer("aa", str(number)) for number in range(201)))
        assert found == [*["east"] * 200, None]
        assert command(server, "INFO", "stats")["total_connections_received"] == before + 1, "that of this test"
        await store.close()
        with pytest.raises(StoreError, match="not open"):
            await store.exchange("a", [], NO_RETRIES)


async def test_a_call_fails_within_its_timeout() -> None:
    with redis_server() as server:
        store = RedisRoutingStore(server.url, prefix="test", timeout=0.2)
        await store.open()
        claim = PlaceClaim("up", 3, 0, 0, 2, False)
        assert (await store.exchange("a", [claim], NO_RETRIES)).grants == [Grant(2, 0, 1)]
        server.freeze()
        with pytest.raises(StoreError, match="did not answer within"):
            await store.exchange("a", [claim], NO_RETRIES)
        server.thaw()
        await store.close()
