"""A Redis that answers with errors: what needs no store is served, the log names the cure, and all goes on after it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ResponseError

from dragoman.dialects import Dialect
from dragoman.threads import RedisStore, StoreError
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.redis import RedisAccountStore
from dragoman_server.config.state_options import StateOptions
from support.gateways import Gate, config_for, gate
from support.named_keys import made
from support.redis_nodes import command
from support.redis_server import RedisServer, redis_server
from support.samples import dump, reply
from support.sockets import ScriptedServer, answer
from support.waiting import until_true

Act = Callable[[Any], Awaitable[object]]


@dataclass
class Scene:
    """A gateway whose keys, limits and responses are in one Redis, and a client of an operator, a user of its own."""

    entrance: Gate
    client: Any
    headers: dict[str, str]

    async def chat(self) -> int:
        async with self.entrance.post(Dialect.CHAT, headers=self.headers) as response:
            await response.read()
            return int(response.status)

    async def stored(self, **fields: Any) -> tuple[int, Any]:
        """Status of a request of the Responses API, and whether its response was stored."""
        status, reply = await self.respond(**fields)
        return status, reply.get("store")

    async def respond(self, **fields: Any) -> tuple[int, Any]:
        """Status and body of a request of the Responses API."""
        body = {"model": "m", "input": "Hi", **fields}
        async with self.entrance.post(Dialect.RESPONSES, body, headers=self.headers) as response:
            return int(response.status), await response.json()

    async def warnings(self) -> list[str]:
        async with self.entrance.session.get(f"{self.entrance.url}/ready") as response:
            assert response.status == 200
            found: list[str] = (await response.json())["warnings"]
            return found

    async def status(self) -> list[str]:
        """The warnings of this host in what `dragoman status` shows."""
        async with self.entrance.session.get(
            f"{self.entrance.url}/v1/dragoman/status", headers=self.headers
        ) as response:
            assert response.status == 200
            (host,) = (await response.json())["hosts"]
            found: list[str] = host["warnings"]
            return found

    async def warns(self, *expected: str) -> None:
        async def same() -> bool:
            return set(await self.warnings()) == set(expected)

        await until_true(same, 30)


@asynccontextmanager
async def scene(redis: RedisServer) -> AsyncIterator[Scene]:
    key, record = made("alice", daily_tokens=10**9, admin=True)
    options = StoreOptions("redis", url=redis.url, timeout=5.0, refresh=0.02)
    store = RedisAccountStore(options)
    await store.open()
    await store.put_key(record)
    await store.close()
    command(redis, "ACL", "SETUSER", "operator", "on", ">secret", "allkeys", "allchannels", "+@all")
    async with ScriptedServer(answer(200, dump(reply(Dialect.CHAT)))) as server:
        state = StateOptions(kind="redis", url=redis.url, timeout=5.0)
        config = replace(config_for(server.url, Dialect.CHAT), store=options, state=state)
        async with gate(config) as entrance, operator(redis) as client:
            yield Scene(entrance, client, {"authorization": f"Bearer {key}"})


@asynccontextmanager
async def operator(redis: RedisServer) -> AsyncIterator[Any]:
    from redis.asyncio import Redis

    async with Redis.from_url(redis.url, username="operator", password="secret") as client:
        yield client


async def test_emptied_script_caches_are_filled_again() -> None:
    with redis_server() as redis:
        async with scene(redis) as it:
            for _ in range(5):
                assert (await it.chat(), await it.stored()) == (200, (200, True))
                await it.client.script_flush()
            await it.warns()


def commands(*lines: str) -> Act:
    async def act(client: Any) -> None:
        for line in lines:
            await client.execute_command(*line.split())

    return act


async def run_forever(client: Any) -> None:

    await client.config_set("busy-reply-threshold", 50)

    async def run() -> None:
        with pytest.raises(ResponseError, match="killed by user"):
            await client.eval("while true do end", 0)

    running = asyncio.create_task(run())
    _RUNNING.add(running)
    running.add_done_callback(_RUNNING.discard)

    async def busy() -> bool:
        try:
            return not await client.ping()
        except ResponseError as error:
            return "BUSY" in str(error)

    await until_true(busy)


_RUNNING: set[asyncio.Task[None]] = set()


async def overwrite(client: Any) -> None:
    """Let another program use the names of the counters and of the responses."""
    for pattern in ("dragoman:{*}:state", "{dragoman:responses}:[^sw]*"):
        for name in await client.keys(pattern):
            await client.rename(name, b"kept:" + name)
            await client.set(name, "other")


async def restore(client: Any) -> None:
    for name in await client.keys("kept:*"):
        await client.rename(name, name.removeprefix(b"kept:"))


PERMISSION = (
    r"let the user in state.url run scripts and all commands on its keys, such as \+@all ~dragoman:\* ~\{dragoman:\*"
)
FAULTS: dict[str, tuple[Act, Act, str]] = {
    "replica": (
        commands("REPLICAOF 127.0.0.1 1"),
        commands("REPLICAOF NO ONE"),
        "it is a replica, which cannot be written: name the primary in state.url",
    ),
    "replica-without-primary": (
        commands("CONFIG SET replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1"),
        commands("REPLICAOF NO ONE"),
        "it is a replica whose primary is down: name the primary in state.url",
    ),
    "no-room": (
        commands("CONFIG SET maxmemory 1"),
        commands("CONFIG SET maxmemory 0"),
        "Redis has reached its maxmemory: raise it, or store less",
    ),
    "no-replicas": (
        commands("CONFIG SET min-replicas-to-write 1"),
        commands("CONFIG SET min-replicas-to-write 0"),
        "Redis waits for its replicas: start them, or lower its min-replicas-to-write",
    ),
    "no-permission": (
        commands("ACL SETUSER default -@scripting"),
        commands("ACL SETUSER default +@all"),
        PERMISSION,
    ),
    "no-permission-for-a-command": (
        commands("ACL SETUSER default -hset -zadd"),
        commands("ACL SETUSER default +@all"),
        PERMISSION,
    ),
    "no-permission-for-its-keys": (
        commands("ACL SETUSER default resetkeys ~other:*"),
        commands("ACL SETUSER default allkeys"),
        PERMISSION,
    ),
    "another-password": (
        commands("CONFIG SET requirepass other-canary", "CLIENT KILL TYPE normal SKIPME yes"),
        lambda client: client.config_set("requirepass", ""),
        "check the user and the password in state.url",
    ),
    "long-script": (run_forever, commands("SCRIPT KILL"), "another client runs a long script: end it with SCRIPT KILL"),
    "keys-of-another-program": (
        overwrite,
        restore,
        "another program uses keys of these names: name a database of Dragoman's own in state.url",
    ),
    "too-many-clients": (
        commands("CONFIG SET maxclients 1", "CLIENT KILL TYPE normal SKIPME yes"),
        commands("CONFIG SET maxclients 1000"),
        "raise maxclients of Redis, or run fewer processes",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_requests_are_served_and_the_log_names_the_cure(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    inflict, cure, advice = FAULTS[kind]
    with redis_server() as redis:
        async with scene(redis) as it:
            assert (await it.chat(), await it.stored()) == (200, (200, True))
            await inflict(it.client)
            for _ in range(5):
                assert (await it.chat(), await it.stored()) == (200, (200, False))
            assert "state_unavailable" in await it.warnings()
            assert any(re.search(advice, record.getMessage()) for record in caplog.records)
            lines = [record.getMessage() for record in caplog.records]
            for store in ("the store of limits does not answer", "the store of responses fails"):
                assert sum(line.startswith(store) for line in lines) == 1, "it must not appear to answer in between"
            # It must not appear to answer as long as it cannot be written.
            probed = RedisStore(redis.url)
            await probed.open()
            with pytest.raises(StoreError):
                await probed.expire()
            await cure(it.client)
            await it.warns(*(["store_lost"] if "store_lost" in await it.warnings() else []))
            assert await it.stored() == (200, True)
            assert await probed.expire() == 0
            await probed.close()


async def test_a_redis_that_cannot_write_its_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with redis_server(options=("--dir", str(folder))) as redis:
        async with scene(redis) as it:
            assert await it.stored() == (200, True)
            await it.client.config_set("save", "3600 1")
            folder.rmdir()
            await it.client.bgsave()

            async def fails() -> bool:
                return bool((await it.client.info("persistence"))["rdb_last_bgsave_status"] == "err")

            await until_true(fails, 30)
            for _ in range(3):
                assert (await it.chat(), await it.stored()) == (200, (200, False))
            assert any("Redis cannot write its own file" in record.getMessage() for record in caplog.records)
            folder.mkdir()
            await it.client.config_set("save", "")
            await it.warns()
            assert await it.stored() == (200, True)


async def test_a_redis_that_reads_its_data_after_a_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Redis = pytest.importorskip("redis.asyncio").Redis
    with redis_server(options=("--dir", str(tmp_path))) as redis:
        async with scene(redis) as it:
            assert (await it.chat(), await it.stored()) == (200, (200, True))
            _, first = await it.respond()
            await it.client.eval("for i = 1, 5000 do redis.call('SET', 'key' .. i, string.rep('x', 100)) end", 0)
            await it.client.save()
            await asyncio.to_thread(redis.kill)
            await asyncio.to_thread(redis.start, "--key-load-delay", "2000", *LOADS_IN_STEPS)
            for _ in range(4):
                assert (await it.chat(), await it.stored()) == (200, (200, False))
            await it.warns("state_unavailable", "store_unavailable")
            assert (await it.respond(previous_response_id=first["id"]))[0] == 503
            advice = "it answers when it has read them"
            assert any(advice in record.getMessage() for record in caplog.records)
            async with Redis.from_url(redis.url) as client:
                assert (await client.info("persistence"))["loading"] == 1
                await client.config_set("key-load-delay", 0)
            await it.warns()
            assert (await it.chat(), await it.stored(previous_response_id=first["id"])) == (200, (200, True))


LOADS_IN_STEPS = ("--loading-process-events-interval-bytes", "1024")
