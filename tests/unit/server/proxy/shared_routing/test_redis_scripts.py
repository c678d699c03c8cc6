"""The scripts: their keys are dropped some time after their last use. A law compares their answers with `law.py`."""

from __future__ import annotations

from dragoman_server.proxy.shared_routing.interface import ISSUER_SECONDS, LEASE, RetryClaim
from dragoman_server.proxy.shared_routing.redis import RedisRoutingStore
from dragoman_server.routing.shared_slots import PlaceClaim
from support.redis_nodes import command
from support.redis_server import redis_server


async def test_what_is_not_used_is_dropped() -> None:
    with redis_server() as server:
        store = RedisRoutingStore(server.url, prefix="test", timeout=5.0)
        await store.open()
        await store.exchange("a", [PlaceClaim("up", 3, 0, 0, 2, False)], RetryClaim(1, 1, 1, 0.2, 3))
        await store.keep_issuer("aa", "01", "east")
        await store.close()
        left = {name: command(server, "PTTL", name) for name in command(server, "KEYS", "*")}
        kept = {name for name, time in left.items() if time < 0}
        assert kept == {"{test:routing}:turn", "{test:routing}:schema"}, "two numbers"
        assert left["{test:routing}:places:up"] <= 2 * LEASE * 1000
        assert left["{test:issuers:aa}"] <= ISSUER_SECONDS * 1000
        assert {name.partition("}")[0] for name in left} == {"{test:routing", "{test:issuers:aa"}
