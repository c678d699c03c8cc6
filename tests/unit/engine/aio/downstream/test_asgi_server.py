"""Requests of an ASGI server on connections in memory: bodies, responses, flow control, and all the ways to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from dragoman.aio.downstream.asgi_server import AsgiServer
from dragoman.aio.downstream.connection_limits import ConnectionLimits
from dragoman.aio.downstream.hijack_runner import HijackRunner
from dragoman.aio.downstream.memory_transport import HIGH
from support.asgi import Call, body, http_scope, websocket_scope
from support.waiting import at_once, turns, until

DONE = [body(b"")]
PIECE = bytes(1 << 14)


@dataclass
class Application:
    """An aiohttp application behind the server under test, and what its handlers have seen."""

    server: AsgiServer
    runner: HijackRunner
    received: list[bytes] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    written: int = 0
    addresses: tuple[object, object] | None = None

    def call(self, path: str, method: str = "POST", messages: list[dict[str, Any]] | None = None, **scope: Any) -> Call:
        return Call(self.server, http_scope(path, method, **scope), DONE if messages is None else messages)


@pytest.fixture
async def application() -> AsyncIterator[Application]:
    app = web.Application()
    runner = HijackRunner(app, shutdown_timeout=0.1, limits=ConnectionLimits(write=0.05))
    made: list[Application] = []

    async def echo(request: web.Request) -> web.Response:
        made[0].received.append(await request.read())
        text = f"{request.method} {request.path_qs} {request.scheme} {request.remote} {request.headers.get('x', '')}"
        return web.Response(text=text)

    async def addresses(request: web.Request) -> web.Response:
        assert request.transport is not None
        info = request.transport.get_extra_info
        made[0].addresses = info("peername"), info("sockname")
        return web.Response()

    async def upload(request: web.Request) -> web.Response:
        async for piece in request.content.iter_any():
            made[0].received.append(piece)
            await made[0].go_on.wait()
        return web.Response(text="done")

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=413, text="too long")

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while made[0].written < 100:
                await response.write(PIECE)
                made[0].written += 1
        finally:
            made[0].ended.set()
        return response

    async def wait(_: web.Request) -> web.Response:
        try:
            await asyncio.Event().wait()
        finally:
            made[0].ended.set()
        raise AssertionError

    async def afterwards(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write_eof(b"all")
        await made[0].go_on.wait()
        made[0].ended.set()
        return response

    async def broken(_: web.Request) -> web.Response:
        raise RuntimeError("a defect")

    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async def socket(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["b"])
        await socket.prepare(request)
        try:
            async for message in socket:
                if message.data == "close":
                    await socket.close(code=4000, message=b"as asked")
                elif message.data == "drop":
                    assert request.transport is not None
                    request.transport.close()
                elif message.data == "ping":
                    await socket.ping()
                else:
                    await socket.send_str(message.data * 2)
        finally:
            made[0].ended.set()
        return socket

    for handler in (echo, addresses, upload, refuse, stream, wait, afterwards, broken, cut):
        app.router.add_route("*", f"/{handler.__name__}", handler)
    app.router.add_get("/socket", socket)
    await runner.setup()
    assert runner.connections is not None
    made.append(Application(AsgiServer(runner.connections), runner))
    yield made[0]
    await runner.cleanup()
    assert runner.connections is None


def connections(application: Application) -> int:
    assert application.runner.connections is not None
    return application.runner.connections.open.count


async def test_a_request_and_its_response(application: Application) -> None:
    call = application.call(
        "/mount/echo",
        messages=[body(b"ab", more=True), body(b"c")],
        root_path="/mount",
        query_string=b"a=b",
        scheme="https",
        headers=[(b"host", b"x"), (b"content-length", b"3"), (b"x", b"y")],
    )
    await call.done()
    assert (call.status, call.body) == (200, b"POST /echo?a=b https 203.0.113.7 y")
    assert application.received == [b"abc"]
    assert set(call.headers) == {b"content-type", b"content-length"}
    assert len(call.sent) == 2
    assert connections(application) == 0


@pytest.mark.parametrize(
    ("client", "server", "peer", "own"),
    [
        (None, None, None, None),
        (["::1", 5], ["::1", 80], ("::1", 5), ("::1", 80)),
        (None, ["/run/gateway.sock", None], None, "/run/gateway.sock"),
    ],
)
async def test_addresses_are_those_of_the_scope(
    application: Application, client: object, server: object, peer: object, own: object
) -> None:
    """Rules for local programs depend on them, so an unknown address must not look like a local one."""
    call = application.call("/addresses", client=client, server=server)
    await call.done()
    assert application.addresses == (peer, own)


async def test_a_body_that_has_arrived_is_there_when_the_handler_begins(application: Application) -> None:
    call = application.call("/upload", messages=[body(b"abc")], headers=[(b"content-length", b"3")])
    await until(lambda: application.received)
    assert application.received == [b"abc"]
    application.go_on.set()
    await call.done()


async def test_a_chunked_body(application: Application) -> None:
    parts = [body(b"ab", more=True), body(b"", more=True), body(b"c")]
    call = application.call("/echo", messages=parts, http_version="2", headers=[])
    await call.done()
    assert application.received == [b"abc"]


async def test_an_upload_is_read_as_fast_as_the_handler_reads(application: Application) -> None:
    pieces = [body(bytes(1 << 16), more=True)] * 100
    call = application.call("/upload", messages=pieces, headers=[(b"transfer-encoding", b"chunked")])
    await until(lambda: application.received)
    await turns(50)
    assert call.asked * (1 << 16) <= 2 << 20, "the rest is left to the server"
    application.go_on.set()
    call.put("http.request", body=b"", more_body=False)
    await call.done()
    assert sum(map(len, application.received)) == 100 << 16


async def test_a_refused_body_is_read_to_its_end_before_the_response_ends(application: Application) -> None:
    """Many clients read no response before they have sent their body."""
    call = application.call("/refuse", messages=[body(b"a", more=True)], headers=[(b"content-length", b"3")])
    await until(lambda: len(call.sent) == 2)
    assert (call.status, call.body, call.sent[-1]["more_body"]) == (413, b"too long", True)
    assert call.headers[b"connection"] == b"close"
    call.put("http.request", body=b"bc", more_body=False)
    await call.done()
    assert call.sent[2:] == [{"type": "http.response.body", "body": b"", "more_body": False}]


async def test_a_client_that_does_not_read_pauses_the_handler(application: Application) -> None:
    call = application.call("/stream")
    call.room.clear()
    await until(lambda: application.written)
    await turns(50)
    assert application.written * len(PIECE) <= 4 * HIGH
    before = application.written
    call.room.set()
    await call.done()
    assert application.written == 100 > before
    assert len(call.body) == 100 * len(PIECE)
    assert call.sent[-1]["more_body"] is False


async def test_a_client_that_does_not_read_for_long_loses_its_connection(application: Application) -> None:
    """`ConnectionLimits.write`: the response has no end, so that the server closes the client's connection."""
    call = application.call("/stream")
    call.room.clear()
    await call.done()
    assert application.ended.is_set()
    assert all(message.get("more_body", True) for message in call.sent)
    assert connections(application) == 0


