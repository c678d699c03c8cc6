"""Requests that no handler sees are refused in the envelope of the endpoint's dialect, and the reply arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from aiohttp import ClientSession, web

from dragoman.dialects import Dialect
from dragoman_server.app import setup
from dragoman_server.workers.serve import listening, running
from support.gateways import CHAT, MESSAGES, config_for, raw_exchange, served
from support.packing import without_extra
from support.samples import PATHS, dump, read_error, reply, request
from support.sockets import ScriptedServer, Wait, answer
from support.waiting import until

BOTH_LOOPS = True
NOWHERE = "http://127.0.0.1:9"
BODY = b'{"secret":"my-key"}'
LENGTH = f"content-length: {len(BODY)}"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
CHUNKED = "transfer-encoding: chunked"
ENDPOINTS = {
    **{path: client for client, path in PATHS.items()},
    "/v1/messages/count_tokens": MESSAGES,
    "/v1/responses/input_tokens": Dialect.RESPONSES,
    "/v1/models": CHAT,
    "/nowhere": CHAT,
}


class Case(NamedTuple):
    """A request, and what its refusal states."""

    version: str
    lines: list[str]
    body: bytes
    status: int
    noted: str


CASES = {
    "two hosts": Case("1.1", ["host: my-key", LENGTH], BODY, 400, "Duplicate 'Host' header"),
    "a long header": Case("1.1", ["x-api-key: " + "my-key" * 2000, LENGTH], BODY, 431, "one may have 8,190 bytes"),
    "many headers": Case("1.1", [*(f"x-{n}: my-key" for n in range(200)), LENGTH], BODY, 431, "may have 128"),
    "a header without a colon": Case(
        "1.1", ["my-key", LENGTH], BODY, 400, "cannot be read as HTTP: Invalid header token"
    ),
    "two lengths": Case("1.1", [LENGTH, CHUNKED], CHUNKS, 400, "Transfer-Encoding can't be present"),
    "HTTP/2.0": Case("2.0", [LENGTH], BODY, 505, "HTTP/2.0 is not supported: send HTTP/1.1"),
    "HTTP/0.9": Case("0.9", [LENGTH], BODY, 505, "HTTP/0.9 is not supported"),
    "HTTP/3.0": Case("3.0", [LENGTH], BODY, 400, "Invalid HTTP version"),
    "chunks in HTTP/1.0": Case("1.0", [CHUNKED], CHUNKS, 400, "HTTP/1.0 has no transfer-encoding"),
    "gzip as a transfer-encoding": Case(
        "1.1", ["transfer-encoding: gzip, chunked"], CHUNKS, 400, "only transfer-encoding"
    ),
}
HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


def asked(path: str, case: str) -> bytes:
    version, lines, body, _, _ = CASES[case]
    return "\r\n".join([f"POST {path} HTTP/{version}", "host: x", *lines, "\r\n"]).encode() + body


@asynccontextmanager
async def port_of(url: str = NOWHERE) -> AsyncIterator[int]:
    async with running(config_for(url, CHAT, port=0)) as up:
        yield int(up.url.rpartition(":")[2])


def check(answered: bytes, path: str, case: str) -> None:
    head, _, body = answered.partition(b"\r\n\r\n")
    _, _, _, status, noted = CASES[case]
    assert head.split()[1] == b"%d" % status, head
    lines = head.lower().split(b"\r\n")
    assert {b"content-type: application/json", b"server: dragoman", b"connection: close"} < set(lines)
    assert any(line.startswith(b"x-dragoman-request-id: req_") for line in lines)
    error = read_error(ENDPOINTS[path], body)
    assert noted in error.message
    assert "my-key" not in error.message
    assert "b'" not in error.message


@pytest.mark.parametrize(
    ("path", "case"),
    [(PATHS[MESSAGES], case) for case in CASES]
    + [(path, case) for path in ENDPOINTS for case in ("two hosts", "many headers")],
)
async def test_the_refusal_is_json_of_the_endpoints_dialect(path: str, case: str) -> None:
    async with port_of() as port:
        check(await raw_exchange(port, asked(path, case)), path, case)


@pytest.mark.parametrize("case", CASES)
async def test_it_is_the_same_in_pieces(case: str) -> None:
    path = PATHS[MESSAGES]
    sent = asked(path, case)
    async with port_of() as port, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for place in range(0, len(sent), 1000 if len(sent) > 1000 else 7):
            writer.write(sent[place:][: 1000 if len(sent) > 1000 else 7])
            await asyncio.sleep(0)
        check(await reader.read(), path, case)
        writer.close()


@pytest.mark.parametrize("case", CASES)
async def test_behind_another_request_it_comes_in_its_turn(case: str) -> None:
    """The requests before it are answered; those behind it are not read."""
    path = PATHS[MESSAGES]
    sent = dump(request(CHAT))
    first = f"POST {PATHS[CHAT]} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(sent)}\r\n\r\n".encode() + sent
    going = asyncio.Event()
    async with ScriptedServer([Wait(going), *answer(200, dump(reply(CHAT)))]) as server, port_of(server.url) as port:
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(first)
            await until(lambda: server.requests)
            # Behind a version that ends the connection, further bytes would be an error of their own.
            writer.write(asked(path, case) + (b"" if CASES[case].version in ("2.0", "0.9") else HEALTH))
            await writer.drain()
            going.set()
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            rest = await reader.read()
            writer.close()
        assert rest.count(b"\r\n\r\n") == 1
        status = CASES[case].status
        assert rest.split()[1] == b"%d" % status
        assert rest.partition(b"\r\n\r\n")[2].startswith(b'{"')


@pytest.mark.parametrize("path", PATHS.values())
async def test_a_refusal_is_read_whole_though_the_body_is_long(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that sends megabytes of zstd would only see a reset otherwise."""
    without_extra(monkeypatch)
    body = bytes(8 << 20)
    sent = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-encoding: zstd\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    async with port_of() as port, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent + body)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        answered = await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        writer.close()
    assert head.startswith(b"HTTP/1.1 415 ")
    assert b"\r\naccept-encoding: gzip, deflate\r\n" in head.lower()
    assert read_error(ENDPOINTS[path], answered).message == (
        "the content-encoding 'zstd' cannot be read: send gzip or deflate, or no content-encoding; "
        "to let the gateway read it, install Dragoman with the extra compression"
    )


