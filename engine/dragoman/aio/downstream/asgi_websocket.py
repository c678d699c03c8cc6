"""A WebSocket of an ASGI server as the bytes of one: handshake and frames (RFC 6455), and back.

The ASGI server has a WebSocket with the client, and the gateway has one with this module. Messages are passed on whole.
Pings and closes are answered on each of the two.
"""

from __future__ import annotations

import struct

from dragoman.aio.downstream.asgi_http import (
    CONNECTION_HEADERS,
    SWITCHING_PROTOCOLS,
    HttpResponse,
    Message,
    Scope,
    encode_head,
    target,
)

_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_NORMAL = 1000
"""The code of a close that has none."""
_DEFECT = 1011
"""The code of a connection that the server ends without a close of its own."""
_REFUSED = "websocket.http.response"
"""The extension of servers that can send a response in place of a 101, and the beginning of its messages' types."""
_HANDSHAKE = (
    (b"connection", b"upgrade, close"),
    (b"upgrade", b"websocket"),
    (b"sec-websocket-version", b"13"),
    (b"sec-websocket-key", b"ZHJhZ29tYW4gaW4gQVNHSQ=="),
)


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """Return one frame of a client. Its mask is zero, which changes nothing: there is no proxy to protect."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    return b"%b\0\0\0\0%b" % (head, payload)


class ServerFrames:
    """Parses the frames of aiohttp's server, which are whole messages without a mask and without compression."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return opcode and payload of the frames that `data` completes."""
        data = self._unread + data if self._unread else data
        frames, at = [], 0
        while (bounds := _payload(data, at)) is not None:
            start, end = bounds
            frames.append((data[at] & 0x0F, data[start:end]))
            at = end
        self._unread = data[at:]
        return frames


def _payload(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the bounds of the payload of the frame at `at`, or None if the frame is incomplete."""
    if len(data) < at + 2:
        return None
    size, start = data[at + 1] & 0x7F, at + 2
    if size >= 126:
        extra = 2 if size == 126 else 8
        if len(data) < start + extra:
            return None
        size, start = int.from_bytes(data[start : start + extra]), start + extra
    return (start, start + size) if len(data) >= start + size else None


class WebSocketExchange:
    """One WebSocket. The connection gets `head`, then the bytes that `receive` returns.

    `answer` are the bytes that it gets in return for those of the last `send`. `ended` is True once the last message
    was returned. Raises BadScope.
    """

    def __init__(self, scope: Scope) -> None:
        headers = [*_HANDSHAKE]
        for name, value in scope["headers"]:
            name = name.lower()
            if name not in CONNECTION_HEADERS and not name.startswith(b"sec-websocket-"):
                headers.append((name, value))
        if offered := scope.get("subprotocols"):
            headers.append((b"sec-websocket-protocol", ", ".join(offered).encode()))
        self.head = encode_head("GET", target(scope), headers)
        self.answer = b""
        self.ended = False
        self._can_refuse = _REFUSED in (scope.get("extensions") or ())
        self._response = HttpResponse("GET")
        self._frames = ServerFrames()

    @property
    def started(self) -> bool:
        """True once the handshake was answered."""
        return self._response.status != 0

    def receive(self, message: Message) -> bytes:
        """Return the bytes of a message of the client. Raises ConnectionError if the client has disconnected."""
        if message["type"] != "websocket.receive":
            raise ConnectionResetError("the client hung up")
        text = message.get("text")
        if text is not None:
            return encode_frame(_TEXT, text.encode())
        return encode_frame(_BINARY, message.get("bytes") or b"")

    def send(self, data: bytes) -> list[Message]:
        """Return the messages that bytes of the connection complete."""
        self.answer = b""
        if self._response.status == SWITCHING_PROTOCOLS:
            return self._messages(data)
        messages = self._response.feed(data)
        if self._response.status == SWITCHING_PROTOCOLS:
            return [self._accept(), *self._messages(self._response.upgraded)]
        return self._refuse(messages)

    def finish(self) -> list[Message]:
        """Return the last message, if the connection has ended without a close."""
        return [] if self.ended else [{"type": "websocket.close", "code": _DEFECT, "reason": ""}]

    def close(self) -> None:
        """Free the parser."""
        self._response.close()

    def _accept(self) -> Message:
        headers = [each for each in self._response.headers if each[0] != b"sec-websocket-accept"]
        protocol = next((value.decode() for name, value in headers if name == b"sec-websocket-protocol"), None)
        headers = [each for each in headers if each[0] != b"sec-websocket-protocol"]
        return {"type": "websocket.accept", "subprotocol": protocol, "headers": headers}

    def _refuse(self, messages: list[Message]) -> list[Message]:
        """Return the messages of a response other than a 101. A server that cannot send it sends a 403."""
        complete = self._response.complete
        self.ended = self.ended or complete
        if not self._can_refuse:
            return [{"type": "websocket.close", "code": 1008, "reason": ""}] if complete else []
        for message in messages:
            message["type"] = message["type"].replace("http.response", _REFUSED)
        if complete:
            messages.append({"type": f"{_REFUSED}.body", "body": b"", "more_body": False})
        return messages

    def _messages(self, data: bytes) -> list[Message]:
        """Return the messages of frames, and answer pings and a close."""
        messages: list[Message] = []
        for opcode, payload in self._frames.feed(data):
            if self.ended:
                break
            if opcode == _TEXT:
                messages.append({"type": "websocket.send", "text": payload.decode("utf-8", "replace")})
            elif opcode == _BINARY:
                messages.append({"type": "websocket.send", "bytes": payload})
            elif opcode == _PING:
                self.answer += encode_frame(_PONG, payload)
            elif opcode == _CLOSE:
                self.ended = True
                self.answer += encode_frame(_CLOSE, payload)
                code = int.from_bytes(payload[:2]) if payload else _NORMAL
                messages.append({"type": "websocket.close", "code": code, "reason": payload[2:].decode()})
        return messages
