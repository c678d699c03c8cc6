"""Both sides of a gateway in this process: one client connection and the upstream, in lockstep on blocking sockets.

A piece is sent when the previous one has arrived and the gateway sleeps. The number of its wake-ups, reads and writes
therefore does not depend on the machine's load.
"""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Callable, Mapping
from types import MappingProxyType

from dragoman_bench.instructions.callgrind import SECONDS
from dragoman_bench.replies import Reply
from dragoman_bench.wire import MARK, PATHS

_PATHS = {**PATHS, "generate": "/v1beta/models/generate-model:streamGenerateContent?alt=sse"}
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_END = b"0\r\n\r\n"
_READ = 1 << 18


class Lockstep:
    """A client connection to `port`, and the connections that the gateway opens to `listener`.

    `settle` waits until the gateway has nothing left to do. The client sends `headers`.
    """

    def __init__(
        self,
        port: int,
        listener: socket.socket,
        settle: Callable[[], None],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._listener = listener
        self._settle = settle
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._upstreams: list[socket.socket] = []
        self._client = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Close all connections."""
        for sock in (self._client, *self._upstreams):
            sock.close()

    def stream(self, client: str, body: bytes, sent: Reply, chunks: int) -> None:
        """Request a stream, and send `chunks` deltas through the gateway, one after the other."""
        upstream = self._request(client, body)
        texts: list[bytes] = []
        received = b""
        for number in range(chunks):
            delta = _delta(sent, number, number == chunks - 1, texts)
            self._settle()
            upstream.sendall(delta if number else sent.opening + delta)
            received = self._receive(lambda data: MARK.search(data) is not None, b"")
        self._settle()
        upstream.sendall(sent.closing(texts))
        if not received.endswith(_END):
            self._receive(lambda data: data.endswith(_END), received)

    def joined(self, client: str, body: bytes, sent: Reply, chunks: int) -> None:
        """Request a stream that the upstream sends in one write, with `chunks` deltas, as a fast one does."""
        upstream = self._request(client, body)
        data, texts = bytearray(sent.opening), list[bytes]()
        for number in range(chunks):
            data += _delta(sent, number, number == chunks - 1, texts)
        self._settle()
        upstream.sendall(data + sent.closing(texts))
        self._receive(lambda data: data.endswith(_END), b"")

    def whole(self, client: str, body: bytes, sent: Reply) -> None:
        """Request a whole reply."""
        upstream = self._request(client, body)
        self._settle()
        upstream.sendall(sent.whole)
        self._receive(is_complete, b"")

    def _request(self, client: str, body: bytes) -> socket.socket:
        """Send a request. Returns the upstream connection that the gateway's request came by."""
        head = f"POST {_PATHS[client]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{self._headers}"
        self._settle()
        self._client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        while True:
            ready = select.select([self._listener, *self._upstreams, self._client], [], [], SECONDS)[0]
            if not ready:
                raise TimeoutError("the gateway sent no request upstream")
            for sock in ready:
                if sock is self._listener:
                    connection = sock.accept()[0]
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connection.settimeout(SECONDS)
                    self._upstreams.append(connection)
                elif sock is self._client:
                    raise RuntimeError(f"the gateway answered by itself: {sock.recv(2000)!r}")
                elif (method := _read_request(sock)) == b"POST":
                    return sock
                elif method:  # the gateway requests the list of models at its start
                    sock.sendall(_NOT_FOUND)
                else:
                    self._upstreams.remove(sock)

    def _receive(self, enough: Callable[[bytes], bool], received: bytes) -> bytes:
        while not enough(received):
            data = self._client.recv(_READ)
            if not data:
                raise ConnectionError(f"the gateway closed after {received[-300:]!r}")
            received += data
        return received


def _delta(sent: Reply, number: int, last: bool, texts: list[bytes]) -> bytes:
    """Return a delta with all that comes before it, and add its text to `texts` if the reply needs them."""
    between = sent.between(number, texts) if number in sent.breaks else b""
    if sent.needs_texts:
        texts.append(sent.text(1, number, 0, last=last))
    return between + sent.delta(1, number, 0, last=last)


def is_complete(data: bytes) -> bool:
    """True if `data` is a whole HTTP message with a body."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return False
    if length := _LENGTH.search(head):
        return len(body) == int(length[1])
    return _CHUNKED.search(head) is not None and body.endswith(_END)


def _read_request(sock: socket.socket) -> bytes:
    """Read a request. Returns its method, or an empty value if the connection was closed or reset."""
    data = b""
    while not (is_complete(data) or (data.startswith(b"GET ") and data.endswith(b"\r\n\r\n"))):
        try:
            piece = sock.recv(_READ)
        except ConnectionResetError:
            return b""
        if not piece:
            return b""
        data += piece
    return data.partition(b" ")[0]
