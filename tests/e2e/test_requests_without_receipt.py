"""A request that reaches no endpoint, or one without receipts, leaves one line of the log and a number."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from aiohttp import ClientSession, web

from dragoman.dialects import Dialect
from dragoman_server.app import setup
from dragoman_server.config.provider import Secret
from dragoman_server.config.websocket import WebSocketOptions
from dragoman_server.observability.logs import JsonFormatter
from dragoman_server.observability.prometheus import exposition
from dragoman_server.observability.rejections import LINES_MAX
from dragoman_server.proxy.gateway import Gateway
from support.exposed import read_exposition, total
from support.gateways import config_for, gate, served
from support.named_keys import keyed, made
from support.samples import reply
from support.sockets import ScriptedServer, answer
from support.websockets import HANDSHAKE, speaking

CHAT, MESSAGES, RESPONSES, *_ = Dialect
AWAY = "http://127.0.0.1:9"
KEY = "sk-a-key-of-the-client-12345"


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")


def counted(gateway: Gateway, **labels: str) -> float:
    page = read_exposition(exposition(gateway.metrics.alone()))
    return total(page, "dragoman_rejected_requests_total", **labels)


UNKNOWN = [
    ("GET", "/v1/modelz", 404, "path"),
    ("POST", "/chat/completions", 404, "path"),
    ("POST", "/v1/v1/messages", 404, "path"),
    ("PROPFIND", "/", 405, "method"),
    ("GET", "/favicon.ico", 404, "path"),
    ("GET", "/v1/messages", 405, "method"),
    ("DELETE", "/v1/models", 405, "method"),
    ("GET", "/v1/responses", 405, "method"),
    ("POST", "/metrics", 405, "method"),
    ("PUT", "/v1/embeddings", 405, "method"),
    ("HEAD", "/v1/nothing", 404, "path"),
]


@pytest.mark.parametrize("prefix", ["", "/llm"])
@pytest.mark.parametrize(("method", "path", "status", "reason"), UNKNOWN)
async def test_an_unknown_path_or_method(
    method: str, path: str, status: int, reason: str, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    if prefix and path == "/":
        pytest.skip("the application's own")
    config = config_for(AWAY, CHAT)
    async with gate(config) as entrance, ClientSession() as session:
        gateway, url = entrance.gateway, entrance.url
        app = web.Application()
        if prefix:
            gateway = setup(app, config, prefix=prefix)
        async with served(app) as (own, _):
            url = own + prefix if prefix else url
            async with session.request(method, f"{url}{path}?key={KEY}") as response:
                assert response.status == status
                own_id = response.headers["x-dragoman-request-id"]
        assert (counted(gateway), counted(gateway, reason=reason)) == (1, 1)
    (line,) = caplog.records
    text = line.getMessage()
    assert line.levelno == logging.INFO
    assert text.startswith(f"{own_id} {method} {prefix}{path} rejected status={status}: ")
    assert ("there is no" if status == 404 else "is not allowed on") in text
    assert KEY not in text
    shown = json.loads(JsonFormatter().format(line))
    assert (shown["event"], shown["ended"], shown["status"]) == ("request", "rejected", status)
    assert (shown["method"], shown["path"], shown["request_id"]) == (method, prefix + path, own_id)


async def test_a_path_is_quoted_cut_and_without_keys(caplog: pytest.LogCaptureFixture) -> None:
    key, record = made()
    async with gate(keyed(AWAY, CHAT, record, keys=(Secret("a-plain-word-as-key"),))) as entrance:
        for path in (f"/v1/{key}", "/v1/a-plain-word-as-key", "/v1/x%0aforged%1b[31m", "/" + "x" * 5000):
            async with entrance.session.get(entrance.url + path) as response:
                assert response.status == 404
    assert len(caplog.records) == 4
    for line in caplog.records:
        text = line.getMessage()
        assert key not in text
        assert "a-plain-word-as-key" not in text
        assert text.isprintable()
        assert len(text) < 1000


async def test_a_flood_is_counted_and_most_of_its_lines_are_not_written(caplog: pytest.LogCaptureFixture) -> None:
    async with gate(config_for(AWAY, CHAT)) as entrance:
        for number in range(LINES_MAX + 7):
            async with entrance.session.get(f"{entrance.url}/{number}") as response:
                assert response.status == 404
        assert counted(entrance.gateway, reason="path") == LINES_MAX + 7
    assert len(caplog.records) == LINES_MAX


async def test_other_paths_of_an_application_are_its_own(caplog: pytest.LogCaptureFixture) -> None:
    app = web.Application()
    first = setup(app, config_for(AWAY, CHAT), prefix="/one")
    second = setup(app, config_for(AWAY, CHAT), prefix="/two")
    async with served(app) as (url, _), ClientSession() as session:
        for path in ("/other", "/two/nothing"):
            async with session.get(url + path) as response:
                assert response.status == 404
        assert (counted(first), counted(second)) == (0, 1)
    assert len(caplog.records) == 1


WITHOUT_KEY: list[tuple[str, str, Any]] = [
    ("GET", "/v1/models", None),
    ("GET", "/metrics", None),
    ("GET", "/v1/dragoman/receipts/req_1", None),
    ("GET", "/v1/dragoman/captures", None),
    ("POST", "/v1/dragoman/explain", {}),
    ("POST", "/v1/messages/count_tokens", {}),
    ("POST", "/v1/responses/input_tokens", {}),
    ("GET", "/v1/responses/resp_1", None),
    ("GET", "/v1/responses", None),
]


@pytest.mark.parametrize(("method", "path", "body"), WITHOUT_KEY)
async def test_a_wrong_key_at_the_other_endpoints(
    method: str, path: str, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_for(AWAY, CHAT, keys=(Secret("k"),))
    headers = {"authorization": f"Bearer {KEY}"} | (HANDSHAKE if path == "/v1/responses" else {})
    async with gate(config) as entrance:
        async with entrance.session.request(method, entrance.url + path, json=body, headers=headers) as response:
            assert response.status == 401
        assert counted(entrance.gateway, reason="authentication") == counted(entrance.gateway) == 1
    (line,) = caplog.records
    assert line.levelno == logging.INFO
    assert f" {method} {path} rejected status=401: invalid API key" in line.getMessage()
    assert KEY not in line.getMessage()


async def test_a_message_of_a_websocket_that_is_no_request(caplog: pytest.LogCaptureFixture) -> None:
    async with gate(config_for(AWAY, CHAT)) as entrance, speaking(entrance.url) as client:
        for message in ("{", '{"type": "nothing"}', '{"type": "response.create", "generate": false}'):
            await client.socket.send_str(message)
            assert (await client.event())["type"] == "error"
        assert counted(entrance.gateway, reason="invalid_request") == counted(entrance.gateway) == 3
    assert [line.levelno for line in caplog.records] == [logging.INFO] * 3
    assert all(" WebSocket /v1/responses rejected status=400: " in line.getMessage() for line in caplog.records)


async def test_a_handshake_that_is_not_accepted(caplog: pytest.LogCaptureFixture) -> None:
    config = config_for(AWAY, CHAT, websocket=WebSocketOptions(enabled=False))
    async with gate(config) as entrance:
        async with entrance.session.get(f"{entrance.url}/v1/responses", headers=HANDSHAKE) as response:
            assert response.status == 426
        assert counted(entrance.gateway) == 1
    (line,) = caplog.records
    assert "rejected status=426: this gateway has no WebSocket here" in line.getMessage()


async def test_requests_with_receipts_are_not_counted_twice(caplog: pytest.LogCaptureFixture) -> None:
    whole = answer(200, json.dumps(reply(CHAT)).encode())
    async with ScriptedServer(whole) as server, gate(config_for(server.url, CHAT)) as entrance:
        assert (await entrance.refusal(CHAT, b"{}"))[0] == 400
        async with entrance.post(CHAT) as response:
            assert response.status == 200
        assert counted(entrance.gateway) == 0
    assert len(caplog.records) == 2


async def test_a_limit_of_a_key_is_named_with_the_key(caplog: pytest.LogCaptureFixture) -> None:
    key, record = made("alice", requests_per_minute=1)
    headers = {"authorization": f"Bearer {key}"}
    async with gate(keyed(AWAY, CHAT, record), now=lambda: 1_795_000_000.0) as entrance:
        statuses = []
        for _ in range(2):
            async with entrance.session.get(f"{entrance.url}/v1/models", headers=headers) as response:
                statuses.append(response.status)
        assert statuses[1] == 429
        assert counted(entrance.gateway, reason="requests") == 1
    (line,) = [each for each in caplog.records if "/v1/models rejected" in each.getMessage()]
    assert (line.levelname, " rejected status=429 key=alice limit=requests: " in line.getMessage()) == ("INFO", True)
    fields = json.loads(JsonFormatter().format(line))
    assert (fields["key"], fields["limit"], fields["error"]) == ("alice", "requests", "rate_limit_exceeded")
