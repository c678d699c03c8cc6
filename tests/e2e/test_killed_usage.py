"""Processes are killed while streams and runs are open: each request that an upstream received has one row of usage.

`DRAGOMAN_KILLS` is the number of kills: 4 take twenty seconds, 300 take ten minutes. Over PostgreSQL, the lease of a
killed process is ended by the test: nothing waits three minutes for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows
from dragoman_server.simulator import make_simulator
from support.commands import Command, command
from support.gateways import served
from support.postgres_server import PostgresServer, postgres_server
from support.redis_server import redis_server
from support.waiting import until, until_true

KILLS = int(os.environ.get("DRAGOMAN_KILLS", "4"))
CLIENTS = 6
"""Clients that send requests to a process until it is killed."""
MODELS = ("sim-text", "sim-stall", "sim-agent", "sim-slow")
LISTENS = r"dragoman listens on (http://\S+)"
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

[usage]
kind = "{kind}"
{place}

[prices."*"]
input = 1.0
output = 2.0
"""


@contextmanager
def state_of(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f'kind = "sqlite"\npath = "{folder}/responses.db"'
    else:
        with redis_server() as redis:
            yield f'kind = "redis"\nurl = "{redis.url}"'


class Clients:
    """Send requests of all kinds to processes that are killed. The text of each, and its tag, are its number."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.sent = 0
        self.begun: list[str] = []
        """The ids of the responses in the background that a client knows."""

    async def run(self, url: str, number: int) -> None:
        """Send requests until the process is gone."""
        for turn in range(10_000):
            self.sent += 1
            tag, model, stream = f"n{self.sent}", MODELS[(number + turn) % len(MODELS)], (number + turn) % 3 > 0
            message = {"role": "user", "content": tag}
            path, body = (
                ("/v1/chat/completions", {"messages": [message]}),
                ("/v1/messages", {"messages": [message], "max_tokens": 100}),
                ("/v1/responses", {"input": tag, "background": True}),
            )[number % 3]
            try:
                await self._send(url + path, {"model": model, "stream": stream, **body}, tag)
            except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError, json.JSONDecodeError):
                return
            await asyncio.sleep(0.02)

    async def _send(self, url: str, body: dict[str, Any], tag: str) -> None:
        async with self.session.post(url, json=body, headers={"x-dragoman-tag": tag}) as reply:
            assert reply.status in (200, 503), await reply.text()
            if not body.get("background"):
                await reply.read()
            elif body["stream"]:
                frame = await reply.content.readuntil(b"\n\n")
                self.begun.append(json.loads(frame.partition(b"data: ")[2])["response"]["id"])
            else:
                self.begun.append((await reply.json())["id"])

    async def check_known(self, url: str) -> None:
        """All responses in the background are known to another process, and have ended."""
        for response_id in self.begun:
            async with self.session.get(f"{url}/v1/responses/{response_id}") as reply:
                assert reply.status == 200, await reply.text()
                assert (await reply.json())["status"] in ("completed", "failed")


async def kill_some(clients: Clients, config: Path, chance: random.Random, received: Counter[str]) -> list[int]:
    """Start processes, and kill each with requests open. Return their ids."""
    pids = []
    for _ in range(KILLS):
        async with command("serve", str(config), "--port", "0") as killed:
            url, before = (await killed.writes(LISTENS))[1], received.total()
            running = [asyncio.create_task(clients.run(url, number)) for number in range(CLIENTS)]
            await until(partial(lambda before: received.total() > before, before))
            await asyncio.sleep(chance.uniform(0.02, 0.6))
            killed.process.kill()
            await asyncio.gather(*running)
            pids.append(killed.process.pid)
    return pids


async def stop(running: Command) -> None:
    running.process.terminate()
    assert await running.ends() == 0


class FileOfRows:
    """The rows of usage in a file, whose journal finds out by itself that a process is gone."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.place = f'path = "{folder}/usage"'
        self._folder = folder
        self._options = UsageOptions(kind, str(folder / "usage"))

    async def booked(self) -> list[dict[str, Any]]:
        """The rows."""
        return [*read_rows(self._options)]

    async def end_leases(self, _: list[int]) -> None:
        """Return at once: a lock ends with its process."""

    async def begun(self) -> list[str]:
        """The entries that are left in the journal."""
        return [name for name in os.listdir(self._folder) if "begun" in name]


class TableOfRows:
    """The rows of usage in PostgreSQL, in whose journal each process has a lease."""

    def __init__(self, server: PostgresServer) -> None:
        self.place = f'url = "{server.url}"'
        self._server = server

    async def booked(self) -> list[dict[str, Any]]:
        """The rows; none before the first gateway has created the table."""
        if not (await self._server.run("SELECT to_regclass('dragoman.usage') IS NOT NULL"))[0][0]:
            return []
        return [dict(row) for row in await self._server.run("SELECT * FROM dragoman.usage")]

    async def end_leases(self, pids: list[int]) -> None:
        """End the leases of these processes, as if three minutes had passed for them."""
        names = " OR ".join(f"process LIKE '%:{pid}:%'" for pid in pids)
        await self._server.run(f"UPDATE dragoman.begun_by SET seen = '-infinity' WHERE {names}")

    async def begun(self) -> list[str]:
        """The entries that are left in the journal."""
        return [name for (name,) in await self._server.run("SELECT id FROM dragoman.begun")]


Rows = FileOfRows | TableOfRows


@contextmanager
def rows_of(kind: str, folder: Path) -> Iterator[Rows]:
    if kind == "postgresql":
        with postgres_server() as server:
            yield TableOfRows(server)
    else:
        yield FileOfRows(kind, folder)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("jsonl", "redis"),
        ("sqlite", "sqlite"),
        ("sqlite", "redis"),
        ("postgresql", "redis"),
    ],
)
async def test_every_request_of_killed_processes_has_one_row(kind: str, state: str, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)  # shown if it fails
    simulator, received = make_simulator(), Counter[str]()

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        received[(await request.json())["messages"][-1]["content"]] += 1
        return await handler(request)

    simulator.middlewares.append(count)
    with rows_of(kind, tmp_path) as rows, state_of(state, tmp_path) as table:

        async def all_booked() -> bool:
            return received.keys() <= {row["tag"] for row in await rows.booked()}

        async with served(simulator) as (upstream, _):
            config = tmp_path / "gateway.toml"
            text = CONFIG.format(url=upstream, state=table, kind=kind, place=rows.place)
            await asyncio.to_thread(config.write_text, text)
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            async with (
                command("serve", str(config), "--port", "0") as other,
                aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(60)) as session,
            ):
                url, clients = (await other.writes(LISTENS))[1], Clients(session)
                killed = await kill_some(clients, config, random.Random(seed), received)
                await rows.end_leases(killed)
                async with command("serve", str(config), "--port", "0") as last:
                    await last.writes(LISTENS)  # it books what the last killed process has left
                    # Runs lose their process when their leases end.
                    await until_true(all_booked, 120)
                    await clients.check_known(url)
                    await stop(last)
                await stop(other)
        check(await rows.booked(), received)
        assert not await rows.begun()


def check(rows: list[dict[str, Any]], received: Counter[str]) -> None:
    """No request was received twice, each has one row, and a row without one was lost before it was sent."""
    assert max(received.values()) == 1
    ended = Counter(row["ended"] for row in rows)
    unsent = [row for row in rows if row["tag"] not in received]
    print(f"{KILLS} kills, {received.total()} requests received, {len(rows)} rows: {dict(ended)}, {len(unsent)} unsent")
    assert len(rows) == len({row["id"] for row in rows}) == len({row["tag"] for row in rows})
    assert len(rows) - len(unsent) == received.total()
    assert all(row["ended"] == "lost" for row in unsent)
    assert ended["lost"] >= KILLS
    for row in rows:
        if row["ended"] == "lost":
            assert (row["estimated"], row["output"], row["status"]) == (["input"], None, 0)
            assert row["input"] > 0
            assert float(row["cost"]) == pytest.approx(row["input"] / 1e6)
