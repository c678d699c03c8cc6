"""Reading a request's body: a complete one needs no timer, else each 64 KiB must arrive within the timeout."""

from __future__ import annotations

import asyncio
import gzip
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from dragoman.aio.timeouts import Timeouts
from dragoman.errors import DragomanError, LimitExceeded
from dragoman.limits import Limits
from dragoman_server.config.schema import Server
from dragoman_server.proxy.request_body import PIECE, RequestBodies
from support.waiting import turns

SERVER = Server(timeouts=Timeouts(body=60.0), limits=Limits(request_body=4 * PIECE))


class Clock:
    """The loop's time, which changes only by `pass_by`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)

    async def pass_by(self, seconds: float) -> None:
        self.now += seconds
        await turns()


def _asked() -> tuple[web.Request, StreamReader]:
    protocol = Mock(spec=BaseProtocol, _reading_paused=False)
    content = StreamReader(protocol, 8 * PIECE, loop=asyncio.get_running_loop())
    return make_mocked_request("POST", "/", payload=content), content


def _no_timer(seconds: float) -> asyncio.Timeout:
    raise AssertionError(f"a timer of {seconds} s")


async def test_a_body_that_is_there_costs_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.timeout", _no_timer)
    request, content = _asked()
    for piece in (b"all", b" of ", b"it"):
        content.feed_data(piece)
    content.feed_eof()
    assert await RequestBodies(SERVER).read(request) == b"all of it"


async def test_a_request_without_a_body_costs_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.timeout", _no_timer)
    assert await RequestBodies(SERVER).read(make_mocked_request("POST", "/")) == b""


async def test_each_64_kib_have_their_time_and_their_own_only(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    request, content = _asked()
    reading = asyncio.create_task(RequestBodies(SERVER).read(request))
    await turns()
    for _ in range(2):  # however slow: longer than the limit in all
        await clock.pass_by(40)
        content.feed_data(b"x" * (PIECE - 1))
        await clock.pass_by(19)
        content.feed_data(b"x")
        await turns()
    await clock.pass_by(59)
    assert not reading.done()
    content.feed_data(b"x" * (PIECE - 1))  # earns nothing
    await turns()
    await clock.pass_by(2)
    assert reading.done()
    with pytest.raises(DragomanError, match="too slowly") as refused:
        await reading
    assert refused.value.failure.status == 408


async def test_a_body_in_time_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    request, content = _asked()
    reading = asyncio.create_task(RequestBodies(SERVER).read(request))
    for piece in (b"a" * PIECE, b"b" * PIECE, b"c"):
        await clock.pass_by(50)
        content.feed_data(piece)
        await turns()
    content.feed_eof()
    assert await reading == b"a" * PIECE + b"b" * PIECE + b"c"


@pytest.mark.parametrize("ended", [False, True])
async def test_one_too_long_is_refused_as_soon_as_it_is(ended: bool) -> None:
    request, content = _asked()
    content.feed_data(b"x" * (4 * PIECE + 1))
    if ended:
        content.feed_eof()
    with pytest.raises(LimitExceeded):
        await RequestBodies(SERVER).read(request)


async def test_a_body_that_is_incomplete_at_the_stop_is_rejected_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    bodies = RequestBodies(SERVER)
    late = asyncio.create_task(bodies.read(_asked()[0]))
    await turns()
    await clock.pass_by(30)
    sending = asyncio.create_task(bodies.read(_asked()[0]))
    await turns()
    stopped = asyncio.Event()

    def stop() -> None:
        bodies.stop()
        stopped.set()

    asyncio.get_running_loop().call_at(clock.now + 31, stop)  # in one turn with the first one's timer, behind it
    await clock.pass_by(31)
    assert stopped.is_set()
    for reading in (late, sending):
        with pytest.raises(DragomanError, match="shutting down") as refused:
            await reading
        assert refused.value.failure.headers == {"retry-after": "1", "connection": "close"}


@pytest.mark.parametrize("coding", [None, "gzip"])
async def test_a_body_that_a_middleware_has_read_is_whole(coding: str | None) -> None:
    sent = b'{"model":"m"}' if coding is None else gzip.compress(b'{"model":"m"}')
    protocol = Mock(spec=BaseProtocol, _reading_paused=False)
    content = StreamReader(protocol, 8 * PIECE, loop=asyncio.get_running_loop())
    headers = {} if coding is None else {"content-encoding": coding}
    request = make_mocked_request("POST", "/", headers=headers, payload=content)
    content.feed_data(sent)
    content.feed_eof()
    assert await request.read() == sent
    assert await RequestBodies(SERVER).read(request) == b'{"model":"m"}'


async def test_so_is_one_that_is_forwarded_in_pieces() -> None:
    request, content = _asked()
    content.feed_data(b"a form")
    content.feed_eof()
    await request.read()
    assert [piece async for piece in RequestBodies(SERVER).pieces(request, PIECE)] == [b"a form"]


async def test_one_that_a_middleware_has_read_has_the_same_limit() -> None:
    request, content = _asked()
    content.feed_data(b"x" * (4 * PIECE + 1))
    content.feed_eof()
    await request.read()
    with pytest.raises(LimitExceeded):
        await RequestBodies(SERVER).read(request)
