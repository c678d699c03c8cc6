"""Gateway processes over one store: receipts, the console and the status of all, also while Redis is away."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.commands import Command, command
from support.fleet import fleet
from support.gateways import CHAT, MESSAGES
from support.redis_server import RedisServer, redis_server
from support.samples import PATHS, dump, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, Wait, chunk, sse_head, stream
from support.waiting import until_true

pytestmark = pytest.mark.turns  # a row starts a process or more

KEY, OTHER, UPSTREAM_KEY = "canary-gateway-key", "canary-other-key", "canary-upstream-key"
FILE = """
[server]
name = "{name}"
ui = true
keys = ["{key}", "{other}"]
[models]
discover = false
[store]
kind = "redis"
url = "{redis}"
keys = false
timeout = 2.0
[providers.up]
dialect = "chat"
base_url = "{upstream}/v1"
api_key = "{upstream_key}"
[[routes]]
model = "{model}"
provider = "up"
"""
SQLITE = """
[server]
name = "gw-1"
[models]
discover = false
[store]
kind = "sqlite"
path = "{path}"
keys = false
[providers.up]
dialect = "chat"
base_url = "{upstream}/v1"
[[routes]]
model = "*"
provider = "up"
[state]
kind = "off"
"""


@dataclass
class Host:
    command: Command
    url: str
    session: aiohttp.ClientSession

    async def get(self, path: str, key: str = KEY) -> tuple[int, Any]:
        async with self.session.get(f"{self.url}{path}", headers={"x-api-key": key}) as response:
            return response.status, json.loads(await response.text())

    async def post(self, key: str = KEY) -> aiohttp.ClientResponse:
        headers = {"x-api-key": key, "content-type": "application/json"}
        return await self.session.post(
            self.url + PATHS[MESSAGES], data=dump(request(MESSAGES, stream=True)), headers=headers
        )

    async def ask(self, key: str = KEY) -> str:
        """Send a request, read its reply, and return the id."""
        async with await self.post(key) as response:
            assert response.status == 200, await response.text()
            await response.read()
            return response.headers["x-dragoman-request-id"]


@asynccontextmanager
async def host(folder: Path, name: str, redis: RedisServer, upstream: str, model: str = "*") -> AsyncIterator[Host]:
    path = folder / f"{name}.toml"
    text = FILE.format(
        name=name, key=KEY, other=OTHER, redis=redis.url, upstream=upstream, upstream_key=UPSTREAM_KEY, model=model
    )
    await asyncio.to_thread(path.write_text, text)
    async with (
        command("serve", str(path), "--port", "0", "--log-format", "json", cwd=None) as up,
        aiohttp.ClientSession() as session,
    ):
        yield Host(up, (await up.writes(r"dragoman listens on (http://[^\s\"]+)"))[1], session)


@pytest.mark.parametrize("outage", [False, True])
async def test_any_host_shows_what_happened_at_another(tmp_path: Path, outage: bool) -> None:
    resume = asyncio.Event()
    frames = [Send(chunk(frame)) for frame in text_stream(CHAT)]
    script: list[Step] = [Send(sse_head()), *frames[:3], Wait(resume), *frames[3:], Send(LAST_CHUNK)]
    with redis_server() as redis:
        async with (
            ScriptedServer(script) as upstream,
            host(tmp_path, "gw-1", redis, upstream.url) as one,
            host(tmp_path, "gw-2", redis, upstream.url) as two,
        ):
            resume.set()
            if outage:
                # No request waits for Redis, and the receipt comes when it is back.
                redis.kill()
            request_id = await one.ask()
            if outage:
                assert (await two.get(f"/v1/dragoman/receipts/{request_id}"))[0] == 503
                assert (await one.get(f"/v1/dragoman/receipts/{request_id}"))[0] == 200
                assert len((await one.get("/v1/dragoman/receipts"))[1]["data"]) == 1
                code, status = await two.get("/v1/dragoman/status")
                assert (code, [each["host"] for each in status["hosts"]]) == (200, ["gw-2"])
                assert status["problem"].startswith("the other hosts are not known")
                redis.start()

            async def has_receipt() -> bool:
                return (await two.get(f"/v1/dragoman/receipts/{request_id}"))[0] == 200

            await until_true(has_receipt)
            receipt = (await two.get(f"/v1/dragoman/receipts/{request_id}"))[1]
            assert (receipt["host"], receipt["ended"]) == ("gw-1", "completed")
            assert (await two.get(f"/v1/dragoman/receipts/{request_id}", OTHER))[0] == 404
            own = [row["request_id"] for row in (await two.get("/v1/dragoman/receipts"))[1]["data"]]
            assert own == [request_id]
            assert (await two.get("/v1/dragoman/receipts", OTHER))[1]["data"] == []

            async def has_both() -> bool:
                rows = (await two.get("/v1/dragoman/status"))[1]["hosts"]
                return [(row["host"], row["state"], row["differs"]) for row in rows] == [
                    ("gw-1", "up", []),
                    ("gw-2", "up", []),
                ]

            await until_true(has_both)
            shown = json.dumps((await two.get("/v1/dragoman/status"))[1])

            # A stream that is open at one host is seen, and can be opened, at the other one.
            resume.clear()
            reply = await one.post()
            is_open = reply.headers["x-dragoman-request-id"]

            async def sees_it() -> bool:
                found = (await two.get("/ui/api/exchanges"))[1]
                states = [(row["id"], row["state"], row["host"]) for row in found["rows"]]
                # The number of open requests comes from the states of the hosts, which are written more rarely.
                return found["open"] == 1 and states == [
                    (is_open, "open", "gw-1"),
                    (request_id, "completed", "gw-1"),
                ]

            await until_true(sees_it)
            view = (await two.get(f"/ui/api/exchanges/{is_open}"))[1]
            assert (view["row"]["state"], view["receipt"]["ended"]) == ("open", "open")
            shown += json.dumps(view)
            resume.set()
            await reply.read()
            reply.close()

            async def has_ended() -> bool:
                view = (await two.get(f"/ui/api/exchanges/{is_open}"))[1]
                return bool(view["row"]["state"] == "completed" and view["receipt"]["ended"] == "completed")

            await until_true(has_ended)
            assert (await two.get("/ui/api/exchanges/req_0"))[0] == 404
    for secret in (KEY, OTHER, UPSTREAM_KEY):
        assert secret not in shown


@pytest.mark.whole
async def test_a_host_with_another_configuration_is_marked_and_one_that_dies_is_lost(tmp_path: Path) -> None:
    with redis_server() as redis:
        async with (
            host(tmp_path, "gw-1", redis, "http://127.0.0.1:9") as one,
            host(tmp_path, "gw-2", redis, "http://127.0.0.1:9") as two,
        ):
            async with host(tmp_path, "gw-3", redis, "http://127.0.0.1:9", model="m") as three:

                async def is_marked() -> bool:
                    rows = (await one.get("/v1/dragoman/status"))[1]["hosts"]
                    return {row["host"]: row["differs"] for row in rows} == {
                        "gw-1": [],
                        "gw-2": [],
                        "gw-3": ["configuration"],
                    }

                await until_true(is_marked)
                three.command.process.terminate()
                assert await three.command.ends() == 0

            async def states() -> dict[str, str]:
                rows = (await one.get("/v1/dragoman/status"))[1]["hosts"]
                return {row["host"]: row["state"] for row in rows}

            # It has stopped in order.
            assert await states() == {"gw-1": "up", "gw-2": "up"}
            two.command.process.kill()
            await two.command.process.wait()

            async def is_lost() -> bool:
                return await states() == {"gw-1": "up", "gw-2": "lost"}

            await until_true(is_lost)
            (line,) = [each for each in one.command.stated.splitlines() if "dragoman listens on" in each]
            assert json.loads(line)["host"] == "gw-1"


async def test_the_workers_of_one_machine_share_a_file(tmp_path: Path) -> None:
    async with ScriptedServer(stream(text_stream(CHAT))) as upstream:
        text = SQLITE.format(upstream=upstream.url, path=tmp_path / "dragoman.db")
        await asyncio.to_thread((tmp_path / "dragoman.toml").write_text, text)
        async with fleet(str(tmp_path / "dragoman.toml")) as up:
            reply = await up.ask(MESSAGES, stream=True)
            request_id = reply.headers["x-dragoman-request-id"]
            path = f"/v1/dragoman/receipts/{request_id}"
            assert json.loads((await up.get(path))[1])["ended"] == "completed"

            async def is_stored() -> bool:
                with closing(sqlite3.connect(f"file:{tmp_path}/dragoman.db-hosts?mode=ro", uri=True)) as db:
                    return bool(db.execute("SELECT 1 FROM receipts WHERE id = ?", (request_id,)).fetchone())

            await until_true(is_stored)
            # The receipt outlives the processes that had it in memory.
            for number in (1, 2):
                up.signal(signal.SIGKILL, number)
            await up.reports_ready(2)
            assert (await up.get(path))[0] == 200
            (row,) = json.loads((await up.get("/v1/dragoman/status"))[1])["hosts"]
            assert (row["host"], row["state"], row["workers"]) == ("gw-1", "up", 2)
