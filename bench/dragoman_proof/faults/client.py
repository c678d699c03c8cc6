"""A client on a raw socket: it sends one request and reads the reply, or leaves it."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dragoman import Dialect
from dragoman_proof.faults.kinds import CLIENT, Case
from dragoman_proof.faults.line import reset

_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
_TOOL: dict[Dialect, Any] = {
    Dialect.CHAT: {"type": "function", "function": {"name": "look", "parameters": _SCHEMA}},
    Dialect.MESSAGES: {"name": "look", "input_schema": _SCHEMA},
    Dialect.RESPONSES: {"type": "function", "name": "look", "parameters": _SCHEMA, "strict": False},
}
_LATE = 0.02
"""Seconds for which a client that reads late does not read."""


@dataclass(frozen=True, slots=True)
class Received:
    """A response. `status` is 0 if its head did not arrive; `ended` states that the body ended as HTTP has it.

    `code` is that of the gateway's close of a WebSocket. `stored` is the state of the response in the store.
    """

    status: int
    body: bytes
    ended: bool
    streamed: bool = False
    code: int | None = None
    stored: str | None = None


async def ask(
    port: int, client: Dialect, case: Case, seconds: float, *, model: str = "m", headers: str = ""
) -> Received:
    """Send the request of a case, and return what arrived. Raises TimeoutError after so many seconds.

    `headers` are further lines of the head, each with its end.
    """
    leaving = case.kind if case.kind in CLIENT else ""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        try:
            writer.write(request(client, case, model, headers))
            if leaving == "half closes" and case.at == 0:
                writer.write_eof()
            return await _read(reader, writer, case, leaving)
        except (asyncio.IncompleteReadError, ConnectionError):
            return Received(0, b"", ended=False)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, case: Case, leaving: str) -> Received:
    head = await reader.readuntil(b"\r\n\r\n")
    status, lower = int(head[9:12]), head.lower()
    if b"transfer-encoding: chunked" not in lower:
        length = next((line[15:] for line in lower.split(b"\r\n") if line.startswith(b"content-length:")), b"0")
        return Received(status, await reader.readexactly(int(length)), ended=True)
    body = bytearray()
    acted = not leaving
    try:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
            if not acted and len(body) >= case.at:
                acted = True
                if leaving == "resets":
                    reset(writer.transport)
                    return Received(status, bytes(body), ended=False, streamed=True)
                if leaving == "leaves":
                    return Received(status, bytes(body), ended=False, streamed=True)
                if leaving == "half closes":
                    writer.write_eof()
                else:
                    await asyncio.sleep(_LATE)
        return Received(status, bytes(body), ended=True, streamed=True)
    except (asyncio.IncompleteReadError, ConnectionError):
        return Received(status, bytes(body), ended=False, streamed=True)


def request(client: Dialect, case: Case, model: str = "m", headers: str = "", **more: Any) -> bytes:
    """Return the request of a case, with more fields."""
    data = json.dumps(body_of(client, case, model) | more).encode()
    head = f"POST /v1/{client.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{headers}"
    return head.encode() + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(data) + data


def body_of(client: Dialect, case: Case, model: str = "m") -> dict[str, Any]:
    """Return the body of the request of a case, which names its number."""
    prompt = f"case-{case.number:06}"  # of one length, as its tokens are estimated
    body: dict[str, Any] = {"model": model, "stream": True, "tools": [_TOOL[client]]}
    if client is Dialect.RESPONSES:
        body["input"] = prompt
    else:
        body["messages"] = [{"role": "user", "content": prompt}]
    if client is Dialect.MESSAGES:
        body["max_tokens"] = 1000
    return body
