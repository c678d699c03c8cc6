"""Each client gets the reply to its own request: from upstreams that send too much, and on one connection."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.dialects import Dialect
from support.gateways import CHAT, MESSAGES, Gate, config_for, gate
from support.samples import PATHS, chat_frame, dump, messages_frame, reply, request, text_stream
from support.sockets import LAST_CHUNK, chunk, head, sse_head
from support.transports import make
from support.wire_server import Peer, WireServer

COUNT = int(os.environ.get("DRAGOMAN_FAULTS", "40"))
POISON = "stolen-words"
MARK = re.compile(rb"mark-\d+")
TRANSPORTS = pytest.mark.parametrize("transport", ["raw", "aiohttp"])


def _whole(upstream: Dialect, mark: str) -> bytes:
    """A whole reply with the mark as its text."""
    body = dump(reply(upstream))
    payload = json.loads(body)
    if upstream is CHAT:
        payload["choices"][0]["message"]["content"] = mark
    else:
        payload["content"] = [{"type": "text", "text": mark}]
    body = dump(payload)
    return head(200, [("content-type", "application/json"), ("content-length", str(len(body)))]) + body


def _streamed(upstream: Dialect, mark: str) -> bytes:
    """A streamed reply with the mark as its text."""
    return sse_head() + b"".join(map(chunk, text_stream(upstream, [mark], counted=False))) + LAST_CHUNK


def _answered(upstream: Dialect, body: bytes) -> bytes:
    """The reply to a request: what its mark states, in the way that it asked for."""
    (mark,) = set(MARK.findall(body))
    made = _streamed if b'"stream":true' in body else _whole
    return made(upstream, mark.decode())


def _stated(client: Dialect, number: int, *, stream: bool) -> dict[str, Any]:
    body = request(client, stream=stream)
    body["messages"] = [{"role": "user", "content": f"mark-{number}"}]
    return body


EXTRAS: dict[str, Callable[[Dialect], bytes]] = {
    "another whole reply": lambda upstream: _whole(upstream, POISON),
    "another stream": lambda upstream: _streamed(upstream, POISON),
    "half a head": lambda upstream: _whole(upstream, POISON)[:40],
    "a head and half a body": lambda upstream: _whole(upstream, POISON)[:-9],
    "an interim reply": lambda upstream: b"HTTP/1.1 100 Continue\r\n\r\n" + _whole(upstream, POISON),
    "a chunk": lambda upstream: chunk(b'data: {"x":"%b"}\n\n' % POISON.encode()) + LAST_CHUNK,
    "an event": lambda upstream: (
        chat_frame({"content": POISON}) if upstream is CHAT else messages_frame("ping", x=POISON)
    ),
    "line ends": lambda upstream: b"\r\n\r\n",
    "zero bytes": lambda upstream: b"\0" * 50,
}


@pytest.mark.few
@TRANSPORTS
@pytest.mark.parametrize("extra", EXTRAS)
async def test_no_client_gets_what_is_not_requested(transport: str, extra: str) -> None:
    """An upstream sends more behind some replies: with the reply's end, or half of it with that and half later. (What
    comes later as a whole may come behind the next request, and then no one can report that it was not the reply.)
    """
    upstream, chance = MESSAGES, random.Random(extra)
    more = EXTRAS[extra](upstream)

    async def handler(peer: Peer) -> None:
        while True:
            answer = _answered(upstream, (await peer.request()).body)
            way = chance.randrange(3)
            if way == 0:
                await peer.send(answer + more)
            elif way == 1:
                await peer.send(answer + more[: len(more) // 2])
                await peer.send(more[len(more) // 2 :])
            else:
                await peer.send(answer)

    async with (
        WireServer(handler) as server,
        gate(config_for(f"http://127.0.0.1:{server.port}", upstream), upstream=make(transport)) as entrance,
    ):
        replies = await _ask(entrance, range(COUNT))
    right = 0
    for number, (status, body) in replies.items():
        if status == 200 and b"error" not in body:
            assert POISON.encode() not in body, (extra, number, body)
            assert set(MARK.findall(body)) == {b"mark-%d" % number}, (extra, number, body)
            right += 1
        else:
            assert set(MARK.findall(body)) <= {b"mark-%d" % number}, (extra, number, body)
    if transport == "raw":  # aiohttp's client may give up the reply with what stands behind it
        assert right == COUNT


async def _ask(entrance: Gate, numbers: range) -> dict[int, tuple[int, bytes]]:
    """Requests of both dialects, streamed and whole, four at a time on kept connections."""
    busy = asyncio.Semaphore(4)
    found: dict[int, tuple[int, bytes]] = {}

    async def ask(number: int) -> None:
        client = (CHAT, MESSAGES)[number % 2]
        body = _stated(client, number, stream=number % 3 == 0)
        async with busy, entrance.post(client, body) as response:
            found[number] = response.status, await response.read()

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for number in numbers:
            tasks.create_task(ask(number))
    return found


# --- one connection ---------------------------------------------------------------------------------------------------


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status and body of the next reply on a connection."""
    start = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(start.split(b" ")[1])
    if b"transfer-encoding: chunked" not in start:
        length = re.search(rb"content-length: (\d+)", start)
        assert length is not None
        return status, await reader.readexactly(int(length[1]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        assert await reader.readexactly(2) == b"\r\n"
    assert await reader.readexactly(2) == b"\r\n"
    return status, body


TAKEN = True  # see conftest: streams are kept by aiohttp in one run and taken from it in the other


@pytest.mark.parametrize("seed", range(4))
async def test_pipelined_requests_are_answered_in_order(seed: int) -> None:
    """Several requests are sent at once, cut into segments anywhere; streams and whole replies, both dialects."""
    chance = random.Random(seed)
    upstream = chance.choice((CHAT, MESSAGES))

    async def handler(peer: Peer) -> None:
        while True:
            answer = _answered(upstream, (await peer.request()).body)
            await peer.drip(answer, chance.choice((60, 500, 100_000)))

    async with (
        asyncio.timeout(60),
        WireServer(handler) as server,
        gate(config_for(f"http://127.0.0.1:{server.port}", upstream)) as entrance,
    ):
        for start in range(0, COUNT, 4):
            reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
            numbers = range(start, start + chance.randint(2, 4))
            data = b""
            for number in numbers:
                client = chance.choice((CHAT, MESSAGES))
                body = dump(_stated(client, number, stream=chance.random() < 0.5))
                data += (
                    f"POST {PATHS[client]} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
                )
            reading = asyncio.create_task(_all(reader, len(numbers)))
            while data:
                size = chance.choice((1, 20, 300, 5000))
                writer.write(data[:size])
                data = data[size:]
                await asyncio.sleep(0)
            for number, (status, body) in zip(numbers, await reading, strict=True):
                assert status == 200, body
                assert set(MARK.findall(body)) == {b"mark-%d" % number}, (number, body)
            writer.close()


async def _all(reader: asyncio.StreamReader, count: int) -> list[tuple[int, bytes]]:
    return [await _read(reader) for _ in range(count)]
