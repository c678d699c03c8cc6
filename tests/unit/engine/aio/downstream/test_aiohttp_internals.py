"""One test for each assumption that `aio/downstream/aiohttp_internals.py` makes about aiohttp's server.

A test that fails after an update of aiohttp is named after the function to change. The tests read private parts of
aiohttp such as `_keepalive_handle` too.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiohttp import HttpVersion10, HttpVersion11, web, web_response
from aiohttp.http import HttpProcessingError, HttpVersion, StreamWriter
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from dragoman.aio.downstream import aiohttp_internals as internals
from dragoman.aio.downstream.masked_frames import MaskedFrames
from support.waiting import turns, until

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Transport(asyncio.Transport):
    """A transport that records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return


class Protocol(web.RequestHandler):
    """A connection handler to which `make_mocked_request` can add attributes."""


async def ok(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="ok")


def a_server(handler: Handler = ok, **options: Any) -> web.Server:
    return web.Server(handler, handler_cancellation=True, access_log=None, **options)


@asynccontextmanager
async def connected(handler: Handler = ok, **options: Any) -> AsyncIterator[tuple[web.RequestHandler, Transport]]:
    """A connection handler of aiohttp's on a recording transport."""
    server, transport = a_server(handler, **options), Transport()
    protocol = server()
    protocol.connection_made(transport)
    try:
        yield protocol, transport
    finally:
        protocol.connection_lost(None)
        await turns()


def streaming(
    method: str = "POST", http_version: HttpVersion = HttpVersion11, **request: Any
) -> tuple[web.BaseRequest, StreamWriter, Transport]:
    """A request whose response is written to a recording transport."""
    transport = Transport()
    protocol: Any = Protocol(a_server(), loop=asyncio.get_running_loop())
    writer = StreamWriter(protocol, asyncio.get_running_loop())
    made = make_mocked_request(
        method, "/", writer=writer, protocol=protocol, transport=transport, version=http_version, **request
    )
    return made, writer, transport


# --- the connection handler -----------------------------------------------------------------------------------------


async def test_handler_options_are_those_of_the_servers_own_handlers() -> None:
    server = a_server(keepalive_timeout=7.0, max_field_size=100)
    own = server()
    ours = web.RequestHandler(server, loop=asyncio.get_running_loop(), **internals.handler_options(server))
    assert (ours.keepalive_timeout, ours.max_field_size) == (own.keepalive_timeout, own.max_field_size) == (7.0, 100)


