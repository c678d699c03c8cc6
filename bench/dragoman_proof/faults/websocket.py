"""A client of the Responses WebSocket on a raw socket: it begins one response, reads its events, or breaks rules."""

from __future__ import annotations

import asyncio
import json
import random
import struct
from contextlib import suppress
from typing import Any, Final

from dragoman import Dialect
from dragoman_proof.faults.client import Received, body_of
from dragoman_proof.faults.kinds import CLIENTS, Case
from dragoman_proof.faults.line import reset

NORMAL: Final = 1000
PROTOCOL_ERROR: Final = 1002
_ENDS: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))
"""The events that end a response. Codex ignores an `error` behind the first event."""
_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10
_FINAL, _MASKED = 0x80, 0x80
_LATE: Final = 0.02
_PINGS: Final = 300
_HANDSHAKE: Final = (
    b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
_BROKEN: Final = (
    b"\x83\x80abcd",  # an unknown opcode
    b"\xf1\x80abcd",  # reserved bits
    b"\x81\x02hi",  # no mask
    b"\x80\x80abcd",  # goes on with no message
    b"\x89\xfe\x00\x80abcd" + b"x" * 128,  # a long ping
    b"\x09\x80abcd",  # a ping in parts
)
_CANNOT_CLOSE: Final = ("half closes", "holds half a frame")
_WRONG_CODES: Final = (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)


class _Ended(Exception):
    """The gateway has closed the connection with a code."""


async def ask(port: int, case: Case, seconds: float) -> Received:
    """Begin the response of a case, and return its events as the stream that HTTP would have.

    An error in place of the first event has its status. Raises TimeoutError after so many seconds, and ValueError if
    the gateway breaks the rules of WebSockets.
    """
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        try:
            writer.write(_HANDSHAKE)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 101"):
                raise ValueError(f"no WebSocket: {head[:40]!r}")
            return await _Conversation(reader, writer, case).take_place()
        except (asyncio.IncompleteReadError, ConnectionError):
            return Received(0, b"", ended=False)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


class _Conversation:
    """One response over an open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, case: Case) -> None:
        self._reader, self._writer, self._case = reader, writer, case
        self._chance = random.Random(case.seed)
        self._body = bytearray()
        self._status = 200

    async def take_place(self) -> Received:
        """Return what arrived."""
        create = {"type": "response.create", **body_of(Dialect.RESPONSES, self._case)}
        del create["stream"]
        self._send(_TEXT, json.dumps(create).encode())
        acting = self._case.kind in CLIENTS
        code: int | None = None
        ended = False
        try:
            if acting and self._case.kind == "half closes" and self._case.at == 0:
                self._writer.write_eof()
            while not ended:
                ended = self._took(await self._message())
                if acting and not ended and len(self._body) >= self._case.at:
                    acting = False
                    if await self._act():
                        return self._received(False, None)
            if self._case.kind not in _CANNOT_CLOSE:
                self._send(_CLOSE, struct.pack("!H", NORMAL))
                while True:
                    await self._message()
        except _Ended as close:
            code = close.args[0]
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        return self._received(ended, code)

    def _received(self, ended: bool, code: int | None) -> Received:
        return Received(self._status, bytes(self._body), ended, streamed=True, code=code)

    def _took(self, data: bytes) -> bool:
        """Keep an event. Return True for the last one."""
        event: Any = json.loads(data)
        if not self._body and event["type"] == "error":
            self._status = event.get("status") or 0
            self._body += data
            return True
        self._body += b"event: %s\ndata: %s\n\n" % (str(event.get("type")).encode(), data)
        return event.get("type") in _ENDS

    async def _act(self) -> bool:
        """Carry out the fault of the case. Return True if the connection is over."""
        match self._case.kind:
            case "resets":
                reset(self._writer.transport)
                return True
            case "leaves":
                return True
            case "half closes":
                self._writer.write_eof()
            case "closes":
                self._send(_CLOSE, struct.pack("!H", self._chance.choice((NORMAL, 1001, 1011, 3000, 4999))) + b"bye")
            case "closes wrongly":
                code = struct.pack("!H", self._chance.choice(_WRONG_CODES))
                self._send(_CLOSE, self._chance.choice((code, code, b"\x03", b"\x03\xe8\xff")))
            case "breaks a frame":
                self._writer.write(self._chance.choice(_BROKEN))
            case "holds half a frame":
                frame = _frame(_TEXT, b'{"type":"response.cancel"}', self._chance)
                self._writer.write(frame[: self._chance.randrange(1, len(frame))])
            case "floods":
                for _ in range(_PINGS):
                    self._send(_PING, self._chance.randbytes(125))
            case _:
                await asyncio.sleep(_LATE)
        return False

    async def _message(self) -> bytes:
        """Return the next text. Raises _Ended for a close, and ValueError for a frame that a server must not send."""
        while True:
            first, size = await self._reader.readexactly(2)
            opcode = first & 0x0F
            if first & 0x70 or size & _MASKED or not first & _FINAL or opcode not in (_TEXT, _CLOSE, _PING, _PONG):
                raise ValueError(f"a frame {first:02x} {size:02x}")
            if size >= 126:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
            data = await self._reader.readexactly(size)
            if opcode == _TEXT:
                return data
            if opcode == _PING:
                self._send(_PONG, data)
            elif opcode == _CLOSE:
                raise _Ended(int.from_bytes(data[:2], "big") if data else None)

    def _send(self, opcode: int, payload: bytes) -> None:
        self._writer.write(_frame(opcode, payload, self._chance))


def _frame(opcode: int, payload: bytes, chance: random.Random) -> bytes:
    """Return a masked frame."""
    size, key = len(payload), chance.randbytes(4)
    if size < 126:
        head = bytes((_FINAL | opcode, _MASKED | size))
    else:
        head = bytes((_FINAL | opcode, _MASKED | 126)) + struct.pack("!H", size)
    mask = int.from_bytes((key * (size // 4 + 1))[:size], "big")
    return head + key + (int.from_bytes(payload, "big") ^ mask).to_bytes(size, "big")
