"""Same dialect on both sides: what the client wrote arrives, and what the upstream wrote arrives, byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from support.gateways import ALL, CHAT, CROSS, MESSAGES, config_for, gate
from support.samples import dump, reply, text_stream
from support.sockets import LAST_CHUNK, Drip, ScriptedServer, Send, Step, answer, chunk, head, sse_head, stream

BOTH = pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
ODD = (
    b'{ "stream" : %s,\r\n\t"x_unknown": [1.0, 1e2, 0.10, -0, 12345678901234567890],\n '
    b'"messages":[{"content":"caf\\u00e9 '
    b'\\/ \xf0\x9f\x91\x8b \\ud83d\\udc4b \\"model\\": \\"x\\"","role":"user"}]  ,"max_tokens":100, "temperature":1.0,'
    b'"metadata":{"model":"inner"},"model" :\t"%s" , "last":null}\n '
)
"""Odd spacing, order, escapes and numbers, fields that no one knows, and `model` in three more places."""
WHOLE = (
    b' {"id":"r1","object":"chat.completion","created":1,"choices":[{"message":{"content":"Hi","role":"assistant"},'
    b'"finish_reason":"stop","index":0}],"type":"message","role":"assistant","stop_reason":"end_turn",'
    b'"usage":{"input_tokens":1,"output_tokens":2,"cost":0.10},  "model" : "up\\u0073tream",'
    b' "nested":{"model":"x"}, "n":1.50,"t":"\xe6\x9d\xb1 \\u4eac \\/",'
    b'"content":[{"type":"text","text":"\\"model\\":\\"y\\""}]}\r\n'
)
"""A reply in both dialects, with odd spacing, order, escapes and numbers."""


def _config(url: str, dialect: Dialect, **knobs: str) -> Config:
    config = config_for(url, dialect)
    routes = [Route("renamed", "up", "vendor/model-7", knobs=knobs), *config.routes]
    return replace(config, routes=routes)


@BOTH
@pytest.mark.parametrize("streamed", [b"false", b"true"])
async def test_request_bytes_arrive_untouched(dialect: Dialect, streamed: bytes) -> None:
    body = ODD % (streamed, b"m")
    script = stream(text_stream(dialect)) if streamed == b"true" else answer(200, WHOLE)
    async with (
        ScriptedServer(script) as server,
        gate(_config(server.url, dialect)) as entrance,
        entrance.post(dialect, body) as response,
    ):
        assert response.status == 200
        await response.read()
    assert server.requests[0].body == body


@BOTH
@pytest.mark.parametrize("streamed", [b"false", b"true"])
async def test_a_renamed_model_changes_that_value_only(dialect: Dialect, streamed: bytes) -> None:
    script = stream(text_stream(dialect)) if streamed == b"true" else answer(200, WHOLE)
    async with (
        ScriptedServer(script) as server,
        gate(_config(server.url, dialect)) as entrance,
        entrance.post(dialect, ODD % (streamed, b"renamed")) as response,
    ):
        assert response.status == 200
        await response.read()
    assert server.requests[0].body == ODD % (streamed, b"vendor/model-7")


@BOTH
async def test_reply_bytes_arrive_untouched(dialect: Dialect) -> None:
    async with ScriptedServer(answer(200, WHOLE)) as server, gate(_config(server.url, dialect)) as entrance:
        async with entrance.post(dialect, model="m") as response:
            assert await response.read() == WHOLE
        async with entrance.post(dialect, model="renamed") as response:
            assert await response.read() == WHOLE.replace(b'"up\\u0073tream"', b'"renamed"')


ODD_FRAMES = {
    CHAT: (
        b'data:{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"\\u6771 \xe4\xba\xac"},'
        b'"finish_reason":null}], "model":"up" }\n\n'
        b': a comment\n\nid: 7\nretry: 10\nevent: odd\ndata: {"model" : "up","choices":[],\ndata: "x": 1.50}\n\n'
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"model":"up","usage":null}\r\n\r\n'
        b"data: [DONE]\n\n"
    ),
    MESSAGES: (
        b'event:message_start\ndata: {"message":{"usage":{"input_tokens":1,"output_tokens":1},"model" :"up","id":"m", '
        b'"content":[],"role":"assistant","type":"message"},"type":"message_start"}\n\n'
        b'event: novelty\ndata: {"type":"novelty","model":"x", "f":1.50}\n\n: comment\n\n'
        b'event: content_block_start\r\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":""}}\r\n\r\n'
        b'event: content_block_delta\ndata: {"index":0,'
        b'"delta":{"type":"text_delta","text":"\\u6771 \xe4\xba\xac"},"type":"content_block_delta"}\n\n'
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
        b'"usage":{"output_tokens":2}}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    ),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
async def test_stream_bytes_arrive_untouched(dialect: Dialect, size: int) -> None:
    """However they are cut into chunks, and only the model's own name is put back if it was renamed."""
    data = ODD_FRAMES[dialect]
    pieces = [chunk(data[at : at + size]) for at in range(0, len(data), size)]
    script: list[Step] = [Send(sse_head()), Drip(b"".join(pieces), 4096), Send(LAST_CHUNK)]
    async with ScriptedServer(script) as server, gate(_config(server.url, dialect)) as entrance:
        assert await entrance.stream(dialect, model="m") == data
        renamed = await entrance.stream(dialect, model="renamed")
    expected = data.replace(b'"model":"up"', b'"model":"renamed"').replace(b'"model" : "up"', b'"model" : "renamed"')
    assert renamed == expected.replace(b'"model" :"up"', b'"model" :"renamed"')


