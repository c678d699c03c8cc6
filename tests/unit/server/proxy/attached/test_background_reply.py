"""A response that goes on at its upstream unless it is cancelled there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import pytest

from dragoman_server.proxy.attached.background_reply import BackgroundReply

CREATED = b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
DELTA = b'event: response.output_text.delta\ndata: {"delta":"\\nevent: response.completed\\n"}\n\n'
END = b'event: response.completed\ndata: {"type":"response.completed"}\n\n'


class Inner:
    """A response with this body, in pieces of `size` bytes."""

    def __init__(self, data: bytes, size: int) -> None:
        self.pieces = [data[at : at + size] for at in range(0, len(data), size)]
        self.closed = False
        self.status = 200
        self.headers: Mapping[str, str] = {}

    async def read(self, limit: int) -> bytes:
        return b"".join(self.pieces)[:limit]

    async def batches(self) -> AsyncGenerator[bytes, None]:
        for piece in self.pieces:
            yield piece

    async def close(self) -> None:
        self.closed = True


async def read(data: bytes, size: int, response_id: str = "") -> tuple[list[str], list[str], bytes]:
    """The ids that were found before anything followed them, those that were cancelled, and the body."""
    known: list[str] = []
    cancelled: list[str] = []

    async def know(found: str) -> None:
        known.append(found)

    async def cancel(found: str) -> None:
        cancelled.append(found)

    reply = BackgroundReply(inner := Inner(data, size), cancel, know, response_id)
    assert reply.status == 200
    got = b""
    async for piece in reply.batches():
        got += piece
        assert known or response_id or got[: len(CREATED)] != CREATED
    await reply.close()
    await reply.close()
    assert inner.closed
    return known, cancelled, got


@pytest.mark.parametrize("size", [1, 2, 7, 30, 64, 1000])
async def test_it_is_cancelled_if_it_is_closed_before_its_end(size: int) -> None:
    whole = CREATED + DELTA + END
    assert await read(whole, size) == (["resp_1"], [], whole)
    cut = CREATED + DELTA
    assert await read(cut, size) == (["resp_1"], ["resp_1"], cut)
    assert await read(cut, size, "resp_2") == ([], ["resp_2"], cut)


@pytest.mark.parametrize(
    "first", [b"data: {}\n\n", b"data: nonsense\n\n", b'data: {"response":{"id":"../models"}}\n\n', b"data: [1]\n\n"]
)
async def test_an_id_that_cannot_be_in_a_url_is_not_used(first: bytes) -> None:
    assert await read(first + DELTA, 1000) == ([], [], first + DELTA)


async def test_a_whole_body_is_read_as_it_is() -> None:
    async def none(_: str) -> None:
        raise AssertionError

    reply = BackgroundReply(Inner(b"error", 2), none)
    assert await reply.read(100) == b"error"
    await reply.close()
