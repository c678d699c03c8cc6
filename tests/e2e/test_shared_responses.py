"""Two gateway processes store responses in one Redis or PostgreSQL, also while it is killed, hangs, and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dragoman_server.simulator import REQUESTS
from oracles.simulator import strict_simulator
from support.commands import command
from support.exposed import read_exposition, total
from support.gateways import served
from support.store_servers import SHARED, StoreServer, store_server
from support.thread_stores import KEY
from support.waiting import until_true

pytestmark = pytest.mark.turns  # a test starts two gateways or more

CONFIG = """
[models]
unknown = "pass"
discover = false

[providers.up]
dialect = "messages"
base_url = "{url}"

[state]
kind = "{kind}"
url = "${{STORE}}"
timeout = 2
encryption_key = "${{STATE_KEY}}"
"""


@dataclass
class Pair:
    """Two gateways, the requests that their upstream got, and their store."""

    urls: list[str]
    session: aiohttp.ClientSession
    sent: Any
    store: StoreServer

    async def ask(self, number: int, *, stream: bool = False, **fields: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, the Response object or the error, and the headers of a request to one of the gateways."""
        body = {"model": "sim-text", "input": "Hi", "stream": stream, **fields}
        async with asyncio.timeout(30), self.session.post(f"{self.urls[number]}/v1/responses", json=body) as reply:
            whole = await reply.read()
        headers = {name.lower(): value for name, value in reply.headers.items()}
        if reply.status == 200 and stream:
            return reply.status, json.loads(whole.rpartition(b"data: ")[2])["response"], headers
        return reply.status, json.loads(whole), headers

    async def get(self, number: int, path: str) -> tuple[int, bytes]:
        """Status and body."""
        async with asyncio.timeout(30), self.session.get(self.urls[number] + path) as reply:
            return reply.status, await reply.read()

    async def warns(self, number: int) -> bool:
        """True if a gateway reports that its store fails."""
        status, body = await self.get(number, "/ready")
        assert status == 200
        return "state_unavailable" in json.loads(body)["warnings"]

    async def becomes(self, *, failing: bool) -> None:
        """Wait until both gateways report the store so."""

        async def settled() -> bool:
            return [await self.warns(number) for number in range(2)] == [failing] * 2

        await until_true(settled)


@asynccontextmanager
async def pair(kind: str, store: StoreServer, folder: Path) -> AsyncIterator[Pair]:
    """Two gateway processes with one store of this kind."""
    simulator = strict_simulator()
    async with served(simulator) as (url, _):
        path = folder / "dragoman.toml"
        await asyncio.to_thread(path.write_text, CONFIG.format(url=url, kind=kind))
        serve = ("serve", "--port", "0", str(path))
        async with (
            command(*serve, STORE=store.url, STATE_KEY=KEY) as one,
            command(*serve, STORE=store.url, STATE_KEY=KEY) as two,
            aiohttp.ClientSession() as session,
        ):
            urls = [(await each.writes(r"dragoman listens on (http://\S+)"))[1] for each in (one, two)]
            yield Pair(urls, session, simulator[REQUESTS], store)


KINDS = pytest.mark.parametrize("kind", SHARED)


@pytest.mark.parametrize("stream", [False, True])
@KINDS
async def test_two_gateways_continue_each_others_conversations(kind: str, stream: bool, tmp_path: Path) -> None:
    with store_server(kind, tmp_path) as store:
        async with pair(kind, store, tmp_path) as up:
            previous, reply = None, None
            for number in range(6):
                text = f"question {number}"
                status, reply, _ = await up.ask(number % 2, stream=stream, input=text, previous_response_id=previous)
                assert (status, reply["store"], reply["previous_response_id"]) == (200, True, previous)
                previous = reply["id"]
            sent = [each for each in up.sent[-1].body["messages"] if each["role"] == "user"]
            assert [f"question {number}" in json.dumps(each) for number, each in enumerate(sent)] == [True] * 6
            found = [await up.get(number, f"/v1/responses/{previous}") for number in range(2)]
            assert found[0] == found[1]
            assert json.loads(found[0][1]) == reply
            async with up.session.delete(f"{up.urls[0]}/v1/responses/{previous}") as deleted:
                assert deleted.status == 200
            assert (await up.get(1, f"/v1/responses/{previous}"))[0] == 404


@KINDS
async def test_the_server_is_killed_and_comes_back(kind: str, tmp_path: Path) -> None:
    with store_server(kind, tmp_path) as store:
        async with pair(kind, store, tmp_path) as up:
            _, first, _ = await up.ask(0)
            assert first["store"] is True
            await asyncio.to_thread(store.kill)
            for stream in (False, True):
                status, reply, _ = await up.ask(0, stream=stream)
                assert (status, reply["store"]) == (200, False)
                status, error, headers = await up.ask(1, stream=stream, previous_response_id=first["id"])
                assert (status, headers["retry-after"]) == (503, "1")
                assert "not available at the moment; try again later" in error["error"]["message"]
                status, reply, _ = await up.ask(1, stream=stream, store=False)
                assert status == 200
            assert (await up.get(0, f"/v1/responses/{first['id']}"))[0] == 503
            await up.becomes(failing=True)
            assert (await up.get(0, "/ready?strict"))[0] == 503
            samples = read_exposition((await up.get(0, "/metrics"))[1])
            assert total(samples, "dragoman_state_up") == 0
            assert total(samples, "dragoman_responses_stored_total", result="failed") == 2
            assert total(samples, "dragoman_state_errors_total") >= 2
            await asyncio.to_thread(store.start)
            await up.becomes(failing=False)
            status, reply, _ = await up.ask(1, input="More", previous_response_id=first["id"])
            assert (status, reply["store"], len(up.sent[-1].body["messages"])) == (200, True, 3)
            assert total(read_exposition((await up.get(0, "/metrics"))[1]), "dragoman_state_up") == 1


@KINDS
async def test_a_server_that_hangs_delays_no_request_for_longer_than_the_timeout(kind: str, tmp_path: Path) -> None:
    with store_server(kind, tmp_path) as store:
        async with pair(kind, store, tmp_path) as up:
            _, first, _ = await up.ask(0)
            store.freeze()
            asked = (up.ask(0), up.ask(1, stream=True), up.ask(1, previous_response_id=first["id"]))
            plain, streamed, named = await asyncio.gather(*asked)
            assert [plain[0], streamed[0], named[0]] == [200, 200, 503]
            assert plain[1]["store"] is streamed[1]["store"] is False
            store.thaw()
            await up.becomes(failing=False)
            assert (await up.ask(0, previous_response_id=first["id"]))[0] == 200


@KINDS
async def test_gateways_start_before_the_server(kind: str, tmp_path: Path) -> None:
    with store_server(kind, tmp_path) as store:
        await asyncio.to_thread(store.kill)
        async with pair(kind, store, tmp_path) as up:
            status, reply, _ = await up.ask(0)
            assert (status, reply["store"]) == (200, False)
            await asyncio.to_thread(store.start)
            await up.becomes(failing=False)
            _, first, _ = await up.ask(0)
            assert (await up.ask(1, previous_response_id=first["id"]))[0] == 200
