"""A body that stops, drips or cannot be followed any longer: 408 for its client, and the end of the connection."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest
from aiohttp import web

from dragoman.aio.downstream.hijack_runner import HijackRunner
from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.app import make_app
from dragoman_server.proxy.gateway import Gateway
from support.exposed import read_exposition, total
from support.gateways import CHAT, MESSAGES, config_for, gate, raw_exchange, until
from support.samples import PATHS, dump, read_error, reply, request
from support.sockets import ScriptedServer, answer

BOTH_LOOPS = True
RESPONSES = Dialect.RESPONSES
NOWHERE = "http://127.0.0.1:9"
SHORT = Timeouts(body=0.03)
ROUTES = {
    **{path: client for client, path in PATHS.items()},
    "/v1/messages/count_tokens": MESSAGES,
    "/v1/responses/input_tokens": RESPONSES,
    "/v1/dragoman/explain": CHAT,
}
HALF = b"content-length: 100\r\n\r\n" + b'{"model":'
BROKEN = [b"transfer-encoding: chunked\r\n\r\n9\r\n" + b'{"model":\r\n', b"no size at all\r\n"]


def _head(path: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\n".encode()


def _check(client: Dialect, answered: bytes) -> None:
    head, _, body = answered.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"\r\nconnection: close" in head.lower()
    noted = read_error(client, body)
    assert noted.type == "invalid_request_error"
    assert "neither its end nor the next 64 KiB within 0.03 s (timeouts.body)" in noted.message
    assert "send it again" in noted.message


@pytest.mark.parametrize("lines", [True, False], ids=["served", "embedded"])
@pytest.mark.parametrize("path", ROUTES)
async def test_a_body_that_stops_is_a_408_and_the_connections_end(path: str, lines: bool) -> None:
    config = config_for(NOWHERE, CHAT, timeouts=SHORT)
    async with gate(config, handler_cancellation=lines) as entrance, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        writer.write(_head(path) + HALF)
        _check(ROUTES[path], await reader.read())
        writer.close()


async def test_it_is_reported_like_any_other_refusal(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with gate(config_for(NOWHERE, CHAT, timeouts=SHORT)) as entrance:
        answered = await raw_exchange(entrance.port, _head(PATHS[MESSAGES]) + HALF)
        request_id = answered.lower().partition(b"x-dragoman-request-id: ")[2].partition(b"\r\n")[0].decode()
        async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}") as response:
            facts = await response.json()
        async with entrance.session.get(f"{entrance.url}/metrics") as response:
            counted = read_exposition(await response.read())
    assert (facts["ended"], facts["status"], facts["error"]["kind"]) == ("rejected", 408, "invalid_request")
    assert total(counted, "dragoman_requests_total", client=MESSAGES, ended="rejected", status="4xx") == 1
    (line,) = [record for record in caplog.records if "rejected" in record.getMessage()]
    assert line.levelno == logging.INFO
    assert " messages rejected status=408 duration=" in line.getMessage()
    assert ": the body came too slowly, or not at all" in line.getMessage()


@pytest.mark.parametrize("client", PATHS)
async def test_a_drip_does_not_last(client: Dialect) -> None:
    """Between two of its bytes there is never much of a wait."""
    async with gate(config_for(NOWHERE, CHAT, timeouts=SHORT)) as entrance, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        writer.write(_head(PATHS[client]) + b"content-length: 100000\r\n\r\n")

        async def drip() -> None:
            with suppress(ConnectionError):
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.001)

        dripping = asyncio.create_task(drip())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        _check(client, head + await reader.readexactly(length))
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        writer.close()


@pytest.mark.parametrize("client", PATHS)
async def test_chunks_that_end_in_nonsense_later_are_not_waited_for_for_ever(client: Dialect) -> None:
    """aiohttp's parser gives such a body up without reporting its reader."""
    async with gate(config_for(NOWHERE, CHAT, timeouts=SHORT)) as entrance, asyncio.timeout(30):
        assert isinstance(entrance.runner, HijackRunner)
        assert entrance.runner.connections is not None
        manager = entrance.runner.connections.server
        reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        writer.write(_head(PATHS[client]) + BROKEN[0])
        await until(lambda: manager.requests_count == 1)
        writer.write(BROKEN[1])
        answered = await reader.read()
        writer.close()
    _check(client, answered)
    assert answered.count(b"HTTP/1.1") == 1


async def test_a_body_in_two_parts_is_answered_and_the_connection_kept() -> None:
    sent = dump(request(CHAT))
    head = _head(PATHS[CHAT]) + f"content-length: {len(sent)}\r\n\r\n".encode()
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        assert isinstance(entrance.runner, HijackRunner)
        assert entrance.runner.connections is not None
        manager = entrance.runner.connections.server
        reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        async with asyncio.timeout(30):
            for count in (1, 2):
                writer.write(head + sent[:9])
                await until(lambda count=count: manager.requests_count == count)  # type: ignore[misc]
                writer.write(sent[9:])
                noted = await reader.readuntil(b"\r\n\r\n")
                assert noted.startswith(b"HTTP/1.1 200")
                await reader.readexactly(int(noted.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        writer.close()
    assert [asked.body for asked in server.requests] == [sent, sent]


@pytest.mark.parametrize("lines", [True, False], ids=["served", "embedded"])
@pytest.mark.parametrize("client", PATHS)
async def test_who_still_sends_when_the_gateway_stops_is_refused_at_once(client: Dialect, lines: bool) -> None:
    """aiohttp by itself waits for the handler as long as its own shutdown timeout: a minute."""
    config = config_for(NOWHERE, CHAT)
    asked = asyncio.Event()

    def new_id() -> str:
        asked.set()
        return "req_1"

    gateway = Gateway(config, lines=lines, new_id=new_id, sender="x")
    app = make_app(config, gateway=gateway, drain=60.0)
    runner: web.AppRunner = HijackRunner(app, shutdown_timeout=60.0) if lines else web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        writer.write(_head(PATHS[client]) + HALF)
        await asked.wait()
        await runner.cleanup()
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    assert head.startswith(b"HTTP/1.1 529 " if client is MESSAGES else b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1" in head.lower()
    assert b"\r\nconnection: close" in head.lower()
    assert "shutting down" in read_error(client, body).message
