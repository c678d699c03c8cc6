"""The access of a web page in a browser to a gateway on this machine that has no keys: nothing unless allowed."""

from __future__ import annotations

import asyncio
import socket

import pytest
from aiohttp import ClientSession, web

from dragoman.dialects import Dialect
from dragoman_server.app import setup
from dragoman_server.config.provider import Secret
from dragoman_server.proxy.cors import Cors
from dragoman_server.proxy.web_origins import WebOrigins
from dragoman_server.workers.serve import running
from support.gateways import CHAT, MESSAGES, config_for, gate, raw_exchange, served
from support.samples import PATHS, dump, read_error, reply, request
from support.sockets import ScriptedServer, answer

JSON = "content-type: application/json"
EVIL = "https://evil.example"
EXTRA = {
    "/v1/messages/count_tokens": MESSAGES,
    "/v1/responses/input_tokens": Dialect.RESPONSES,
    "/v1/dragoman/explain": CHAT,
}
ENDPOINTS = {**{path: client for client, path in PATHS.items()}, **EXTRA}
PAGES = {
    "a form": (["content-type: application/x-www-form-urlencoded"], 415, "-H 'content-type: application/json'"),
    "plain text": (["content-type: text/plain;charset=UTF-8"], 415, "'text/plain;charset=UTF-8' is not JSON"),
    "a multipart form": (["content-type: multipart/form-data; boundary=x"], 415, "is not JSON"),
    "a type of its own": (["content-type: text/xml"], 415, "is not JSON"),
    "a type that hides": (["content-type: text/plain; application/json"], 415, "is not JSON"),
    "an origin": ([JSON, f"origin: {EVIL}"], 403, "web pages of 'https://evil.example' may not use"),
    "an origin of this machine": ([JSON, "origin: http://localhost:3000"], 403, "server.cors_origins"),
    "a page without an origin": ([JSON, "origin: null"], 403, "server.cors_origins"),
    "an extension": ([JSON, "origin: chrome-extension://abc"], 403, "server.cors_origins"),
    "another site": ([JSON, "sec-fetch-site: cross-site"], 403, "web pages of other sites may not use"),
}


def asked(path: str, *lines: str, host: str = "127.0.0.1:8080", method: str = "POST") -> bytes:
    client = ENDPOINTS.get(path, CHAT)
    body = dump(request(client)) if method == "POST" else b""
    length = [f"content-length: {len(body)}"] if body else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"host: {host}", *length, *lines, "\r\n"]).encode() + body


def status(answered: bytes) -> int:
    return int(answered[9:12])


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("path", ENDPOINTS)
async def test_a_page_of_another_site_is_refused_and_nothing_is_spent(path: str, page: str) -> None:
    lines, expected, noted = PAGES[page]
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        answered = await raw_exchange(entrance.port, asked(path, *lines))
        assert not server.requests
    assert status(answered) == expected, answered
    error = read_error(ENDPOINTS[path], answered.partition(b"\r\n\r\n")[2])
    assert noted in error.message
    assert "no keys" in error.message


@pytest.mark.parametrize("path", [*ENDPOINTS, "/v1/models", "/metrics", "/v1/dragoman/receipts/req_1"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example"]
)
async def test_a_name_that_a_page_has_pointed_here_is_refused(path: str, host: str) -> None:
    method = "POST" if path in ENDPOINTS else "GET"
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        answered = await raw_exchange(entrance.port, asked(path, JSON, host=host, method=method))
        assert not server.requests
    assert status(answered) == 403, answered
    assert f"the host name '{host}' is not known".encode() in answered
    assert b"server.allowed_hosts, or set server.keys" in answered


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:1", "localhost.", "a.localhost:3", "127.0.0.1", "127.9.9.9:80", "[::1]:80", "[::1]",
     socket.gethostname()],
)  # fmt: skip
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([JSON], id="json"),
        pytest.param(["Content-Type: Application/JSON; charset=utf-8"], id="json with a charset"),
        pytest.param(["content-type: application/vnd.api+json"], id="another json"),
        pytest.param([], id="no type"),
        pytest.param(["content-type: application/octet-stream"], id="bytes"),
        pytest.param([JSON, "sec-fetch-site: none"], id="the user"),
    ],
)
async def test_a_program_on_this_machine_is_served(host: str, lines: list[str]) -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        answered = await raw_exchange(entrance.port, asked(PATHS[CHAT], *lines, host=host))
        assert status(answered) == 200, answered
        assert len(server.requests) == 1