@pytest.mark.parametrize("start", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
async def test_http_2_with_prior_knowledge_learns_which_protocol_to_use(start: bytes) -> None:
    async with port_of() as port:
        answered = await raw_exchange(port, start)
    assert answered.startswith(b"HTTP/1.1 505 ")
    assert "HTTP/2 is not supported" in read_error(CHAT, answered.partition(b"\r\n\r\n")[2]).message


async def test_a_long_target_is_reported_as_one() -> None:
    async with port_of() as port:
        answered = await raw_exchange(port, b"GET /v1/messages?" + b"a" * 9000 + b" HTTP/1.1\r\nhost: x\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 414 ")
    assert "path and query are too long" in read_error(MESSAGES, answered.partition(b"\r\n\r\n")[2]).message


async def test_a_header_reports_the_dialect_where_the_path_does_not() -> None:
    sent = b"GET /v1/models HTTP/1.1\r\nhost: x\r\nanthropic-version: 2023-06-01\r\nhost: y\r\n\r\n"
    async with port_of() as port:
        answered = await raw_exchange(port, sent)
    assert read_error(MESSAGES, answered.partition(b"\r\n\r\n")[2]).message.endswith("Duplicate 'Host' header found")


@pytest.mark.parametrize("lines", [True, False], ids=["served", "embedded"])
@pytest.mark.parametrize("path", PATHS.values())
async def test_expectations_and_encodings_are_refused_by_embedded_gateways_too(path: str, lines: bool) -> None:
    client = ENDPOINTS[path]
    app = web.Application()
    setup(app, config_for(NOWHERE, CHAT))
    async with served(app, handler_cancellation=lines) as (url, _):
        port = int(url.rpartition(":")[2])
        for header, status, noted in (
            ("expect: the-unexpected", 417, "'the-unexpected' is not known here"),
            ("content-encoding: compress", 415, "the content-encoding 'compress' cannot be read: send gzip"),
            ("content-encoding: gzip, x", 415, "'gzip, x' cannot be read: send gzip, deflate, br or zstd"),
            (f"content-encoding: {', '.join(['gzip'] * 4)}", 415, "cannot be read: send gzip"),
        ):
            sent = f"POST {path} HTTP/1.1\r\nhost: x\r\n{header}\r\n{LENGTH}\r\n\r\n".encode() + BODY
            answered = await raw_exchange(port, sent)
            assert answered.split()[1] == b"%d" % status
            assert noted in read_error(client, answered.partition(b"\r\n\r\n")[2]).message


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_who_asks_for_a_100_gets_it_before_the_body_is_sent(version: str) -> None:
    sent = dump(request(CHAT))
    head = (
        f"POST {PATHS[CHAT]} HTTP/{version}\r\nhost: x\r\nexpect: 100-Continue\r\ncontent-length: {len(sent)}\r\n\r\n"
    )
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, port_of(server.url) as port:
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode())
            if version == "1.1":
                assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(sent)
            assert (await reader.readuntil(b"\r\n\r\n")).split()[1] == b"200"
            writer.close()


async def test_a_defect_of_a_handler_is_json_too(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: web.Request) -> web.Response:
        raise RuntimeError("a defect with my-key")

    app = web.Application()
    app.router.add_post("/v1/messages", broken)
    async with (
        listening(app, "127.0.0.1", 0) as url,
        ClientSession() as session,
        session.post(url + "/v1/messages") as response,
    ):
        assert response.status == 500
        assert read_error(MESSAGES, await response.read()).message == "internal error"
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize("path", ["/llm/nowhere", "/llm/v1/nowhere", "/llm/v1/messages/x", "/llm/messages", "/llm/"])
async def test_an_unknown_path_below_a_prefix_is_json(path: str) -> None:
    async def ours(_: web.Request) -> web.Response:
        return web.Response(text="the host's own")

    app = web.Application()
    setup(app, config_for(NOWHERE, CHAT), prefix="/llm")
    app.router.add_get("/llm/ui", ours)
    async with served(app) as (url, _), ClientSession() as session:
        async with session.post(url + path) as response:
            assert response.status == 404
            noted = read_error(MESSAGES if "/v1/messages" in path else CHAT, await response.read()).message
            assert noted.startswith(f"there is no {path} here")
            hint = "here, but /llm/v1/messages: the base URL of OpenAI's clients"
            assert (hint in noted) == (path == "/llm/messages")
            assert "aiohttp" in response.headers["server"]  # the host's own affair
        async with session.get(url + "/llm/v1/messages") as response:
            assert response.status == 405
            assert response.headers["allow"] == "POST"
            assert read_error(MESSAGES, await response.read()).message.startswith("GET is not allowed")
        assert await (await session.get(url + "/llm/ui")).text() == "the host's own"
        assert (await session.get(url + "/elsewhere")).content_type == "text/plain"


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/nowhere"])
async def test_the_server_is_named_and_its_software_is_not(path: str) -> None:
    async with port_of() as port:
        answered = await raw_exchange(port, f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    assert b"\r\nserver: dragoman\r\n" in answered.lower()
    assert b"aiohttp" not in answered.lower()
    assert b"python" not in answered.lower()
