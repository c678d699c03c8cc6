"""The WebSocket of a gateway process, and the client of `websockets`: messages in fragments, and pings between them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from support.commands import command
from support.gateways import served
from support.samples import chat_frame

CONFIG = """
[providers.up]
dialect = "chat"
base_url = "{url}/v1"

[[routes]]
model = "*"
provider = "up"

[server.limits]
request_body = 300_000
"""
ALPHABET = 'aé日😀"\\\n '
TURNS = 6
TOO_LONG = 1009


async def _echo(request: web.Request) -> web.StreamResponse:
    """Reply with the last words of the user."""
    body = await request.json()
    content = body["messages"][-1]["content"]
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    await response.write(chat_frame({"content": text}) + chat_frame({}, "stop") + b"data: [DONE]\n\n")
    return response


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[ClientConnection]:
    """A connection to a process."""
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", _echo)
    async with served(app) as (url, _):
        path = folder / "dragoman.toml"
        await asyncio.to_thread(path.write_text, CONFIG.format(url=url))
        async with command("serve", "--port", "0", str(path)) as process:
            port = (await process.writes(r"dragoman listens on http://\S+:(\d+)"))[1]
            async with connect(f"ws://127.0.0.1:{port}/v1/responses", compression=None, max_size=None) as socket:
                yield socket


async def _fragments(socket: ClientConnection, data: bytes, chance: random.Random) -> AsyncIterator[bytes]:
    """Yield pieces, some of them empty or with half a character, and send pings between them."""
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(30)))
    pongs: list[Awaitable[float]] = []
    for begin, end in zip([0, *places], [*places, len(data)], strict=True):
        yield data[begin:end]
        if chance.randrange(3) == 0:
            pongs.append(await socket.ping(chance.randbytes(chance.choice((8, 125)))))
    for pong in pongs:
        async with asyncio.timeout(30):
            await pong


async def _reply(socket: ClientConnection) -> str:
    text = ""
    async with asyncio.timeout(60):
        while True:
            event: Any = json.loads(await socket.recv())
            if event["type"] == "response.output_text.delta":
                text += event["delta"]
            elif event["type"] == "response.completed":
                return text
            assert event["type"] not in ("error", "response.failed"), event


async def _too_long(socket: ClientConnection) -> None:
    await socket.send([b"x" * 9000] * 40, text=True)
    await socket.recv()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.whole) for seed in range(2, 12))])
async def test_any_fragments_of_a_message_are_read_as_the_message(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    async with connected(tmp_path) as socket:
        for _ in range(TURNS):
            prompt = "p" + "".join(chance.choices(ALPHABET, k=chance.choice((1, 100, 5000, 40_000)))) + "."
            body = {"type": "response.create", "model": "m", "input": prompt}
            data = json.dumps(body, ensure_ascii=False).encode()
            await socket.send(_fragments(socket, data, chance), text=True)
            assert await _reply(socket) == prompt
        # A message of many fragments has the limit of a request.
        with pytest.raises(ConnectionClosed) as closed:
            await _too_long(socket)
        # A connection that is closed over unread data may lose its close frame (RFC 9293 §3.6.1, a reset).
        assert closed.value.rcvd is None or closed.value.rcvd.code == TOO_LONG
