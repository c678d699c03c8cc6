"""The WebSocket of a gateway process, and the client of `websockets`: messages in fragments, and pings between them."""

from __future__ import annotations

import asyncio
import json
import random
import socket
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
from support.websockets import HANDSHAKE

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
            async with connect(f"ws://127.0.0.1:{port}/v1/responses", compression=None, max_size=None) as opened:
                yield opened


async def _fragments(opened: ClientConnection, data: bytes, chance: random.Random) -> AsyncIterator[bytes]:
    """Yield pieces, some of them empty or with half a character, and send pings between them."""
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(30)))
    pongs: list[Awaitable[float]] = []
    for begin, end in zip([0, *places], [*places, len(data)], strict=True):
        yield data[begin:end]
        if chance.randrange(3) == 0:
            pongs.append(await opened.ping(chance.randbytes(chance.choice((8, 125)))))
    for pong in pongs:
        async with asyncio.timeout(30):
            await pong


async def _reply(opened: ClientConnection) -> str:
    text = ""
    async with asyncio.timeout(60):
        while True:
            event: Any = json.loads(await opened.recv())
            if event["type"] == "response.output_text.delta":
                text += event["delta"]
            elif event["type"] == "response.completed":
                return text
            assert event["type"] not in ("error", "response.failed"), event


async def _too_long(opened: ClientConnection) -> None:
    await opened.send([b"x" * 9000] * 40, text=True)
    await opened.recv()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.whole) for seed in range(2, 12))])
async def test_any_fragments_of_a_message_are_read_as_the_message(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    async with connected(tmp_path) as opened:
        for _ in range(TURNS):
            prompt = "p" + "".join(chance.choices(ALPHABET, k=chance.choice((1, 100, 5000, 40_000)))) + "."
            body = {"type": "response.create", "model": "m", "input": prompt}
            data = json.dumps(body, ensure_ascii=False).encode()
            await opened.send(_fragments(opened, data, chance), text=True)
            assert await _reply(opened) == prompt
        # A message of many fragments has the limit of a request.
        with pytest.raises(ConnectionClosed) as closed:
            await _too_long(opened)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == TOO_LONG


@pytest.mark.parametrize("frame", [b"\x81\xff" + (4_000_000).to_bytes(8, "big"), b"\x81\x7e\x01\x00", b"\x80\x80"])
async def test_a_client_that_goes_on_sending_gets_the_close_frame(frame: bytes, tmp_path: Path) -> None:
    """It reads once all is sent. A close over unread data would reset the connection (RFC 9293 §3.6.1) before.

    The frames are too long, not masked, and the rest of a message that has not begun.
    """

    def talk(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            lines = [f"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1:{port}", *map(": ".join, HANDSHAKE.items())]
            client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
            received = b""
            while b"\r\n\r\n" not in received:
                received += client.recv(4096)
            client.sendall(frame + b"mask" + bytes(4_000_000))
            while data := client.recv(4096):
                received += data
            return received.partition(b"\r\n\r\n")[2]

    async with connected(tmp_path) as opened:
        closed = await asyncio.to_thread(talk, opened.remote_address[1])
    assert closed[:1] == b"\x88"
    assert int.from_bytes(closed[2:4], "big") == (TOO_LONG if frame[1] == 0xFF else 1002)
    assert len(closed) == 2 + closed[1]