@BOTH
async def test_the_upstreams_own_model_name_is_reported_where_the_knob_demands_it(dialect: Dialect) -> None:
    scripts = [answer(200, WHOLE), stream([ODD_FRAMES[dialect]])]
    async with (
        ScriptedServer(*scripts) as server,
        gate(_config(server.url, dialect, echo_model="upstream")) as entrance,
    ):
        async with entrance.post(dialect, model="renamed") as response:
            assert await response.read() == WHOLE
        assert await entrance.stream(dialect, model="renamed") == ODD_FRAMES[dialect]


@BOTH
@pytest.mark.parametrize("status", [201, 207])
async def test_statuses_of_success_pass_through(dialect: Dialect, status: int) -> None:
    script = [Send(head(status, [("content-type", "application/json"), ("content-length", str(len(WHOLE)))]) + WHOLE)]
    async with (
        ScriptedServer(script) as server,
        gate(_config(server.url, dialect)) as entrance,
        entrance.post(dialect) as response,
    ):
        assert (response.status, await response.read()) == (status, WHOLE)


@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_betas_go_with_the_body_they_belong_to(client: Dialect, upstream: Dialect) -> None:
    """T-44: in passthrough, with their header and query; across dialects with neither."""
    sent = {
        "anthropic-beta": "one-2025-01-01,two-2026-01-01",
        "anthropic-version": "2023-06-01",
        "idempotency-key": "k",
    }
    async with (
        ScriptedServer(answer(200, dump(reply(upstream)))) as server,
        gate(config_for(server.url, upstream)) as entrance,
        entrance.post(client, query="?beta=true&trace=1", headers=sent) as response,
    ):
        assert response.status == 200
    (received,) = server.requests
    both = client is upstream is MESSAGES
    assert received.target.endswith("/v1/messages?beta=true") == both
    assert "trace" not in received.target
    assert received.headers.get("anthropic-beta") == (sent["anthropic-beta"] if both else None)
    assert received.headers.get("idempotency-key") == ("k" if client is upstream is CHAT else None)
    assert ("anthropic-version" in received.headers) == (upstream is MESSAGES)


@pytest.mark.parametrize(("client", "upstream"), CROSS)
async def test_across_dialects_the_model_is_the_one_asked_for(client: Dialect, upstream: Dialect) -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(upstream))), stream(text_stream(upstream))) as server,
        gate(_config(server.url, upstream)) as entrance,
    ):
        async with entrance.post(client, model="renamed") as response:
            assert (await response.json())["model"] == "renamed"
        assert b'"model":"renamed"' in await entrance.stream(client, model="renamed")
    assert [json.loads(received.body)["model"] for received in server.requests] == ["vendor/model-7"] * 2
