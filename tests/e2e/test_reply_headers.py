"""Header values of an upstream that no header line may have: they are left out, whatever transport read them."""

from __future__ import annotations

import asyncio
import re

import pytest

from dragoman.aio.upstream.aiohttp_transport import AiohttpTransport
from dragoman.dialects import Dialect
from support.directions import ask
from support.gateways import config_for, gate
from support.samples import PATHS, dump, reply, text_stream
from support.sockets import ScriptedServer, Send, Step, answer, sse_head, stream

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES
NAMES = (
    "x-request-id", "request-id", "retry-after", "x-ratelimit-limit-requests", "anthropic-ratelimit-requests-limit",
    "openai-organization", "anthropic-organization-id",
)  # fmt: skip
VALUES = ("a\x01b", "a\x1b[31mb", "\x7f", "caf\xe9", "a\x0bb", "a\x85b", "x" * 5000)


async def exchange(port: int, data: bytes) -> bytes:
    """Two requests on one connection, and all that is answered until the second reply is whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(30):
            writer.write(data)
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kind", ["error", "whole", "stream"])
@pytest.mark.parametrize(("client", "upstream"), [(CHAT, CHAT), (MESSAGES, CHAT), (MESSAGES, MESSAGES)])
async def test_a_reply_has_a_whole_head_and_the_connection_stays_in_step(
    client: Dialect, upstream: Dialect, kind: str, value: str, transport: str
) -> None:
    odd = [(name, value) for name in NAMES]
    script: list[Step] = {
        "error": answer(429, b"{}", headers=odd),
        "whole": answer(200, dump(reply(upstream)), headers=odd),
        "stream": [Send(sse_head(extra=odd)), *stream(text_stream(upstream))[1:]],
    }[kind]
    body = dump(ask(client, stream=kind == "stream"))
    request = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n%b"
    path = PATHS[client].encode()
    last = b"connection: close\r\n"
    made = AiohttpTransport() if transport == "aiohttp" else None
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream), upstream=made) as entrance:
        sent = request % (path, len(body), b"", body) + request % (path, len(body), last, body)
        noted = await exchange(entrance.port, sent)
    assert noted.startswith(b"HTTP/1.1 ")
    heads = re.split(rb"HTTP/1\.1 (?=[0-9]{3} )", noted)[1:]
    assert len(heads) == 2
    for head in heads:
        fields = head.partition(b"\r\n\r\n")[0]
        assert value.encode("latin-1") not in fields
        assert all(byte in b"\r\n" or 32 <= byte < 127 for byte in fields)
