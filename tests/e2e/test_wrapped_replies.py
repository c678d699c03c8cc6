"""Replies that are wrapped in another way than was requested: what counts are their first bytes, not their label."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.gateway import DIRECTIONS
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config, Models, Server
from support.gateways import config_for, gate
from support.samples import TEXT, dump, error_frame, judge, messages_frame, reply, text_stream
from support.sockets import ScriptedServer, Send, Step, answer, head
from support.transports import make

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
ROWS = pytest.mark.parametrize("row", list(DIRECTIONS.values()), ids=str)
TRANSPORTS = pytest.mark.parametrize("transport", ["raw", "aiohttp"])
LABELS = ["application/json", "text/event-stream", "text/plain; charset=utf-8", ""]


def labelled(body: bytes, label: str, status: int = 200, *headers: tuple[str, str]) -> list[Step]:
    fields = [("content-type", label)] if label else []
    return [Send(head(status, [*fields, ("content-length", str(len(body))), *headers]) + body)]


def stated(row: Any, body: bytes, *, streamed: bool) -> str:
    client = row.client.dialect
    if streamed:
        return judge(client, body, own=not row.passthrough).text
    payload = json.loads(body)
    if client is CHAT:
        return str(payload["choices"][0]["message"]["content"])
    parts = payload["content"] if client is MESSAGES else payload["output"][0]["content"]
    return "".join(part["text"] for part in parts)


async def asked(config: Config, client: Dialect, transport: str = "raw", **fields: Any) -> tuple[int, Any, bytes]:
    async with (
        gate(config, upstream=make(transport)) as entrance,
        entrance.post(client, **fields) as response,
    ):
        return response.status, response.headers, await response.read()


@ROWS
@pytest.mark.parametrize("label", LABELS)
@TRANSPORTS
async def test_a_stream_in_place_of_a_complete_reply_is_joined(row: Any, label: str, transport: str) -> None:
    """T-25."""
    client, upstream = row.client.dialect, row.upstream.dialect
    async with ScriptedServer(labelled(b"".join(text_stream(upstream, counted=False)), label)) as server:
        status, headers, body = await asked(config_for(server.url, upstream), client, transport)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert stated(row, body, streamed=False) == TEXT


@ROWS
@pytest.mark.parametrize("label", LABELS)
@TRANSPORTS
async def test_a_complete_reply_in_place_of_a_stream_is_streamed(row: Any, label: str, transport: str) -> None:
    client, upstream = row.client.dialect, row.upstream.dialect
    async with ScriptedServer(labelled(dump(reply(upstream)), label)) as server:
        status, headers, body = await asked(config_for(server.url, upstream), client, transport, stream=True)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert stated(row, body, streamed=True) == TEXT


@ROWS
@pytest.mark.parametrize("label", LABELS)
async def test_the_label_of_a_stream_does_not_count(row: Any, label: str) -> None:
    client, upstream = row.client.dialect, row.upstream.dialect
    async with ScriptedServer(labelled(b"".join(text_stream(upstream, counted=False)), label)) as server:
        status, _, body = await asked(config_for(server.url, upstream), client, stream=True)
    assert status == 200
    assert stated(row, body, streamed=True) == TEXT


@ROWS
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_compressed_reply_of_the_other_form_is_read(row: Any, streamed: bool) -> None:
    client, upstream = row.client.dialect, row.upstream.dialect
    body = dump(reply(upstream)) if streamed else b"".join(text_stream(upstream, counted=False))
    script = labelled(gzip.compress(body, mtime=0), "text/plain", 200, ("content-encoding", "gzip"))
    async with ScriptedServer(script) as server:
        status, _, written = await asked(config_for(server.url, upstream), client, stream=streamed)
    assert status == 200
    assert stated(row, written, streamed=streamed) == TEXT


@ROWS
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"choices": "x", "content": 5, "output": 5}'])
async def test_an_answer_that_cannot_be_read_is_not_requested_again(row: Any, streamed: bool, body: bytes) -> None:
    """T-25. Not by the gateway, and not by the client's SDK: the upstream charges for each answer."""
    client, upstream = row.client.dialect, row.upstream.dialect
    if row.passthrough and not streamed and body.startswith(b'{"'):
        return  # any object is forwarded
    if upstream is Dialect.GENERATE and streamed and body.startswith(b'{"'):
        return  # it may be a chunk of a stream, which was cut then
    async with ScriptedServer(labelled(body, "application/json")) as server:
        provider = Provider("up", upstream, server.url)
        routes = [Route("*", targets=(RouteTarget("up"),))]
        retries = RetryOptions(backoff=0.01, backoff_max=0.02)
        config = Config(
            {"up": provider}, routes=routes, models=Models(unknown="pass"), retries=retries, server=Server()
        )
        status, headers, _ = await asked(config, client, stream=streamed)
        assert len(server.requests) == 1
    assert status >= 500
    assert headers["x-should-retry"] == "false"


@ROWS
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("form", ["json", "event", "json as event stream"])
async def test_an_error_under_a_success_status_is_an_error_and_falls_back(row: Any, streamed: bool, form: str) -> None:
    client, upstream = row.client.dialect, row.upstream.dialect
    frame = (
        error_frame(upstream) if upstream is not RESPONSES else messages_frame("error", error={"message": "too much"})
    )
    body = frame if form == "event" else frame.partition(b"data: ")[2].strip()
    label = "application/json" if form == "json" else "text/event-stream"
    works = b"".join(text_stream(upstream, counted=False)) if streamed else dump(reply(upstream))
    async with ScriptedServer(labelled(body, label)) as server, ScriptedServer(labelled(works, "")) as other:
        status, _, written = await asked(config_for(server.url, upstream), client, stream=streamed)
        if form != "event" or not (row.passthrough and streamed):  # an error event is forwarded
            assert status >= 400
        assert b"too much" in written
        providers = {"a": Provider("a", upstream, server.url), "b": Provider("b", upstream, other.url)}
        routes = [Route("*", targets=(RouteTarget("a"), RouteTarget("b")))]
        config = Config(providers, routes=routes, models=Models(unknown="pass"), server=Server())
        status, _, written = await asked(config, client, stream=streamed)
    assert status == 200
    assert stated(row, written, streamed=streamed) == TEXT


@ROWS
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("before", [b"", b": PROCESSING\n\n", b"\n\nid: 1\nretry: 5\n", b'data: {"type":"ping"}\n\n'])
async def test_an_error_status_with_an_event_stream_keeps_its_message(row: Any, streamed: bool, before: bytes) -> None:
    client, upstream = row.client.dialect, row.upstream.dialect
    error = before + b'event: error\ndata: {"error":\ndata: {"message": "too hot", "type": "x"}}\n\n'
    async with ScriptedServer(labelled(error, "text/event-stream", 422)) as server:
        status, headers, body = await asked(config_for(server.url, upstream), client, stream=streamed)
    assert status in (400, 422)
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["error"]["message"] == "too hot"


async def test_an_answer_of_two_hundred_thousand_words_is_streamed() -> None:
    body = reply(CHAT)
    body["choices"][0]["message"]["content"] = "word " * 200_000
    async with ScriptedServer(answer(200, dump(body))) as server:
        for client in (CHAT, MESSAGES):
            status, _, written = await asked(config_for(server.url, CHAT), client, stream=True)
            assert status == 200
            assert stated(DIRECTIONS[client, CHAT], written, streamed=True) == "word " * 200_000
