"""A Redis with limits and responses that is slow."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman_proof.chaos.gateway import gateway, until
from dragoman_proof.chaos.scenario import holds
from dragoman_proof.chaos.sdk import DIALECTS
from dragoman_proof.chaos.servers import redis, slowed
from dragoman_proof.chaos.setups import added_key, written
from dragoman_proof.chaos.upstream import HELD, upstream

_TABLES = """
[store]
kind = "redis"
url = "redis://127.0.0.1:{port}/0"

[state]
kind = "redis"
url = "redis://127.0.0.1:{port}/0"
timeout = 1
"""
_SLOW = 2.0
"""Seconds that each piece takes, in both directions: more than a call may take."""


async def redis_slow(folder: Path) -> None:
    """Before a slow Redis requests are served unchecked and responses are not stored; what was used counts later."""
    async with redis() as port, slowed(port) as proxy, upstream() as up:
        config = written(folder, up.url(), _TABLES.format(port=proxy.port))
        key = await added_key(config, "poor", "--daily-tokens", "300")
        async with gateway(config) as found:

            async def stored() -> bool:
                status, body = await found.ask("responses", headers=key)
                return bool(status == 200 and body["store"])

            await until(stored, "a response is stored")
            proxy.delay = _SLOW
            for _ in range(10):
                for dialect in DIALECTS:
                    status, body = await found.ask(dialect, headers=key)
                    holds(status == 200, f"{dialect}: a request is served", status, body)
                    holds(dialect != "responses" or body["store"] is False, "it is not stored", body)
            await found.warns("store_unavailable")
            await found.warns("state_unavailable")
            stream = asyncio.create_task(found.stream(HELD, key))
            up.go.set()
            holds((await stream).endswith("data: [DONE]\n\n"), "a stream is served")
            proxy.delay = 0.0
            for warning in ("store_unavailable", "state_unavailable"):
                await found.warns(warning, ends=True)

            async def refused() -> bool:
                return (await found.ask(headers=key))[0] == 429

            # 30 requests of 12 tokens are more than a day has.
            await until(refused, "what was used meanwhile is counted")


SCENARIOS = (redis_slow,)
