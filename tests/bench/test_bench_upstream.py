"""The upstream simulator over real sockets: requests in any framing, streams ended on request, cancellations."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from dragoman_bench.load import get_json
from dragoman_bench.pacer import Pacer
from dragoman_bench.upstream import Simulator, serve
from dragoman_bench.wire import DIALECTS, MARK, PATHS, TERMINAL, Script, request

WITHIN = 30.0


@dataclass(slots=True)
class Upstream:
    """A simulator that listens."""

    simulator: Simulator
    port: int

    @property
    def url(self) -> str:
        """Its base."""
        return f"http://127.0.0.1:{self.port}"

    async def counted(self, name: str, value: int) -> None:
        """Wait until a count is reached."""
        async with asyncio.timeout(WITHIN):
            while getattr(self.simulator.counts, name) != value:  # noqa: ASYNC110 (other tasks of this loop move it)
                await asyncio.sleep(0)


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """On a free port; nothing is left open."""
    server, simulator = await serve()
    yield Upstream(simulator, server.sockets[0].getsockname()[1])
    server.close()
    simulator.pacer.close()
    await Upstream(simulator, 0).counted("connections_open", 0)


class Client:
    """A plain connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, upstream: Upstream) -> Client:
        """To the simulator."""
        return cls(*await asyncio.open_connection("127.0.0.1", upstream.port))

    def post(self, path: str, body: bytes, *more: str) -> None:
        """Send a sized request."""
        lines = "".join(f"{line}\r\n" for line in (f"Content-Length: {len(body)}", *more))
        self.writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode() + body)

    async def head(self) -> bytes:
        """Of the next reply."""
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), WITHIN)

    async def chunks(self) -> bytes:
        """The next reply's chunked body."""
        out = bytearray()
        async with asyncio.timeout(WITHIN):
            while size := int(await self.reader.readline(), 16):
                out += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        return bytes(out)

    async def sized(self) -> Any:
        """The next reply's JSON."""
        head = await self.head()
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return json.loads(await asyncio.wait_for(self.reader.readexactly(length), WITHIN))

    async def close(self) -> None:
        """Hang up."""
        self.writer.close()
        await self.writer.wait_closed()


@pytest.mark.parametrize("script", [Script(30), Script(30, 1), Script(30, batch=7), Script(30, joined=True), Script(1)])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_stream_comes_whole_in_each_way_of_sending(upstream: Upstream, dialect: str, script: Script) -> None:
    client = await Client.connect(upstream)
    for _ in range(2):  # over one connection
        client.post(PATHS[dialect], request(dialect, script.model))
        assert b"text/event-stream" in await client.head()
        body = await client.chunks()
        assert TERMINAL[dialect] in body
        count = script.events * (5 if dialect == "responses" else 1)  # which repeats its text four times
        assert len(MARK.findall(body)) == count
    await client.close()
    counts = upstream.simulator.counts
    assert (counts.connections, counts.streams, counts.finished, counts.open) == (1, 2, 2, 0)
    assert counts.events == 2 * script.events


async def test_a_stream_to_a_reader_that_does_not_read_waits_for_it(upstream: Upstream) -> None:
    client = await Client.connect(upstream)
    transport = cast("asyncio.Transport", client.writer.transport)
    transport.pause_reading()
    client.post(PATHS["chat"], request("chat", Script(4000, 0, 4000).model))
    await upstream.counted("blocked", 1)
    assert 0 < upstream.simulator.counts.events < 4000
    transport.resume_reading()
    await client.head()
    assert len(MARK.findall(await client.chunks())) == 4000
    await client.close()


