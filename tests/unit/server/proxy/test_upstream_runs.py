"""The end of a response that its upstream has run, in the replies to later requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

import pytest

from dragoman.gateway import ResponseEnd, find_end
from dragoman_server.proxy import upstream_runs
from dragoman_server.proxy.long_bodies import LONG_BODY
from dragoman_server.proxy.upstream_runs import WatchedEnd

ENDED = b'{"object":"response","id":"resp_1","status":"completed","usage":{"input_tokens":2,"output_tokens":3}}'
DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"x"}\n\n'
END = b'event: response.completed\ndata: {"type":"response.completed","response":%b}\n\n' % ENDED


class Inner:
    """A response with this body, in pieces of `size` bytes."""

    def __init__(self, body: bytes, size: int = 7, status: int = 200) -> None:
        self.body, self.size, self.status = body, size, status
        self.headers: Mapping[str, str] = {"x": "1"}
        self.closed = False

    async def read(self, limit: int) -> bytes:
        return self.body[:limit]

    async def batches(self) -> AsyncGenerator[bytes, None]:
        for at in range(0, len(self.body), self.size):
            yield self.body[at : at + self.size]

    async def close(self) -> None:
        self.closed = True


def watched(inner: Inner, limit: int = 10_000) -> tuple[WatchedEnd, list[ResponseEnd]]:
    ends: list[ResponseEnd] = []

    async def book(end: ResponseEnd) -> None:
        ends.append(end)

    return WatchedEnd(inner, b"", book, limit), ends


@pytest.mark.parametrize("size", [1, 7, 60, 1000])
async def test_an_end_is_booked_before_it_is_passed_on(size: int) -> None:
    reply, ends = watched(Inner(DELTA + END, size))
    got = b""
    async for data in reply.batches():
        got += data
        assert bool(ends) == (got == DELTA + END)
    assert (got, [end.status for end in ends]) == (DELTA + END, ["completed"])


async def test_a_long_end_is_read_in_a_thread() -> None:
    padded = END.replace(b'"id"', b'"user":"%b","id"' % (b"x" * LONG_BODY))
    loops: list[bool] = []
    reply, ends = watched(Inner(padded, len(padded)), 2 * LONG_BODY)

    def find(frames: bytes) -> ResponseEnd | None:
        loops.append(_runs_in_loop())
        return find_end(frames)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upstream_runs, "find_end", find)
        assert b"".join([data async for data in reply.batches()]) == padded
    assert ([end.status for end in ends], loops) == (["completed"], [False])


def _runs_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def test_a_last_event_without_its_blank_line_is_an_end() -> None:
    reply, ends = watched(Inner(DELTA + END[:-2]))
    assert b"".join([data async for data in reply.batches()]) == DELTA + END[:-2]
    assert len(ends) == 1


async def test_a_frame_above_the_limit_is_passed_on_and_not_searched() -> None:
    reply, ends = watched(Inner(END.replace(b"resp_1", b"x" * 500)), limit=100)
    assert len(b"".join([data async for data in reply.batches()])) == len(END) + 494
    assert ends == []


@pytest.mark.parametrize(("status", "booked"), [(200, 1), (404, 0)])
async def test_a_whole_response_is_read(status: int, booked: int) -> None:
    reply, ends = watched(inner := Inner(ENDED, status=status))
    assert (await reply.read(10_000), reply.status, reply.headers) == (ENDED, status, {"x": "1"})
    assert len(ends) == booked
    await reply.close()
    assert inner.closed
