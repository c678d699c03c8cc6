"""Processes with responses in the background are killed at any moment: none is unknown, runs twice, or stays open.

`DRAGOMAN_KILLS` is the number of kills: 4 take twenty seconds, 300 take eight minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from dragoman_server.simulator import make_simulator
from support.commands import command
from support.gateways import served
from support.redis_server import redis_server
from support.waiting import until

KILLS = int(os.environ.get("DRAGOMAN_KILLS", "4"))
RUNS = 4
"""Clients that begin runs at a process until it is killed."""
MODELS = ("sim-text", "sim-stall", "sim-agent", "sim-slow")
ENDED = ("completed", "failed")
CONFIG = """
[providers.up]
dialect = "chat"
base_url = "{url}/v1"

[models]
unknown = "pass"
discover = false

[state]
timeout = 30
background = 10000
{state}
"""


class Watch:
    """Begins runs at processes that are killed, and reads them at one that is not."""

    def __init__(self, session: aiohttp.ClientSession, other: str) -> None:
        self.session = session
        self.other = other
        self.known: dict[str, str] = {}
        """The last status of each response whose id a client has, as the other process returned it."""
        self.done = asyncio.Event()

    async def begin(self, url: str, number: int) -> None:
        """Begin runs until the process is gone. `number` is used once, unlike ports."""
        for turn in range(10_000):
            body = {
                "model": MODELS[number % len(MODELS)],
                "input": f"{number} {turn}",
                "background": True,
                "stream": turn % 2 == 0,
            }
            try:
                async with self.session.post(f"{url}/v1/responses", json=body) as reply:
                    assert reply.status in (200, 503), await reply.text()
                    if turn % 2 == 0:
                        frame = await reply.content.readuntil(b"\n\n")
                        found = json.loads(frame.partition(b"data: ")[2])["response"]
                    else:
                        found = await reply.json()
            except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError, json.JSONDecodeError):
                return
            self.known[found["id"]] = found["status"]
            await asyncio.sleep(0.02)

    async def begins(self, polling: asyncio.Task[None]) -> None:
        """Wait until a client has one more id; not if `polling` has failed."""
        before = len(self.known)
        await until(lambda: len(self.known) > before or polling.done())

    async def poll(self) -> None:
        """Read all that have not ended, again and again."""
        while not self.done.is_set() or self.open():
            for response_id in self.open():
                async with self.session.get(f"{self.other}/v1/responses/{response_id}") as reply:
                    assert reply.status == 200, await reply.text()
                    self.known[response_id] = (await reply.json())["status"]
            await asyncio.sleep(0.05)

    def open(self) -> list[str]:
        """The ids of those that are not known to have ended."""
        return [each for each, status in self.known.items() if status not in ENDED]


@contextmanager
def state_of(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f'kind = "sqlite"\npath = "{folder}/responses.db"'
    else:
        with redis_server() as redis:
            yield f'kind = "redis"\nurl = "{redis.url}"'


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["redis", "sqlite"])
async def test_every_run_of_a_killed_process_ends_and_none_runs_twice(kind: str, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)  # shown if it fails
    chance, simulator, sent = random.Random(seed), make_simulator(), Counter[str]()

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        sent[json.dumps((await request.json())["messages"])] += 1
        return await handler(request)

    simulator.middlewares.append(count)
    async with served(simulator) as (url, _):
        with state_of(kind, tmp_path) as state:
            config = tmp_path / "gateway.toml"
            await asyncio.to_thread(config.write_text, CONFIG.format(url=url, state=state))
            async with (
                command("serve", str(config), "--port", "0") as other,
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(force_close=True, limit=0), timeout=aiohttp.ClientTimeout(60)
                ) as session,
            ):
                watch = Watch(session, (await other.writes(r"dragoman listens on (http://\S+)"))[1])
                polling = asyncio.create_task(watch.poll())
                for kill in range(KILLS):
                    async with command("serve", str(config), "--port", "0") as killed:
                        address = (await killed.writes(r"dragoman listens on (http://\S+)"))[1]
                        numbers = range(kill * RUNS, (kill + 1) * RUNS)
                        beginning = [asyncio.create_task(watch.begin(address, number)) for number in numbers]
                        await watch.begins(polling)
                        await asyncio.sleep(chance.uniform(0.02, 0.6))
                        killed.process.kill()
                        await asyncio.gather(*beginning)
                watch.done.set()
                async with asyncio.timeout(120):
                    await polling
                await check(watch, session)
                assert max(sent.values()) == 1, "a request was sent again"


async def check(watch: Watch, session: aiohttp.ClientSession) -> None:
    """All have ended, and are stored as they were seen."""
    counted = Counter(watch.known.values())
    print(f"{KILLS} kills: {dict(counted)}")
    assert set(counted) <= set(ENDED)
    assert counted["failed"] >= KILLS
    for response_id, status in list(watch.known.items())[-200:]:
        async with session.get(f"{watch.other}/v1/responses/{response_id}") as reply:
            found = await reply.json()
        assert (reply.status, found["status"], found["store"]) == (200, status, True)
        assert status == "completed" or found["error"]["code"] == "server_error"