async def test_a_client_that_leaves_cancels_the_handler_at_once(application: Application) -> None:
    call = application.call("/wait")
    await until(lambda: connections(application))
    call.put("http.disconnect")
    await at_once(application.ended)
    await call.done()
    assert call.sent == []
    assert connections(application) == 0


async def test_a_client_that_leaves_while_a_message_is_sent(application: Application) -> None:
    call = application.call("/stream")
    call.room.clear()
    await until(lambda: application.written)
    await turns(50)
    call.put("http.disconnect")
    await at_once(application.ended)
    await call.done()


async def test_a_server_that_raises_for_a_client_that_has_left(application: Application) -> None:
    """From version 2.4 of the specification on."""
    left = asyncio.Event()

    async def send(_: object) -> None:
        raise OSError("the client has left")

    async def receive() -> dict[str, Any]:
        await left.wait()
        raise AssertionError

    await application.server(http_scope("/stream"), receive, send)
    await at_once(application.ended)


async def test_an_error_of_the_server_is_raised(application: Application) -> None:
    async def receive() -> dict[str, Any]:
        raise LookupError("of the server")

    async def send(_: object) -> None: ...

    with pytest.raises(LookupError):
        await application.server(http_scope("/wait"), receive, send)
    assert connections(application) == 0


async def test_a_cancelled_request_cancels_its_handler(application: Application) -> None:
    call = application.call("/wait")
    await until(lambda: connections(application))
    call.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call.task
    await at_once(application.ended)


