"""A WebSocket of an ASGI server as frames, and back."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.aio.downstream.asgi_websocket import ServerFrames, WebSocketExchange, encode_frame
from support.asgi import websocket_scope

SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: x\r\n"
    b"X-Id: 7\r\n%b\r\n"
)
REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nno"
CLOSE = b"\x88\x06\x03\xe9bye!"


def opened(**fields: Any) -> WebSocketExchange:
    exchange = WebSocketExchange(websocket_scope(**fields))
    exchange.send(SWITCHED % b"")
    return exchange


def test_the_handshake_is_written_again() -> None:
    headers = [
        (b"host", b"x"),
        (b"authorization", b"Bearer k"),
        (b"connection", b"Upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-key", b"of the client"),
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-extensions", b"permessage-deflate"),
        (b"sec-websocket-protocol", b"ignored"),
    ]
    exchange = WebSocketExchange(websocket_scope("/v1/responses", headers=headers, subprotocols=["a", "b"]))
    assert exchange.head == (
        b"GET /v1/responses HTTP/1.1\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: ZHJhZ29tYW4gaW4gQVNHSQ==\r\nhost: x\r\n"
        b"authorization: Bearer k\r\nsec-websocket-protocol: a, b\r\n\r\n"
    )


@pytest.mark.parametrize(("header", "protocol"), [(b"", None), (b"Sec-WebSocket-Protocol: b\r\n", "b")])
def test_it_is_accepted(header: bytes, protocol: str | None) -> None:
    exchange = WebSocketExchange(websocket_scope())
    assert exchange.send(SWITCHED % header + b"\x81\x02hi") == [
        {"type": "websocket.accept", "subprotocol": protocol, "headers": [(b"x-id", b"7")]},
        {"type": "websocket.send", "text": "hi"},
    ]


def test_it_is_refused_with_the_response() -> None:
    exchange = WebSocketExchange(websocket_scope(extensions={"websocket.http.response": {}}))
    start, *parts = exchange.send(REFUSED)
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 401)
    assert [(each["type"], each["body"], each["more_body"]) for each in parts] == [
        ("websocket.http.response.body", b"no", True),
        ("websocket.http.response.body", b"", False),
    ]
    assert exchange.ended
    assert exchange.finish() == []


def test_it_is_refused_with_a_close_where_a_response_cannot_be_sent() -> None:
    exchange = WebSocketExchange(websocket_scope())
    assert exchange.send(REFUSED[:60]) == []
    assert exchange.send(REFUSED[60:]) == [{"type": "websocket.close", "code": 1008, "reason": ""}]
    assert exchange.ended


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_frames_of_all_lengths(size: int) -> None:
    payloads = [b"", b"a" * 125, b"b" * 126, b"c" * 65535, b"d" * 65536]
    data = b"".join(map(_frame, payloads))
    frames = ServerFrames()
    found = [frame for at in range(0, len(data), size) for frame in frames.feed(data[at : at + size])]
    assert found == [(1, each) for each in payloads]


def _frame(payload: bytes) -> bytes:
    """A frame of the server, which has no mask."""
    size = len(payload)
    if size < 126:
        return bytes([0x81, size]) + payload
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2) + payload
    return b"\x81\x7f" + size.to_bytes(8) + payload


@pytest.mark.parametrize(
    ("size", "head"),
    [
        (0, b"\x81\x80"),
        (125, b"\x81\xfd"),
        (126, b"\x81\xfe\x00\x7e"),
        (65535, b"\x81\xfe\xff\xff"),
        (65536, b"\x81\xff\0\0\0\0\0\1\0\0"),
    ],
)
def test_a_frame_of_the_client_is_masked(size: int, head: bytes) -> None:
    assert encode_frame(1, b"x" * size) == head + b"\0\0\0\0" + b"x" * size


def test_messages_of_the_client() -> None:
    exchange = opened()
    assert exchange.receive({"type": "websocket.receive", "text": "ü"}) == encode_frame(1, "ü".encode())
    assert exchange.receive({"type": "websocket.receive", "text": None, "bytes": b"\0"}) == encode_frame(2, b"\0")
    assert exchange.receive({"type": "websocket.receive", "text": ""}) == encode_frame(1, b"")
    with pytest.raises(ConnectionError):
        exchange.receive({"type": "websocket.disconnect", "code": 1000})


def test_pings_and_the_close_are_answered() -> None:
    exchange = opened()
    assert exchange.send(b"\x89\x01p\x82\x01b") == [{"type": "websocket.send", "bytes": b"b"}]
    assert exchange.answer == encode_frame(10, b"p")
    assert exchange.send(b"\x8a\x00") == []
    assert exchange.answer == b""
    assert exchange.send(CLOSE + b"\x81\x01x") == [{"type": "websocket.close", "code": 1001, "reason": "bye!"}]
    assert exchange.answer == encode_frame(8, b"\x03\xe9bye!")
    assert exchange.ended
    assert exchange.finish() == []


def test_a_close_without_a_code() -> None:
    assert opened().send(b"\x88\x00") == [{"type": "websocket.close", "code": 1000, "reason": ""}]


def test_a_connection_that_ends_without_a_close() -> None:
    assert opened().finish() == [{"type": "websocket.close", "code": 1011, "reason": ""}]
