"""The console of `dragoman serve` as a process, with several workers, and without a viewer."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dragoman.wire import SSEParser
from support.commands import command
from support.fleet import fleet
from support.gateways import CHAT, MESSAGES
from support.samples import text_stream
from support.sockets import ScriptedServer, stream

CANARY, PROMPT = "canary of a reply", "canary of a prompt"
KEY, UPSTREAM_KEY = "canary-gateway-key", "canary-upstream-key"
FILE = """
[server]
ui = true
keys = ["{key}"]
[models]
discover = false
[providers.up]
dialect = "chat"
base_url = "{upstream}/v1"
api_key = "{upstream_key}"
[[routes]]
model = "*"
provider = "up"
"""


async def get(session: aiohttp.ClientSession, url: str, **headers: str) -> Any:
    async with session.get(url, headers=headers) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_the_flag_serves_it() -> None:
    async with (
        command("serve", "--simulate", "--ui", "--port", "0", cwd=None) as up,
        aiohttp.ClientSession() as session,
    ):
        url = (await up.writes(r"dragoman listens on (http://\S+)"))[1]
        await up.writes(rf"console: {url}/ui/")
        async with session.get(f"{url}/ui") as response:
            assert "Dragoman console" in await response.text()
        assert (await get(session, f"{url}/ui/api/exchanges"))["rows"] == []


async def test_all_workers_are_in_the_table() -> None:
    async with fleet("--simulate", "--ui") as up:
        replies = [await up.ask(MESSAGES, stream=True) for _ in range(12)]
        ids = {reply.headers["x-dragoman-request-id"] for reply in replies}
        # Each connection is new, so both workers are asked.
        for _ in range(6):
            found = await get(up.session, f"{up.url}/ui/api/exchanges")
            assert {row["id"] for row in found["rows"]} == ids
            health = await get(up.session, f"{up.url}/ui/api/health")
            assert health["requests"] == {"completed": 12}
            assert health["workers"] == 2
            assert [row["requests"] for row in health["keys"]] == [12]
        for request_id in ids:
            view = await get(up.session, f"{up.url}/ui/api/exchanges/{request_id}")
            assert view["receipt"]["request_id"] == request_id


async def test_streams_of_all_workers_are_recorded() -> None:
    async with fleet("--simulate", "--ui") as up:
        async with up.session.post(f"{up.url}/ui/api/record?count=20") as response:
            assert response.status == 200
        for _ in range(8):
            reply = await up.ask(CHAT, stream=True)
            request_id = reply.headers["x-dragoman-request-id"]
            view = await get(up.session, f"{up.url}/ui/api/exchanges/{request_id}")
            assert {batch[0] for batch in view["recording"]["batches"]} == {"received", "sent"}


@pytest.mark.parametrize("recorded", [False, True])
async def test_no_text_and_no_key_is_shown(tmp_path: Path, recorded: bool) -> None:
    path = tmp_path / "dragoman.toml"
    key = {"x-api-key": KEY}
    async with ScriptedServer(stream(text_stream(CHAT, (CANARY, "x")))) as server:
        await asyncio.to_thread(path.write_text, FILE.format(key=KEY, upstream_key=UPSTREAM_KEY, upstream=server.url))
        async with (
            command("serve", str(path), "--port", "0", cwd=None) as up,
            aiohttp.ClientSession(headers=key) as session,
        ):
            url = (await up.writes(r"dragoman listens on (http://\S+)"))[1]
            if recorded:
                async with session.post(f"{url}/ui/api/record") as response:
                    assert response.status == 200
            body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": PROMPT}]}
            async with session.post(f"{url}/v1/messages", json=body) as response:
                assert CANARY in await response.text()
                request_id = response.headers["x-dragoman-request-id"]
            shown = [json.dumps(await get(session, f"{url}/ui/api/exchanges/{request_id}"))]
            shown += [json.dumps(await get(session, f"{url}/ui/api/{name}")) for name in ("exchanges", "health")]
            async with asyncio.timeout(60), session.get(f"{url}/ui/api/live") as response:
                parser, frames = SSEParser(), list[str]()
                async for data in response.content.iter_any():
                    frames += [(frame.data or b"").decode() for frame in parser.parse(data)]
                    if len(frames) > 1:
                        break
            text = "".join(shown + frames)
    assert request_id in text
    assert recorded == ("content_block_delta" in text)
    assert not re.search(f"{CANARY}|{PROMPT}|{KEY}|{UPSTREAM_KEY}", text)
