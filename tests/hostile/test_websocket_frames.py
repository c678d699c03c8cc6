"""Frames that a WebSocket client must not send: the connection is closed with the code of the reason (RFC 6455)."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from typing import Any

import pytest

from dragoman.aio import MaskedWebSocketResponse
from dragoman.dialects import Dialect
from dragoman_server.endpoints.websocket.connection import WebSocketConnection
from support.gateways import config_for, gate, until
from support.sockets import ScriptedServer, Stall
from support.websockets import HANDSHAKE, begun, speaking

CHAT = Dialect.CHAT
CREATE = b'{"type":"response.create","model":"m","input":"Hi","generate":false}'
HEAD = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items()).encode()
UPGRADE = b"GET /v1/responses HTTP/1.1\r\nhost: x\r\n" + HEAD + b"\r\n"


def frame(payload: bytes, *, opcode: int = 1, final: bool = True, masked: bool = True) -> bytes:
    """One frame of fewer than 126 bytes."""
    mask = b"\x11\x22\x33\x44" if masked else b""
    covered = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if masked else payload
    return bytes([opcode | 0x80 * final, len(payload) | 0x80 * masked]) + mask + covered


async def close_code(*sent: bytes, early: bytes = b"") -> int:
    """Send bytes after the handshake, and `early` ones with it. Returns the code with which the gateway closes."""
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as opened:
        reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
        writer.write(UPGRADE + early)
        assert b"101" in await reader.readuntil(b"\r\n\r\n")
        for data in sent:
            writer.write(data)
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            while (opcode := (await reader.readexactly(2))[0] & 0xF) != 8:
                raise AssertionError(f"a frame with opcode {opcode}")
            (code,) = struct.unpack("!H", await reader.readexactly(2))
        writer.close()
        await until(lambda: not opened.gateway.services.websockets)
        return int(code)


@pytest.mark.parametrize("opcode", [0x1, 0x2, 0x8, 0x9, 0xA, 0x0])
async def test_an_unmasked_frame_closes_the_connection(opcode: int) -> None:
    """Data, control and continuation frames (RFC 6455 §5.1)."""
    assert await close_code(frame(b"{}" if opcode != 8 else b"\x03\xe8", opcode=opcode, masked=False)) == 1002


async def test_an_unmasked_frame_that_came_with_the_handshake() -> None:
    assert await close_code(early=frame(CREATE, masked=False)) == 1002


async def test_an_unmasked_frame_behind_a_masked_one_and_in_pieces() -> None:
    unmasked = frame(CREATE, masked=False)
    assert await close_code(frame(b"", opcode=0xA) + unmasked) == 1002
    assert await close_code(unmasked[:1], unmasked[1:2]) == 1002


async def test_a_message_within_another_closes_the_connection() -> None:
    """Also if the other one is empty so far (RFC 6455 §5.4)."""
    for first in (b"", CREATE[:9]):
        assert await close_code(frame(first, final=False), frame(CREATE)) == 1002


@pytest.mark.parametrize(("code", "answer"), [(1000, 1000), (3000, 1000), (999, 1002), (1006, 1002), (5000, 1002)])
async def test_a_close_with_a_code_that_no_frame_may_have(code: int, answer: int) -> None:
    """RFC 6455 §7.4."""
    assert await close_code(frame(code.to_bytes(2, "big"), opcode=8)) == answer


@pytest.mark.parametrize(
    "text", [b"\xff", b'{"type":"\xed\xa0\x80"}', b'{"type":"response.create","model":"\xc0\xaf"}']
)
async def test_text_that_is_not_utf8_closes_the_connection(text: bytes) -> None:
    """In one frame, and in two (RFC 6455 §8.1)."""
    assert await close_code(frame(text)) == 1007
    assert await close_code(frame(text[:3], final=False), frame(text[3:], opcode=0)) == 1007


async def test_text_that_is_not_utf8_cancels_the_turns_of_the_connection() -> None:
    async with (
        ScriptedServer([*begun(CHAT), Stall()]) as server,
        gate(config_for(server.url, CHAT)) as opened,
        speaking(opened.url) as client,
    ):
        await client.create()
        await client.until("response.output_text.delta")
        await client.socket.send_frame(b"\xff", 1)  # type: ignore[arg-type]
        assert await client.closed() == 1007
        await asyncio.wait_for(server.hung_up.wait(), 30)


@pytest.mark.parametrize(("kind", "opcode", "payload"), [("_receive", 1, b"{}"), ("pong", 9, b"")])
async def test_a_turn_handles_few_of_many_small_messages(
    kind: str, opcode: int, payload: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands arrive in one read, of two clients: no one else waits for all of them."""
    turn = 0
    by_turn: Counter[int] = Counter()
    owner: type = WebSocketConnection if kind == "_receive" else MaskedWebSocketResponse
    handle = getattr(owner, kind)

    async def counted(self: Any, data: bytes = b"") -> None:
        by_turn[turn] += 1
        await handle(self, data)

    async def turning() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(owner, kind, counted)
    many = 1000
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as opened, asyncio.timeout(60):
        task = asyncio.create_task(turning())
        clients = [await asyncio.open_connection("127.0.0.1", opened.port) for _ in range(2)]
        for reader, writer in clients:
            writer.write(UPGRADE)
            assert b"101" in await reader.readuntil(b"\r\n\r\n")
        for _, writer in clients:
            writer.write(frame(payload, opcode=opcode) * many)
        await until(lambda: by_turn.total() == 2 * many)
        task.cancel()
        for _, writer in clients:
            writer.close()
    assert max(by_turn.values()) <= 2 * len(clients)


async def test_a_message_behind_thousands_of_empty_frames_is_answered() -> None:
    """A turn of the event loop passes `FRAMES` of them."""
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as opened:
        reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
        writer.write(UPGRADE)
        assert b"101" in await reader.readuntil(b"\r\n\r\n")
        writer.write(frame(b"", opcode=0xA) * 20_000 + frame(CREATE) + frame(b"\x03\xe8", opcode=8))
        async with asyncio.timeout(60):
            assert b"response.completed" in await reader.read()
        writer.close()
