"""Long reads of aiohttp's client, parsed in parts. `transport/test_transport_slices.py` has the whole transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import TimerNoop

from dragoman.aio.upstream.parted_reads import PART, PartedResponseHandler

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
BODY = b"".join(b"%06d;" % number for number in range(20_000))
CHUNKS = b"".join(b"7\r\n%b\r\n" % BODY[at : at + 7] for at in range(0, len(BODY), 7))
END = b"0\r\n\r\n"


@asynccontextmanager
async def connected(reply: bytes) -> AsyncIterator[PartedResponseHandler]:
    """A handler that is connected to a server which sends this and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        writer.close()
        await writer.wait_closed()

    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    transport, handler = await loop.create_connection(lambda: PartedResponseHandler(loop), *address)
    handler.set_response_params(timer=TimerNoop(), read_bufsize=2**12)
    try:
        yield handler
    finally:
        transport.abort()
        server.close()
        await server.wait_closed()


async def test_a_body_in_many_parts_is_whole_although_its_reader_is_slow() -> None:
    async with connected(HEAD + CHUNKS + END) as handler:
        _, payload = await handler.read()
        received = b""
        while piece := await payload.read(1000):
            received += piece
            assert handler.should_close or len(received) == len(BODY)
        assert received == BODY
        assert not handler.should_close or handler.transport is None


async def test_no_part_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    parse = ResponseHandler.data_received

    def counted(self: ResponseHandler, data: bytes) -> None:
        lengths.append(len(data))
        parse(self, data)

    monkeypatch.setattr(ResponseHandler, "data_received", counted)
    async with connected(HEAD + CHUNKS + END) as handler:
        _, payload = await handler.read()
        assert await payload.read() == BODY
    assert max(lengths) == PART


async def test_a_long_read_of_one_chunk_is_parsed_at_once() -> None:
    text = b"x" * 100_000
    async with connected(HEAD + b"%x\r\n%b\r\n" % (len(text), text) + END) as handler:
        _, payload = await handler.read()
        assert await payload.read() == text
