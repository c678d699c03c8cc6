"""Two gateway processes with keys, usage and responses in one PostgreSQL, and limits in one Redis."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dragoman_server.simulator import make_simulator
from support.commands import Command, command, run
from support.gateways import served
from support.postgres_server import PASSWORD, PostgresServer, postgres_server
from support.redis_server import RedisServer, redis_server
from support.waiting import until_true

CONFIG = """
[models]
unknown = "pass"
discover = false

[providers.up]
dialect = "chat"
base_url = "{url}/v1"

[prices."*"]
input = 1.0
output = 2.0

[usage]
kind = "postgresql"
url = "${{DATABASE}}"

[state]
kind = "postgresql"
url = "${{DATABASE}}"
{runs}

[store]
kind = "postgresql"
url = "${{DATABASE}}"
limits_url = "${{REDIS}}"
refresh = 3600
timeout = 5
"""


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@dataclass
class Team:
    """Gateways with one database, and what they answered."""

    path: Path
    variables: dict[str, str]
    session: aiohttp.ClientSession
    urls: list[str] = field(default_factory=list)
    processes: list[Command] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    async def run(self, *args: str, code: int = 0, early: bool = False) -> tuple[str, str]:
        """Return both outputs of a command. It may fail if it is `early`, and prints nothing then."""
        status, out, err = await run(*args, "-c", str(self.path), **self.variables)
        assert status == code or (early and status == 2), err
        assert PASSWORD not in out + err
        return out, err

    async def ask(self, number: int, key: str, model: str = "sim-text") -> int:
        """The status of a request to one of the gateways."""
        body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
        url = f"{self.urls[number % len(self.urls)]}/v1/chat/completions"
        async with (
            asyncio.timeout(30),
            self.session.post(url, json=body, headers={"authorization": f"Bearer {key}"}) as reply,
        ):
            await reply.read()
        self.statuses[reply.status] += 1
        return reply.status

    async def becomes(self, status: int, key: str) -> None:
        """Wait until all gateways answer a key with this status."""
        for number in range(len(self.urls)):

            async def answers(number: int = number) -> bool:
                return await self.ask(number, key) == status

            await until_true(answers)

    async def exchanges(self, number: int) -> None:
        """Wait until so many exchanges that were not rejected are booked."""

        async def booked() -> bool:
            # The table is created with the first row.
            printed, _ = await self.run("usage", "--by", "ended", "--json", early=True)
            rows: list[Any] = json.loads(printed)["data"] if printed else []
            return sum([int(row["exchanges"]) for row in rows if row["ended"] == "completed"]) == number

        await until_true(booked)


@asynccontextmanager
async def team(
    postgres: PostgresServer, redis: RedisServer, folder: Path, gateways: int = 2, runs: str = 'runs_url = "${REDIS}"'
) -> AsyncIterator[Team]:
    """Gateway processes that start at once, before an empty database."""
    variables = {"DATABASE": postgres.url, "REDIS": redis.url}
    path = folder / "dragoman.toml"
    async with (
        served(make_simulator()) as (url, _),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        AsyncExitStack() as running,
    ):
        await asyncio.to_thread(path.write_text, CONFIG.format(url=url, runs=runs))
        found = Team(path, variables, session)
        serve = ("serve", "--port", "0", str(path))
        for _ in range(gateways):
            found.processes.append(await running.enter_async_context(command(*serve, **variables)))
        for process in found.processes:
            found.urls.append((await process.writes(r"dragoman listens on (http://\S+)"))[1])
        yield found
        assert not any(PASSWORD in process.stated for process in found.processes)


async def test_keys_are_known_and_rejected_at_once(
    postgres: PostgresServer, redis: RedisServer, tmp_path: Path
) -> None:
    async with team(postgres, redis, tmp_path) as up:
        printed, stated = await up.run("keys", "add", "alice", "--model", "sim-text")
        key = printed.strip()
        assert "postgresql://***@127.0.0.1" in stated
        assert "accept it at once" in stated
        await up.becomes(200, key)
        await up.run("keys", "change", "alice", "--model", "sim-other")
        await up.becomes(403, key)
        listed, _ = await up.run("keys", "list", "--json")
        (record,) = json.loads(listed)["data"]
        assert (record["name"], record["models"], record["source"]) == ("alice", ["sim-other"], "postgresql")
        await up.run("keys", "revoke", "alice")
        await up.becomes(401, key)


async def test_limits_are_exact_and_usage_is_one_sum(
    postgres: PostgresServer, redis: RedisServer, tmp_path: Path
) -> None:
    async with team(postgres, redis, tmp_path) as up:
        limits = ("--requests-per-minute", "15", "--daily-tokens", "1000000", "--tag", "red")
        key = (await up.run("keys", "add", "alice", *limits))[0].strip()
        other = (await up.run("keys", "add", "bob", "--tag", "blue"))[0].strip()
        await up.becomes(200, other)
        before = up.statuses[200]
        up.statuses.clear()
        await asyncio.gather(*(up.ask(number, key) for number in range(40)))
        assert up.statuses == {200: 15, 429: 25}
        await up.exchanges(15 + before)
        listed, _ = await up.run("keys", "list")
        assert "daily_tokens of " in listed
        printed, _ = await up.run("usage", "--by", "tag,ended", "--json")
        rows = {(row["tag"], row["ended"]): row for row in json.loads(printed)["data"]}
        red = rows["red", "completed"]
        assert (red["exchanges"], rows["blue", "completed"]["exchanges"]) == (15, before)
        assert (red["cost"] > 0, red["input"] % 15, red["unpriced"]) == (True, 0, 0)
        printed, _ = await up.run("usage", "--by", "tag,ended", "--csv")
        lines = [line for line in csv.DictReader(io.StringIO(printed)) if line["tag"] == "red"]
        assert [int(line["input"]) for line in lines if line["ended"] == "completed"] == [red["input"]]
        printed, _ = await up.run("usage", "--since", "1h")
        assert "alice" in printed


@pytest.mark.whole
async def test_requests_are_answered_while_the_database_is_away_and_no_row_is_lost(
    postgres: PostgresServer, redis: RedisServer, tmp_path: Path
) -> None:
    async with team(postgres, redis, tmp_path) as up:
        key = (await up.run("keys", "add", "alice", "--requests-per-minute", "1000"))[0].strip()
        await up.becomes(200, key)
        await asyncio.to_thread(postgres.kill)
        for number in range(10):
            assert await up.ask(number, key) == 200
        assert await up.ask(0, "sk-unknown") == 401

        async def warns() -> bool:
            async with up.session.get(f"{up.urls[0]}/ready") as reply:
                found: Any = await reply.json()
            assert reply.status == 200
            return "store_unavailable" in found["warnings"]

        await until_true(warns)
        wrong, stated = await up.run("keys", "list", code=2)
        assert "check that PostgreSQL runs, and the address in store.url" in stated
        assert not wrong
        await asyncio.to_thread(postgres.start)
        await up.exchanges(up.statuses[200])
        second = (await up.run("keys", "add", "bob"))[0].strip()
        await up.becomes(200, second)
        for process in up.processes:
            await process.writes("the store of keys does not answer, those that were read before stay valid")
            await process.writes("the store of keys answers again")


@pytest.mark.whole
async def test_gateways_start_before_the_database(postgres: PostgresServer, redis: RedisServer, tmp_path: Path) -> None:
    await asyncio.to_thread(postgres.kill)
    async with team(postgres, redis, tmp_path, gateways=1) as up:
        unknown = f"sk-dragoman-{'a' * 12}-{'b' * 32}"
        async with up.session.get(f"{up.urls[0]}/ready") as reply:
            assert reply.status == 503
        await asyncio.to_thread(postgres.start)
        await up.becomes(401, unknown)
        key = (await up.run("keys", "add", "alice"))[0].strip()
        await up.becomes(200, key)


@pytest.mark.whole
async def test_a_key_with_limits_needs_a_redis(postgres: PostgresServer, redis: RedisServer, tmp_path: Path) -> None:
    async with team(postgres, redis, tmp_path, gateways=0) as up:
        text = await asyncio.to_thread(up.path.read_text)
        await asyncio.to_thread(up.path.write_text, text.replace('limits_url = "${REDIS}"', ""))
        _, stated = await up.run("keys", "add", "alice", "--daily-tokens", "5", code=2)
        assert "store.limits_url: is required for limits, which PostgreSQL does not keep" in stated
        await up.run("keys", "add", "alice")
        _, stated = await up.run("keys", "change", "alice", "--daily-tokens", "5", code=2)
        assert "store.limits_url: is required for limits" in stated
        wrong = {"DATABASE": postgres.url_of(password="wrong-canary")}
        up.variables |= wrong
        _, stated = await up.run("keys", "list", code=2)
        assert "check the user and the password in store.url" in stated
        assert "canary" not in stated
        _, stated = await up.run("usage", code=2)
        assert "check the user and the password in usage.url" in stated
        assert len(stated.strip().splitlines()) == 1


async def test_responses_run_in_the_background_of_any_host_through_redis(
    postgres: PostgresServer, redis: RedisServer, tmp_path: Path
) -> None:
    async with team(postgres, redis, tmp_path) as up:
        key = (await up.run("keys", "add", "alice"))[0].strip()
        await up.becomes(200, key)
        headers = {"authorization": f"Bearer {key}"}
        body = {"model": "sim-text", "input": "Hi", "background": True}
        async with up.session.post(f"{up.urls[0]}/v1/responses", json=body, headers=headers) as reply:
            begun: Any = await reply.json()
            assert reply.status == 200

        async def completed() -> bool:
            async with up.session.get(f"{up.urls[1]}/v1/responses/{begun['id']}", headers=headers) as reply:
                found: Any = await reply.json()
            assert reply.status == 200
            return bool(found["status"] == "completed")

        await until_true(completed)
        kept = await postgres.run("SELECT convert_from(id, 'UTF8') FROM dragoman.responses")
        assert [name for (name,) in kept] == [begun["id"]]


@pytest.mark.whole
async def test_without_a_redis_nothing_runs_in_the_background(
    postgres: PostgresServer, redis: RedisServer, tmp_path: Path
) -> None:
    async with team(postgres, redis, tmp_path, runs="") as up:
        key = (await up.run("keys", "add", "alice"))[0].strip()
        await up.becomes(200, key)
        headers = {"authorization": f"Bearer {key}"}
        body = {"model": "sim-text", "input": "Hi", "background": True}
        async with up.session.post(f"{up.urls[0]}/v1/responses", json=body, headers=headers) as reply:
            refused: Any = await reply.json()
        assert (reply.status, refused["error"]["param"]) == (400, "background")
        assert "state.runs_url" in refused["error"]["message"]
