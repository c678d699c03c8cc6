"""Processes that are killed at any moment: no response that was reported as stored is lost, and none is cut.

Two processes share the file, as workers do. (The supervisor waits before it starts a worker that ends again and again.)
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from dragoman_server.simulator import make_simulator
from support.commands import command
from support.gateways import served

KILLS = int(os.environ.get("DRAGOMAN_KILLS", "20"))
CLIENTS = 6
CONFIG = """
[providers.up]
dialect = "chat"
base_url = "{url}/v1"

[models]
unknown = "pass"

[state]
kind = "sqlite"
path = "{path}"
"""


@dataclass(slots=True)
class Talker:
    """A client that continues its conversation without a pause, and notes which responses were reported as stored."""

    number: int
    stored: dict[str, Any] = field(default_factory=dict)
    head: str | None = None
    turns: int = 0
    cut: int = 0

    async def talk(self, url: str, enough: asyncio.Event) -> None:
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(20)) as session:
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
        assert reply.status == 200, whole
        response = json.loads(whole.rpartition(b"data: ")[2])["response"] if stream else json.loads(whole)
        assert response["store"] is True
        self.stored[response["id"]] = (response, text, self.head)
        # Long chains would make the test slow.
        self.head = response["id"] if self.turns % 8 else None


async def killed(config: Path, talkers: list[Talker], chance: random.Random) -> None:
    """Let some clients talk to a new process, and kill it at a random moment."""
    async with command("serve", str(config), "--port", "0") as running:
        url = (await running.says(r"dragoman listens on (http://\S+)"))[1]
        enough = asyncio.Event()
        talking = [asyncio.create_task(talker.talk(url, enough)) for talker in talkers]
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        enough.set()
        running.process.kill()
        await asyncio.gather(*talking)


async def test_no_response_that_was_reported_as_stored_is_lost(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)  # shown if it fails
    async with served(make_simulator()) as (url, _):
        config = tmp_path / "gateway.toml"
        config.write_text(CONFIG.format(url=url, path=tmp_path / "responses.db"))
        talkers = [Talker(number) for number in range(CLIENTS)]
        chance = random.Random(seed)
        for _ in range(KILLS // 2):
            await asyncio.gather(killed(config, talkers[::2], chance), killed(config, talkers[1::2], chance))
        assert sum(talker.cut for talker in talkers) > 0, "no request was cut"
        async with command("serve", str(config), "--port", "0") as running, aiohttp.ClientSession() as session:
            base = (await running.says(r"dragoman listens on (http://\S+)"))[1]

            async def read(path: str) -> Any:
                async with session.get(f"{base}/v1/responses/{path}") as reply:
                    assert reply.status == 200, path
                    return await reply.json()

            for talker in talkers:
                assert talker.stored
                for name, (response, text, previous) in talker.stored.items():
                    assert await read(name) == response
                    items = (await read(f"{name}/input_items?limit=100"))["data"]
                    assert items[0]["content"][0]["text"] == text
                    assert (previous is None) == (len(items) == 1)