async def test_as_server_is_the_protocol_factory_of_a_runners_sites() -> None:
    made: list[asyncio.Protocol] = []

    def factory() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    class Runner(web.AppRunner):
        @property
        def server(self) -> web.Server | None:
            return internals.as_server(factory)

    runner = Runner(web.Application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    _, writer = await asyncio.open_connection(*runner.addresses[0][:2])
    await until(lambda: made)
    writer.close()
    await runner.cleanup()
    assert not runner.sites


async def test_receive_queues_and_counts_each_complete_head_at_once() -> None:
    async with connected() as (handler, _):
        internals.receive(handler, GET + GET + GET[:9])
        assert internals.request_count(handler) == len(internals.queued_requests(handler)) == 2
        internals.receive(handler, GET[9:])
        assert internals.request_count(handler) == len(internals.queued_requests(handler)) == 3


async def test_queued_requests_are_taken_from_the_left() -> None:
    async with connected() as (handler, transport):
        internals.receive(handler, GET + GET.replace(b"/ ", b"/second "))
        first, second = (cast("Any", message).path for message, _ in internals.queued_requests(handler))
        assert (first, second) == ("/", "/second")
        await until(lambda: len(transport.writes) == 2)
        assert not internals.queued_requests(handler)
        assert internals.request_count(handler) == 2


async def test_is_between_requests_until_one_is_handled() -> None:
    going = asyncio.Event()

    async def slow(_: web.BaseRequest) -> web.StreamResponse:
        await going.wait()
        return web.Response()

    async with connected(slow) as (handler, transport):
        assert internals.is_between_requests(handler), "before its task has run"
        await turns()
        assert internals.is_between_requests(handler), "waiting for the first request"
        internals.receive(handler, GET)
        await turns()
        assert not internals.is_between_requests(handler), "while a request is handled"
        going.set()
        await until(lambda: transport.writes)
        await turns()
        assert internals.is_between_requests(handler), "waiting for the next request"


async def test_resume_reading_has_no_effect_unless_is_paused() -> None:
    async with connected() as (handler, transport):
        resumed: list[None] = []
        transport.resume_reading = lambda: resumed.append(None)  # type: ignore[method-assign]
        handler.data_received(POST + b"12345")
        before = internals.request_count(handler), list(internals.queued_requests(handler))
        assert not internals.is_paused(handler)
        handler.resume_reading()
        assert (internals.request_count(handler), list(internals.queued_requests(handler))) == before
        handler.pause_reading()
        assert internals.is_paused(handler)
        resumed.clear()
        handler.resume_reading()
        assert resumed
        assert not internals.is_paused(handler)


async def test_parse_error_of_what_is_not_http() -> None:
    async with connected() as (handler, _):
        internals.receive(handler, GET)
        internals.receive(handler, b"\x00\r\n\r\n")
        (good, _), (bad, _) = internals.queued_requests(handler)
        assert internals.parse_error(good) is None
        assert isinstance(internals.parse_error(bad), HttpProcessingError)


async def test_rejected_request_is_given_to_handle_error_in_its_turn() -> None:
    calls: list[tuple[int, BaseException | None]] = []

    class Recording(web.RequestHandler):
        __slots__ = ()

        def handle_error(
            self,
            request: web.BaseRequest,
            status: int = 500,
            exc: BaseException | None = None,
            message: str | None = None,
        ) -> web.StreamResponse:
            calls.append((status, exc))
            return web.Response(status=status)

    handler, transport = Recording(a_server(), loop=asyncio.get_running_loop()), Transport()
    handler.connection_made(transport)
    internals.receive(handler, GET + GET)
    error = HttpProcessingError(code=505, message="no")
    internals.queued_requests(handler)[1] = internals.rejected_request(error)
    await until(lambda: calls)
    assert calls == [(400, error)]
    assert transport.writes[0].startswith(b"HTTP/1.1 200")
    handler.connection_lost(None)


async def test_release_transport_ends_the_handler_and_not_the_connection() -> None:
    events: list[str] = []

    async def slow(_: web.BaseRequest) -> web.StreamResponse:
        events.append("begun")
        try:
            return await asyncio.Future()
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    async with connected(slow) as (handler, transport):
        internals.receive(handler, GET)
        await until(lambda: events)
        internals.release_transport(handler)
        await until(lambda: len(events) == 2)
        assert events == ["begun", "cancelled"]
        assert not transport.closed
        assert handler._parser is None


# --- a request ------------------------------------------------------------------------------------------------------


async def test_cancel_keep_alive_timer_until_the_next_pause_between_requests() -> None:
    timers: list[object] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        timers.append(request.protocol._keepalive_handle)
        internals.cancel_keep_alive_timer(request)
        timers.append(request.protocol._keepalive_handle)
        return web.Response()

    async with connected(handle) as (handler, transport):
        internals.receive(handler, GET)
        await until(lambda: transport.writes)
        await turns()
        before, after = timers
        assert before is not None
        assert after is None
        assert handler._keepalive_handle is not None, "started again after the response"


@pytest.mark.parametrize("abandoned", [True, False])
async def test_abandon_body_closes_after_the_response_instead_of_reading_on(
    abandoned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if abandoned:
            internals.abandon_body(request)
        return web.Response(status=413)

    with caplog.at_level(logging.DEBUG):
        async with connected(handle) as (handler, transport):
            internals.receive(handler, POST + b"half")
            await until(lambda: transport.writes)
            await turns()
            assert transport.writes[0].startswith(b"HTTP/1.1 413")
            assert transport.closed is abandoned
    assert not caplog.records


@pytest.mark.parametrize("decompresses", [True, False])
async def test_is_decompressed_and_abandon_body_ends_it(decompresses: bool) -> None:
    sent = gzip.compress(bytes(16 << 20))
    found: list[tuple[bool, int]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        found.append((internals.is_decompressed(request), request.content.total_bytes))
        internals.abandon_body(request)
        found.append((internals.is_decompressed(request), request.content.total_bytes))
        return web.Response(status=401)

    head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(sent)
    async with connected(handle, auto_decompress=decompresses) as (handler, transport):
        internals.receive(handler, head + sent)
        await until(lambda: transport.closed)
    (before, size), after = found
    assert before is decompresses
    assert size == (3 << 18 if decompresses else len(sent)), "aiohttp fills its buffer"
    assert after == (before, size)


@pytest.mark.parametrize("counted", [True, False])
async def test_send_continue_does_not_begin_the_response(counted: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await internals.send_continue(request)
        if counted:
            request.writer.output_size = 1
        raise RuntimeError

    with caplog.at_level(logging.CRITICAL):
        async with connected(handle) as (handler, transport):
            internals.receive(handler, POST)
            await until(lambda: transport.closed or len(transport.writes) > 1)
            first, *rest = transport.writes
    assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert [write[:12] for write in rest] == ([] if counted else [b"HTTP/1.1 500"])


# --- a response -----------------------------------------------------------------------------------------------------


class _Ordinary(web.StreamResponse):
    _send_headers_immediately = False


KINDS: dict[str, Callable[[type[web.StreamResponse], type[web.Response]], web.StreamResponse]] = {
    "stream": lambda stream, whole: stream(headers={"x-one": "1", "Content-Type": "text/event-stream"}),
    "untyped": lambda stream, whole: stream(status=202),
    "own headers": lambda stream, whole: stream(headers={"date": "then", "server": "us", "connection": "close"}),
    "accented": lambda stream, whole: stream(headers={"x-name": "caf\u00e9\tau lait"}),
    "whole": lambda stream, whole: whole(body=b"{}", content_type="application/json", headers={"x-one": "1"}),
    "empty": lambda stream, whole: whole(),
    "no content": lambda stream, whole: whole(status=204),
    "not modified": lambda stream, whole: whole(status=304, body=b"{}"),
}


def _closed(response: web.StreamResponse) -> web.StreamResponse:
    response.force_close()
    return response


def _with_cookie(response: web.StreamResponse) -> web.StreamResponse:
    response.set_cookie("a", "b")
    return response


def _compressed(response: web.StreamResponse) -> web.StreamResponse:
    response.enable_compression()
    return response


CHANGES: list[Callable[[web.StreamResponse], web.StreamResponse]] = [lambda it: it, _closed, _with_cookie, _compressed]


@pytest.mark.parametrize("version", [HttpVersion10, HttpVersion11])
@pytest.mark.parametrize("method", ["POST", "HEAD"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_direct_head_is_that_of_aiohttp(
    kind: str,
    change: Callable[[web.StreamResponse], web.StreamResponse],
    method: str,
    version: HttpVersion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (internals, web_response):
        monkeypatch.setattr(module, "rfc822_formatted_time", lambda: "Thu, 01 Jan 1970 00:00:00 GMT")
    sent, left = [], []
    for stream, whole in ((_Ordinary, web.Response), (internals.DeferredHeadersResponse, internals.DirectResponse)):
        request, writer, transport = streaming(method=method, http_version=version)
        response = change(KINDS[kind](stream, whole))
        await response.prepare(request)
        if type(response) in (_Ordinary, internals.DeferredHeadersResponse) and method == "POST":
            await response.write(b"one")
        await response.write_eof()
        sent.append(b"".join(transport.writes))
        left.append((response.keep_alive, response.body_length, writer.chunked, [*response.headers.items()]))
    assert sent[0] == sent[1]
    assert left[0] == left[1]


async def test_a_signal_changes_a_direct_head() -> None:
    app = web.Application()

    async def sign(request: web.Request, response: web.StreamResponse) -> None:
        response.headers["x-signed"] = "yes"

    app.on_response_prepare.append(sign)
    app.on_response_prepare.freeze()
    request, _, transport = streaming(app=app)
    response = internals.DirectResponse(body=b"{}")
    await response.prepare(request)
    await response.write_eof()
    assert b"\r\nx-signed: yes\r\n" in b"".join(transport.writes)


@pytest.mark.parametrize("value", ["a\r\nx-injected: 1", "a\n", "\r", "\0"])
async def test_a_direct_head_has_no_control_characters(value: str) -> None:
    request, writer, transport = streaming()
    with pytest.raises(ValueError, match="control character"):
        await internals.DirectResponse(headers={"x-one": value}).prepare(request)
    assert not transport.writes
    assert internals.take_head(writer) == b""


async def test_a_head_is_taken_once() -> None:
    request, writer, transport = streaming()
    response = internals.DeferredHeadersResponse()
    assert internals.take_head(writer) == b""
    await response.prepare(request)
    head = internals.take_head(writer)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert head.endswith(b"\r\n\r\n")
    assert internals.take_head(writer) == b""
    await response.write(b"one")
    assert transport.writes == [b"3\r\none\r\n"]


async def test_end_body_leaves_nothing_to_be_written() -> None:
    request, writer, transport = streaming()
    response = internals.DeferredHeadersResponse()
    await response.prepare(request)
    internals.add_sent_bytes(writer, 100)
    internals.end_body(response, writer)
    assert response.prepared
    assert response.body_length == 100
    assert await response.prepare(request) is None
    await response.write_eof()
    await writer.write_eof()
    assert not transport.writes


@pytest.mark.parametrize("method", ["POST", "HEAD"])
@pytest.mark.parametrize("compressed", [False, True])
async def test_write_whole_writes_what_only_aiohttp_would_change(method: str, compressed: bool) -> None:
    request, writer, transport = streaming(method=method)
    response = internals.DirectResponse(body=b"{}")
    await response.prepare(request)
    if compressed:
        writer.enable_compression("deflate")
    if compressed or method == "HEAD":
        assert internals.write_whole(response, b"{}") is None
        assert not transport.writes
        return
    assert internals.write_whole(response, b"{}") is writer
    (only,) = transport.writes
    assert only.endswith(b"\r\n\r\n{}")
    assert response.body_length == len(only)
    await response.write_eof()
    assert len(transport.writes) == 1


async def test_deferred_headers_are_sent_with_the_first_piece() -> None:
    request, _, transport = streaming()
    response = internals.DeferredHeadersResponse()
    await response.prepare(request)
    assert response.prepared
    assert not transport.writes
    await response.write(b"one")
    (only,) = transport.writes
    assert only.startswith(b"HTTP/1.1 200")
    assert only.endswith(b"\r\n\r\n3\r\none\r\n")


async def test_send_headers_once() -> None:
    request, _, transport = streaming()
    await internals.DeferredHeadersResponse().prepare(request)
    internals.send_headers(request)
    internals.send_headers(request)
    (only,) = transport.writes
    assert only.endswith(b"\r\n\r\n")


async def test_plain_chunked_writer_can_be_bypassed_after_the_first_piece() -> None:
    request, writer, transport = streaming()
    response = internals.DeferredHeadersResponse()
    assert internals.plain_chunked_writer(response, await response.prepare(request)) is writer
    await response.write(b"one")
    assert writer.transport is transport
    writer.transport.write(b"3\r\ntwo\r\n")
    await response.write_eof(b"three")
    body = b"".join(transport.writes).partition(b"\r\n\r\n")[2]
    assert body == b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n"


async def test_plain_chunked_writer_controls_the_flow() -> None:
    request, _, _ = streaming()
    response = internals.DeferredHeadersResponse()
    writer = internals.plain_chunked_writer(response, await response.prepare(request))
    assert writer is not None
    assert not writer.protocol.writing_paused
    writer.protocol.pause_writing()
    assert writer.protocol.writing_paused
    draining = asyncio.create_task(writer.drain())
    await turns()
    assert not draining.done()
    writer.protocol.resume_writing()
    await draining


@pytest.mark.parametrize("kind", ["length", "compressed", "encoded", "not prepared"])
async def test_plain_chunked_writer_is_no_other_writer(kind: str) -> None:
    request, _, _ = streaming(headers={"accept-encoding": "gzip"})
    response = internals.DeferredHeadersResponse()
    if kind == "length":
        response.content_length = 6
    elif kind == "compressed":
        response.enable_compression()
    elif kind == "encoded":
        response.headers["content-encoding"] = "x-other"
    writer = None if kind == "not prepared" else await response.prepare(request)
    assert internals.plain_chunked_writer(response, writer) is None


async def test_add_sent_bytes_counts_in_the_size_of_the_response() -> None:
    request, writer, transport = streaming()
    response = internals.DeferredHeadersResponse()
    await response.prepare(request)
    await response.write(b"one")
    transport.write(b"3\r\ntwo\r\n")
    internals.add_sent_bytes(writer, 8)
    await response.write_eof()
    assert response.body_length == sum(map(len, transport.writes))


# --- aiohttp's client (aio/upstream/aiohttp_transport.py) -----------------------------------------------------------


async def test_a_client_request_is_sent_by_its_method_send() -> None:
    """`_Request` checks its connection there; `should_close` is True once unexpected bytes were received."""
    from aiohttp import ClientRequest, ClientSession
    from aiohttp.client_proto import ResponseHandler

    sent: list[bool] = []

    class Recording(ClientRequest):
        async def send(self, conn: Any) -> Any:
            sent.append(conn.protocol.should_close)
            return await super().send(conn)

    runner = web.ServerRunner(a_server())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with ClientSession(request_class=Recording) as session, session.get(f"http://{host}:{port}/") as response:
        assert await response.text() == "ok"
    await runner.cleanup()
    assert sent == [False]
    idle = ResponseHandler(loop=asyncio.get_running_loop())
    idle.connection_made(Transport())
    assert not idle.should_close
    idle.data_received(b"unexpected")
    assert idle.should_close


async def test_without_connection() -> None:
    """The copy does not see the end of the connection, and knows its addresses."""
    transport = Transport()
    protocol: Any = Protocol(a_server(), loop=asyncio.get_running_loop())
    protocol.connection_made(transport)
    first = make_mocked_request("POST", "/v1/responses", {"host": "x"}, protocol=protocol)
    remote = first.remote
    copy = internals.without_connection(first, {"host": "x"}, b"{}")
    protocol.connection_lost(None)
    await turns()
    assert copy.transport is not None
    assert not copy.transport.is_closing()
    assert copy.transport.get_extra_info("peername") == transport.get_extra_info("peername")
    assert copy.transport.get_extra_info("socket", 7) == 7
    assert copy.remote == remote
    again = internals.with_body(copy, {"host": "y"}, b'{"a":1}')  # of which there can be further copies
    assert await again.json() == {"a": 1}
    assert again.transport is copy.transport
    assert await copy.json() == {}


async def test_detached_request() -> None:
    """The copy reads the body from the connection, may close it, and does not see its end."""
    transport = Transport()
    protocol: Any = Protocol(a_server(), loop=asyncio.get_running_loop())
    protocol.connection_made(transport)
    body = StreamReader(protocol, limit=100)
    first = make_mocked_request("POST", "/v1/messages", {"host": "x"}, protocol=protocol, payload=body)
    copy = internals.detached_request(first)
    assert (copy.method, copy.path, copy.headers["host"]) == ("POST", "/v1/messages", "x")
    body.feed_data(b"{}")
    body.feed_eof()
    assert await copy.json() == {}
    internals.abandon_body(copy)
    assert protocol._close
    protocol.connection_lost(None)
    await turns()
    assert copy.transport is not None
    assert not copy.transport.is_closing()


async def test_with_body() -> None:
    """The body is read as one that came, and the connection is not paused, however long it is."""
    transport = Transport()
    protocol: Any = Protocol(a_server(), loop=asyncio.get_running_loop())
    protocol.connection_made(transport)
    first = make_mocked_request("GET", "/v1/responses?a=1", {"host": "x", "upgrade": "websocket"}, protocol=protocol)
    body = b"x" * 2**20
    copy = internals.with_body(first, {"Host": "x", "content-type": "application/json"}, body)
    assert (copy.method, copy.path, copy.query["a"], copy.headers["host"]) == ("POST", "/v1/responses", "1", "x")
    assert "upgrade" not in copy.headers
    assert copy.transport is first.transport
    assert copy.content.is_eof() or copy.can_read_body
    assert not protocol._reading_paused
    assert copy.content.read_nowait() == body
    assert await internals.with_body(first, {}, b"{}").json() == {}
    protocol.connection_lost(None)
    await turns()


async def test_masked_web_socket_response_reads_all_that_arrives() -> None:
    """Bytes that came with the handshake, and later ones, go through the check of masks."""
    headers = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    early, later = b"\x81\x81\0\0\0\0a", b"\x81\x81\0\0\0\0b"
    texts: list[object] = []

    async def talk(request: web.BaseRequest) -> web.StreamResponse:
        socket = internals.MaskedWebSocketResponse(decode_text=False, timeout=0.01)
        await socket.prepare(request)
        assert isinstance(request.protocol._payload_parser, MaskedFrames)
        request.protocol.data_received(later + b"\x81\x01c")
        texts.extend([(await socket.receive()).data for _ in range(2)])
        texts.append((await socket.receive()).data.code)
        return socket

    async with connected(talk) as (handler, _):
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        handler.data_received(f"GET / HTTP/1.1\r\nhost: x\r\n{lines}\r\n".encode() + early)
        await until(lambda: len(texts) == 3)
    assert texts == [b"a", b"b", 1002]
