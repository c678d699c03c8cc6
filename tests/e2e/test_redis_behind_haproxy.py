"""The recipe for haproxy before a primary and its replicas, from docs/howto/keys-and-budgets.md."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.haproxy import haproxy, placed, recipe
from support.paths import ROOT
from support.redis_server import RedisServer, redis_server
from support.waiting import until_true

PASSWORD = "PASSWORD"  # as in the recipe
BIND = "ADDRESS"
FRONTEND = f"""
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s

frontend redis
  bind {BIND}
  default_backend redis

"""
PROTECTED = ("--requirepass", PASSWORD, "--masterauth", PASSWORD)


async def ask(port: int, *words: str) -> Any:
    """The reply of the Redis at a port; None if it does not answer."""
    redis = pytest.importorskip("redis.asyncio")
    try:
        async with redis.Redis(port=port, password=PASSWORD, decode_responses=True, socket_timeout=10) as client:
            return await client.execute_command(*words)
    except (ConnectionError, TimeoutError, redis.RedisError):
        return None


async def test_writes_go_to_the_primary_before_and_after_a_failover(tmp_path: Path) -> None:
    text = await asyncio.to_thread(recipe, ROOT / "docs/howto/keys-and-budgets.md", "haproxy")
    with (
        redis_server(options=PROTECTED) as first,
        redis_server(options=(*PROTECTED, "--replicaof", f"127.0.0.1 {first.port}")) as second,
    ):
        await _check(tmp_path, text, first, second)


async def _check(folder: Path, text: str, first: RedisServer, second: RedisServer) -> None:
    addresses = {"10.0.0.1:6379": f"127.0.0.1:{first.port}", "10.0.0.2:6379": f"127.0.0.1:{second.port}"}
    async with haproxy(folder, FRONTEND + placed(text, addresses), BIND) as port:

        async def only_the_first_is_used() -> bool:
            return [await ask(port, "SET", "a", "1") for _ in range(6)] == [True] * 6

        await until_true(only_the_first_is_used)
        assert await ask(first.port, "GET", "a") == "1"
        first.kill()
        await ask(second.port, "REPLICAOF", "NO", "ONE")

        async def the_second_is_used() -> bool:
            return await ask(port, "SET", "b", "2") is True

        await until_true(the_second_is_used)
        assert await ask(second.port, "GET", "b") == "2"