async def test_a_handler_finishes_after_its_response(application: Application) -> None:
    """Servers report a disconnection once a response has ended: it does not cancel what the handler still does."""
    call = application.call("/afterwards")
    await until(lambda: len(call.sent) == 2)
    assert call.sent[-1] == {"type": "http.response.body", "body": b"all", "more_body": False}
    call.put("http.disconnect")
    await turns(20)
    assert not call.task.done()
    application.go_on.set()
    await call.done()
    assert application.ended.is_set()


async def test_a_response_that_is_cut_has_no_end(application: Application) -> None:
    call = application.call("/cut")
    await call.done()
    assert all(message.get("more_body", True) for message in call.sent)


async def test_a_defect_is_a_500(application: Application) -> None:
    call = application.call("/broken")
    await call.done()
    assert (call.status, call.sent[-1]["more_body"]) == (500, False)


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ({"headers": [(b"x", b"y\r\nz: a")]}, 400),
        ({"headers": [(b"x", b"y" * 9000)]}, 400),
        ({"headers": [(b"x", b"y")] * 200}, 400),
        ({"query_string": b"a" * 9000}, 400),
    ],
)
async def test_a_head_that_is_refused(application: Application, scope: dict[str, Any], status: int) -> None:
    call = application.call("/echo", **scope)
    await call.done()
    assert (call.status, application.received) == (status, [])
    assert not call.sent[-1].get("more_body", False)
    assert b"server" not in call.headers
    assert connections(application) == 0


async def test_a_body_that_the_server_cuts_is_refused(application: Application) -> None:
    call = application.call("/echo", messages=[body(b"ab")], headers=[(b"host", b"x"), (b"content-length", b"3")])
    await call.done()
    assert call.status == 400
    assert b"shorter than its content-length" in call.body
    assert application.received == []
    assert connections(application) == 0


async def test_another_scope_is_refused(application: Application) -> None:
    with pytest.raises(ValueError, match="telnet"):
        await Call(application.server, {"type": "telnet"}).done()


def socket_call(application: Application, path: str = "/socket", **scope: Any) -> Call:
    return Call(application.server, websocket_scope(path, **scope), [{"type": "websocket.connect"}])


async def test_a_websocket(application: Application) -> None:
    call = socket_call(application, subprotocols=["a", "b"])
    call.put("websocket.receive", text="ü")
    call.put("websocket.receive", text="ping")
    call.put("websocket.receive", text="x" * 70000)
    await until(lambda: len(call.sent) == 3)
    assert call.sent[0] == {"type": "websocket.accept", "subprotocol": "b", "headers": []}
    assert [message["text"] for message in call.sent[1:]] == ["üü", "x" * 140000]
    call.put("websocket.receive", text="close")
    await call.done()
    assert call.sent[3:] == [{"type": "websocket.close", "code": 4000, "reason": "as asked"}]
    await at_once(application.ended)


async def test_a_websocket_whose_client_leaves(application: Application) -> None:
    call = socket_call(application)
    await call.started()
    call.put("websocket.disconnect", code=1001)
    await at_once(application.ended)
    await call.done()
    assert len(call.sent) == 1


async def test_a_websocket_that_is_dropped(application: Application) -> None:
    call = socket_call(application)
    call.put("websocket.receive", text="drop")
    await call.done()
    assert call.sent[1:] == [{"type": "websocket.close", "code": 1011, "reason": ""}]


async def test_a_websocket_is_refused(application: Application) -> None:
    call = socket_call(application, "/refuse", extensions={"websocket.http.response": {}})
    await call.done()
    assert (call.sent[0]["status"], call.body) == (413, b"too long")
    call = socket_call(application, "/refuse")
    await call.done()
    assert call.sent == [{"type": "websocket.close", "code": 1008, "reason": ""}]
    call = socket_call(application, headers=[(b"a b", b"")])
    await call.done()
    assert [message["type"] for message in call.sent] == ["websocket.close"]