async def test_a_page_of_the_gateways_own_host_is_served() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        own = [JSON, f"origin: http://localhost:{entrance.port}", "sec-fetch-site: same-origin"]
        host = f"localhost:{entrance.port}"
        assert status(await raw_exchange(entrance.port, asked(PATHS[CHAT], *own, host=host))) == 200
        other = f"localhost:{entrance.port + 1}"
        assert status(await raw_exchange(entrance.port, asked(PATHS[CHAT], *own, host=other))) == 403


async def test_an_address_of_the_network_is_no_name_of_this_machines_loopback() -> None:
    """But where the gateway listens on all addresses, whatever address its clients see is fine."""
    sent = asked(PATHS[CHAT], JSON, host="192.0.2.7:8080")
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        assert status(await raw_exchange(entrance.port, sent)) == 403


class Arrived(asyncio.BaseTransport):
    """A connection that came in on an address."""

    def __init__(self, address: str) -> None:
        super().__init__({"sockname": (address, 8080)})


@pytest.mark.parametrize(
    ("local", "host", "fine"),
    [
        ("127.0.0.1", "192.0.2.7", False),
        ("127.0.0.1", "127.0.0.2", True),
        ("172.17.0.2", "192.0.2.7:8080", True),
        ("172.17.0.2", "[2001:db8::1]:8080", True),
        ("172.17.0.2", "dragoman:8080", False),
        ("172.17.0.2", "llm.example.com:8080", True),
        ("172.17.0.2", "a.example.org", True),
        ("172.17.0.2", "example.org", False),
        ("172.17.0.2", "aexample.org", False),
        ("172.17.0.2", "gateway.test:8080", True),
        ("", "192.0.2.7", True),
    ],
)
async def test_which_hosts_are_known_on_which_address(local: str, host: str, fine: bool) -> None:
    rules = WebOrigins("gateway.test", ("LLM.example.com", "*.example.org"), Cors(()))
    assert (rules._is_ours(host) or rules._is_address(host, Arrived(local))) is fine


async def test_hosts_and_origins_that_are_allowed() -> None:
    config = config_for("http://127.0.0.1:9", CHAT, allowed_hosts=("*",), cors_origins=("https://*.example.org",))
    async with gate(config) as entrance:
        for origin, fine in (("https://a.example.org", True), ("https://a.example.org.evil.example", False)):
            sent = asked("/v1/models", f"origin: {origin}", host="evil.example", method="GET")
            answered = await raw_exchange(entrance.port, sent)
            assert status(answered) == (200 if fine else 403)
            assert (b"access-control-allow-origin: " + origin.encode() in answered.lower()) is fine


async def test_with_keys_the_rules_are_not_needed() -> None:
    config = config_for("http://127.0.0.1:9", CHAT, keys=(Secret("k"),), allowed_hosts=())
    lines = ["authorization: Bearer k", f"origin: {EVIL}", "sec-fetch-site: cross-site"]
    async with gate(config) as entrance:
        assert (
            status(await raw_exchange(entrance.port, asked("/v1/models", *lines, host="x.example", method="GET")))
            == 200
        )
        assert (
            status(await raw_exchange(entrance.port, asked("/v1/models", *lines[1:], host="x.example", method="GET")))
            == 401
        )


async def test_health_is_answered_to_everybody() -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as entrance:
        answered = await raw_exchange(
            entrance.port, asked("/health", f"origin: {EVIL}", host="evil.example", method="GET")
        )
    assert status(answered) == 200


async def test_the_command_applies_them_too() -> None:
    config = config_for("http://127.0.0.1:9", CHAT, port=0, allowed_hosts=())
    async with running(config) as up, ClientSession() as session:
        async with session.get(up.url + "/v1/models") as response:
            assert response.status == 200
        async with session.get(up.url + "/v1/models", headers={"host": "evil.example"}) as response:
            assert response.status == 403
            assert response.headers["server"] == "dragoman"


async def test_an_embedded_gateway_applies_them_below_its_prefix_only() -> None:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", hello)
    setup(app, config_for("http://127.0.0.1:9", CHAT), prefix="/llm")
    async with served(app) as (url, _), ClientSession(headers={"host": "evil.example"}) as session:
        assert (await session.get(url)).status == 200
        assert (await session.get(url + "/llm/v1/models")).status == 403
        assert (await session.get(url + "/llm/v1/models", headers={"host": "x"})).status == 200
