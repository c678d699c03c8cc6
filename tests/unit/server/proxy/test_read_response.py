"""A response that was read already is read again without its connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from dragoman_server.proxy.read_response import ReadResponse


class Response:
    """A response that must not be read again."""

    status = 207
    headers: Mapping[str, str] = {"a": "b"}
    closed = 0

    async def read(self, limit: int) -> bytes:
        raise AssertionError

    async def batches(self) -> AsyncGenerator[bytes, None]:
        raise AssertionError
        yield b""

    async def close(self) -> None:
        self.closed += 1


async def test_a_reply_that_was_read_is_read_again() -> None:
    response = Response()
    read = ReadResponse(response, b"all of it")
    assert (read.status, read.headers) == (207, {"a": "b"})
    assert await read.read(1) == b"all of it"
    assert [piece async for piece in read.batches()] == [b"all of it"]
    await read.close()
    assert response.closed == 1
