"""Processes that are killed at any moment: no response that was reported as stored is lost, and none is cut.

Two processes share the store, as workers do. (The supervisor waits before it starts a worker that ends repeatedly.)
`DRAGOMAN_KILLS` is the number of kills: 20 take ten seconds, 1,000 take four minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dragoman.threads import PostgresStore, RedisStore, SqliteStore, Store, history
from dragoman_server.simulator import make_simulator
from support.commands import command
from support.gateways import served
from support.store_servers import SHARED, StoreServer, store_server

KILLS = int(os.environ.get("DRAGOMAN_KILLS", "20"))
SERVER_KILLS = max(6, KILLS // 10)
CLIENTS = 6
READ_OVER_HTTP = 200
"""Responses that are read through a gateway at the end; all are read from the store."""
CONFIG = """
[providers.up]
dialect = "chat"
base_url = "{url}/v1"

[models]
unknown = "pass"
discover = false

[state]
{state}
"""


@dataclass(slots=True)
class Talker:
    """A client that continues its conversation without a pause, and notes which responses were reported as stored."""

    number: int
    stored: dict[str, Any] = field(default_factory=dict)
    texts: dict[str | None, list[str]] = field(default_factory=lambda: {None: []})
    """The texts of the path to each stored response."""
    head: str | None = None
    turns: int = 0
    cut: int = 0
    unstored: int = 0
    has_stored: asyncio.Event = field(default_factory=asyncio.Event)

    async def talk(self, url: str, enough: asyncio.Event) -> None:
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(30)) as session:
            while not enough.is_set():
                self.turns += 1
                try:
                    await self._turn(session, url, stream=self.turns % 2 == 0)
                except (aiohttp.ClientError, ConnectionError):
                    self.cut += 1
                    await asyncio.sleep(0.01)

    async def _turn(self, session: aiohttp.ClientSession, url: str, *, stream: bool) -> None:
        text = f"{self.number}.{self.turns}"
        body = {"model": "sim-text", "input": text, "previous_response_id": self.head, "stream": stream}
        async with session.post(f"{url}/v1/responses", json=body) as reply:
            whole = await reply.read()
        if reply.status == 503:
            self.unstored += 1
            self.head = None
            return
        assert reply.status == 200, whole
        response = json.loads(whole.rpartition(b"data: ")[2])["response"] if stream else json.loads(whole)
        if not response["store"]:
            self.unstored += 1
            self.head = None
            return
        self.stored[response["id"]] = response
        self.has_stored.set()
        self.texts[response["id"]] = [*self.texts[self.head], text]
        # Long chains would make the test slow.
        self.head = response["id"] if self.turns % 8 else None


async def kill_again_and_again(config: Path, talkers: list[Talker], chance: random.Random, kills: int) -> None:
    """Let some clients talk to a new process, and kill it at a random moment; so many times.

    The first process is not killed before it has stored a response: a busy machine may take long for that.
    """
    for _ in range(kills):
        async with command("serve", str(config), "--port", "0") as gateway:
            url = (await gateway.writes(r"dragoman listens on (http://\S+)"))[1]
            enough = asyncio.Event()
            talking = [asyncio.create_task(talker.talk(url, enough)) for talker in talkers]
            await asyncio.wait_for(talkers[0].has_stored.wait(), 60)
            await asyncio.sleep(chance.uniform(0.02, 0.3))
            enough.set()
            gateway.process.kill()
            await gateway.process.wait()
            await asyncio.gather(*talking)


@asynccontextmanager
async def killed(folder: Path, state: str, kills: int) -> AsyncIterator[tuple[Path, list[Talker]]]:
    """The configuration of a gateway, and clients whose gateways were killed."""
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)  # shown if it fails
    async with served(make_simulator()) as (url, _):
        config = folder / "gateway.toml"
        await asyncio.to_thread(config.write_text, CONFIG.format(url=url, state=state))
        talkers = [Talker(number) for number in range(CLIENTS)]
        chance = random.Random(seed)
        await asyncio.gather(
            kill_again_and_again(config, talkers[::2], chance, kills // 2),
            kill_again_and_again(config, talkers[1::2], chance, kills // 2),
        )
        assert sum(talker.cut for talker in talkers) > 0, "no request was cut"
        print("stored", sum(len(talker.stored) for talker in talkers), "cut", sum(talker.cut for talker in talkers))
        yield config, talkers


async def check_all(store: Store, talkers: list[Talker]) -> None:
    """Every response that was reported as stored is there, whole, with its whole path."""
    await store.open()
    assert sum(len(talker.stored) for talker in talkers) > 0
    for talker in talkers:
        for name, response in talker.stored.items():
            path = await store.path("", name)
            assert path, name
            assert json.loads(path[-1].reply) == response
            assert [item["content"] for item in history(path) if item["role"] == "user"] == talker.texts[name]
    await store.close()


async def check_over_http(config: Path, talkers: list[Talker]) -> None:
    """A new gateway returns the last ones of them."""
    async with command("serve", str(config), "--port", "0") as running, aiohttp.ClientSession() as session:
        base = (await running.writes(r"dragoman listens on (http://\S+)"))[1]

        async def read(path: str) -> Any:
            async with session.get(f"{base}/v1/responses/{path}") as reply:
                assert reply.status == 200, path
                return await reply.json()

        for talker in talkers:
            for name in list(talker.stored)[-READ_OVER_HTTP // CLIENTS :]:
                assert await read(name) == talker.stored[name]
                items = (await read(f"{name}/input_items?limit=100&order=asc"))["data"]
                assert [item["content"][0]["text"] for item in items[::2]] == talker.texts[name]


async def test_no_response_that_was_reported_as_stored_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "responses.db"
    async with killed(tmp_path, f'kind = "sqlite"\npath = "{file}"', KILLS) as (config, talkers):
        assert sum(talker.unstored for talker in talkers) == 0
        await check_over_http(config, talkers)
        await check_all(SqliteStore(str(file)), talkers)
    db = sqlite3.connect(file)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    counted = db.execute("SELECT nodes, size FROM totals").fetchone()
    assert counted == db.execute("SELECT count(*), sum(size) FROM nodes").fetchone()
    assert counted == db.execute("SELECT sum(nodes), sum(size) FROM trees").fetchone()
    db.close()


async def kill_server(server: StoreServer, enough: asyncio.Event) -> None:
    """Kill the server of the store at random moments, and start it again."""
    while not enough.is_set():
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        with suppress(TimeoutError):
            await asyncio.wait_for(enough.wait(), random.uniform(0.3, 1.0))


@pytest.mark.whole
@pytest.mark.parametrize("both", [False, True], ids=["gateways", "gateways and server"])
@pytest.mark.parametrize("kind", SHARED)
async def test_no_response_in_a_server_that_was_reported_as_stored_is_lost(
    kind: str, both: bool, tmp_path: Path
) -> None:
    with store_server(kind, tmp_path) as server:
        state = f'kind = "{kind}"\nurl = "{server.url}"'
        enough = asyncio.Event()
        killing = asyncio.create_task(kill_server(server, enough)) if both else None
        async with killed(tmp_path, state, SERVER_KILLS) as (config, talkers):
            if killing is not None:
                enough.set()
                await killing
            else:
                assert sum(talker.unstored for talker in talkers) == 0
            await check_over_http(config, talkers)
            await check_all(RedisStore(server.url) if kind == "redis" else PostgresStore(server.url), talkers)
