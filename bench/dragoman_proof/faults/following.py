"""A client that leaves the stream of a response in the background, and follows it at another gateway."""

from __future__ import annotations

import asyncio
import json
import random
import re
from contextlib import suppress
from dataclasses import replace
from typing import Final

from dragoman import Dialect
from dragoman_proof.faults.client import Received, request
from dragoman_proof.faults.kinds import Case

_MOST_EVENTS: Final = 12
"""A client leaves within so many events."""
_NUMBER: Final = re.compile(rb'"sequence_number":\s*(\d+)')
_ID: Final = re.compile(rb'"id":\s*"(resp_\w+)"')


async def ask(first: int, second: int, case: Case, seconds: float) -> Received:
    """Send the request of a case to the port `first`, leave after some events, and read the others at `second`.

    Returns the events of both as one stream. Raises TimeoutError after so many seconds.
    """
    events = random.Random(case.seed).randrange(1, _MOST_EVENTS)
    async with asyncio.timeout(seconds):
        begun = await _exchange(first, request(Dialect.RESPONSES, case, background=True), events)
        if begun.status != 200 or not (ids := _ID.search(begun.body)):
            return begun
        path = f"/v1/responses/{ids[1].decode()}"
        whole = begun
        if not begun.ended:
            after = _NUMBER.findall(begun.body)[-1].decode()
            rest = await _exchange(second, _get(f"{path}?stream=true&starting_after={after}"))
            if rest.status != 200:
                raise ValueError(f"following is refused with status {rest.status}: {rest.body[:200]!r}")
            whole = replace(rest, body=begun.body + rest.body)
        stored = json.loads((await _exchange(second, _get(path))).body)
        return replace(whole, stored=stored.get("status") or f"no state: {stored}")


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode()


async def _exchange(port: int, data: bytes, most: int = 0) -> Received:
    """Send a request and return what arrived; of a stream at most so many events, if that is not 0."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        writer.write(data)
        head = await reader.readuntil(b"\r\n\r\n")
        status, lower = int(head[9:12]), head.lower()
        if b"transfer-encoding: chunked" not in lower:
            length = next((line[15:] for line in lower.split(b"\r\n") if line.startswith(b"content-length:")), b"0")
            return Received(status, await reader.readexactly(int(length)), ended=True)
        body = bytearray()
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
            if most and body.count(b"\n\n") >= most:
                frames = bytes(body).split(b"\n\n")[:most]
                return Received(status, b"\n\n".join(frames) + b"\n\n", ended=False, streamed=True)
        return Received(status, bytes(body), ended=True, streamed=True)
    except asyncio.IncompleteReadError:
        return Received(0, b"", ended=False)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