async def test_comments_follow_the_first_delta_until_the_client_disconnects(upstream: Upstream) -> None:
    client = await Client.connect(upstream)
    client.post(PATHS["chat"], request("chat", Script(999, 0, 32, 16, comments=True).model))
    await client.head()
    data = await asyncio.wait_for(client.reader.readexactly(20_000), WITHIN)
    assert len(MARK.findall(data)) == 1
    assert data.count(b"e\r\n: keep-alive\n\n\r\n") > 500
    await client.close()
    await upstream.counted("cancelled", 1)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_agents_turn_is_streamed(upstream: Upstream, dialect: str) -> None:
    client = await Client.connect(upstream)
    client.post(PATHS[dialect], request(dialect, Script(30, 1, 32, turn=True).model))
    await client.head()
    body = await client.chunks()
    assert TERMINAL[dialect] in body
    assert len({number for number, _, _ in MARK.findall(body)}) == 30
    await client.close()


async def test_a_chunked_request_and_one_in_pieces_are_understood(upstream: Upstream) -> None:
    client = await Client.connect(upstream)
    body = request("chat", "bench-whole", stream=False)
    head = f"POST /chat/completions?x=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n"
    for piece in (head.encode(), body[:20], body[20:] + b"\r\n", b"0\r\n\r\n"):
        client.writer.write(piece)
        await client.writer.drain()
        await asyncio.sleep(0)
    assert MARK.search((await client.sized())["choices"][0]["message"]["content"].encode())
    client.post("/v1/chat/completions", body, "Expect: 100-continue", "Connection: close")
    answer = await asyncio.wait_for(client.reader.read(), WITHIN)
    assert b"200 OK" in answer
    await client.close()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/embeddings", b'{"model":"bench-whole"}', b"404"),
        ("/v1/messages", b'{"model":"claude"}', b"400"),
    ],
)
async def test_a_request_of_no_use_is_refused_with_what_to_do(
    upstream: Upstream, path: str, body: bytes, status: bytes
) -> None:
    client = await Client.connect(upstream)
    client.post(path, body)
    answer = await asyncio.wait_for(client.reader.read(), WITHIN)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"/v1/messages" in answer or b"bench-whole" in answer
    await client.close()


async def test_a_hung_up_client_s_stream_is_cancelled_at_once(upstream: Upstream) -> None:
    client = await Client.connect(upstream)
    client.post(PATHS["messages"], request("messages", Script(1000, 60_000).model))
    await client.head()
    assert (await get_json(upstream.url, "/bench/stats"))["open"] == 1
    await client.close()
    await upstream.counted("cancelled", 1)
    assert upstream.simulator.counts.open == 0


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_paced_streams_end_normally_on_request(upstream: Upstream, dialect: str) -> None:
    client = await Client.connect(upstream)
    client.post(PATHS[dialect], request(dialect, Script(100_000, 1).model))
    await client.head()
    while (await get_json(upstream.url, "/bench/stats"))["events"] < 5:
        pass
    await get_json(upstream.url, "/bench/finish")
    body = await client.chunks()
    assert TERMINAL[dialect] in body
    assert [flag for _, flag, _ in MARK.findall(body)].count(b"!") == (5 if dialect == "responses" else 1)
    await client.close()
    assert upstream.simulator.counts.finished == 1


class Ticked:
    """Counts its ticks."""

    def __init__(self, interval_ns: int, times: int, order: list[int], done: asyncio.Event) -> None:
        self.interval_ns = interval_ns
        self.left = times
        self.order = order
        self.done = done

    def tick(self) -> bool:
        """One."""
        self.order.append(self.interval_ns)
        self.left -= 1
        if not self.left:
            self.done.set()
        return self.left > 0


async def test_the_pacer_ticks_each_as_often_as_due_and_the_earlier_first() -> None:
    pacer = Pacer(asyncio.get_running_loop())
    order: list[int] = []
    slow, fast = asyncio.Event(), asyncio.Event()
    long_ago = time.monotonic_ns() - 10**9
    pacer.add(Ticked(3, 2, order, slow), long_ago + 10**9 // 2)
    pacer.add(Ticked(1, 4, order, fast), long_ago)
    async with asyncio.timeout(WITHIN):
        await slow.wait()
        await fast.wait()
    assert order == [1, 1, 1, 1, 3, 3]
    assert len(pacer) == 0
    pacer.close()
