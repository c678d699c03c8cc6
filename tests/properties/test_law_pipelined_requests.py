"""However the bytes of pipelined requests are segmented, each is answered once, in order, by its own reply.

Replies are taken from aiohttp whenever that is possible. A wrong count of the bytes that aiohttp has then loses a
request.
"""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise

from aiohttp import web
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.aio.downstream.hijack import HijackableConnection
from dragoman.aio.downstream.hijack_runner import HijackRunner
from support.waiting import turns, until

KINDS = st.sampled_from(["post", "get", "early end", "chunked", "odd body"])
PLANS = st.lists(KINDS, min_size=1, max_size=5)
CUTS = st.lists(st.integers(0, 2000), max_size=12)
POST_HEAD = len(b"POST /0 HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n")
_ASKED = re.compile(rb"[0-9]+")


def formatted(kind: str, number: int) -> bytes:
    """One request, which names its number in its target."""
    target = b"/%d" % number
    if kind == "get":
        return b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % target
    if kind == "chunked":
        return b"POST %b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" % target
    body = {"post": b'{"text": "x"}', "early end": b"\r\n\r\n", "odd body": b"GET /9 HTTP/1.1\r\n\r\n"}[kind]
    return b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (target, len(body), body)


class _Carrier:
    def connection_lost(self) -> None:
        raise AssertionError("the client has not hung up")


async def _reply(line: HijackableConnection, request: web.Request, taken: list[int]) -> web.StreamResponse:
    """A reply that is taken after a turn if it may be, and then written without aiohttp."""
    text = request.path
    resume = None
    try:
        await asyncio.sleep(0)
        resume = line.hijack(_Carrier(), True, web.StreamResponse())
        if resume is None:
            return web.Response(text=text)
        asyncio.get_running_loop().call_soon(resume)
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        if resume is None:
            raise
    taken.append(int(text[1:]))
    transport = line._transport
    assert transport is not None
    await asyncio.sleep(0)
    transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text.encode()))
    return web.Response()


async def _played(reads: list[bytes], count: int, pause: int) -> tuple[list[int], list[int]]:
    """The numbers of the replies as they came, and those that were taken."""
    taken: list[int] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        line = HijackableConnection.of(request)
        assert line is not None
        return await line.run_detachable(_reply(line, request, taken))

    app = web.Application()
    app.router.add_route("*", "/{number}", handler)
    runner = HijackRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        lines = runner.connections
        assert lines is not None
        await until(lambda: lines.connections)
        (http,) = lines.server.connections
        assert http.transport is not None
        line = http.transport.get_protocol()
        assert isinstance(line, HijackableConnection)
        for data in reads:
            line.data_received(data)
            await turns(pause)
        replies: list[int] = []
        async with asyncio.timeout(30):
            while len(replies) < count:
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200"), head
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                (number,) = _ASKED.findall(await reader.readexactly(length))
                replies.append(int(number))
        await turns(20)
        writer.close()
        assert not reader._buffer  # type: ignore[attr-defined]
        return replies, taken
    finally:
        await runner.cleanup()


@given(plan=PLANS, cuts=CUTS, pause=st.integers(0, 12))
# A head in two segments, then its body with a like request: once the second request was lost.
@example(plan=["post", "post"], cuts=[3, POST_HEAD], pause=3)
@example(plan=["post", "post", "post"], cuts=[], pause=12)
def test_each_pipelined_request_is_answered_once_and_in_order(plan: list[str], cuts: list[int], pause: int) -> None:
    data = b"".join(formatted(kind, number) for number, kind in enumerate(plan))
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    reads = [data[begin:end] for begin, end in pairwise(places)]
    replies, _ = asyncio.run(_played(reads, len(plan), pause))
    assert replies == list(range(len(plan)))


def test_a_request_that_comes_alone_is_taken_however_it_is_segmented() -> None:
    data = formatted("post", 7)
    for cut in range(1, len(data)):
        replies, taken = asyncio.run(_played([data[:cut], data[cut:]], 1, 3))
        assert (replies, taken) == ([7], [7])
