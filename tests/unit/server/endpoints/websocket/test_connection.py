"""Frames that are no request. The life of a connection is in tests/e2e."""

from __future__ import annotations

import aiohttp
import pytest

from dragoman.dialects import Dialect
from support.gateways import config_for, gate, until, with_limits
from support.samples import TEXT, text_stream
from support.sockets import ScriptedServer, stream
from support.websockets import speaking, text_of

CHAT, RESPONSES = Dialect.CHAT, Dialect.RESPONSES


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "invalid_json"),
        ('{"type":"response.create","stream_id":""}', "invalid_stream_id"),
        ('{"type":"response.create","stream_id":"a b"}', "invalid_stream_id"),
        ('{"type":"response.create","model":"m","input":"x","background":true}', None),
        ('{"type":"response.create","model":"m","input":7}', None),
        ('{"type":"response.create","model":"m","previous_response_id":7}', None),
        ('{"type":"response.cancel"}', None),
        ("{}", None),
    ],
)
async def test_a_malformed_frame_is_answered_with_an_error(message: str, code: str | None) -> None:
    async with (
        ScriptedServer(stream(text_stream(CHAT))) as server,
        gate(config_for(server.url, CHAT)) as opened,
        speaking(opened.url) as client,
    ):
        await client.socket.send_str(message)
        error = await client.event()
        assert (error["type"], error["status"], error["error"]["code"]) == ("error", 400, code)
        assert not server.requests
        assert text_of(await client.turn()) == TEXT


async def test_steering_is_answered_with_its_input() -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as opened, speaking(opened.url) as client:
        steer = {"previous_response_id": "resp_1", "input": "Stop that."}
        await client.socket.send_json({"type": "response.steer", **steer})
        event = await client.event()
        assert event["type"] == "response.steer.failed"
        assert event["steer"] == steer
        assert event["error"]["code"] == "steering_not_supported"


async def test_a_binary_message_closes_the_connection() -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as opened, speaking(opened.url) as client:
        await client.socket.send_bytes(b"{}")
        assert await client.closed() == aiohttp.WSCloseCode.UNSUPPORTED_DATA
        await until(lambda: not opened.gateway.services.websockets)


async def test_a_message_that_is_too_long_closes_the_connection() -> None:
    config = with_limits(config_for("http://127.0.0.1:9", CHAT), request_body=1000)
    async with gate(config) as opened, speaking(opened.url) as client:
        await client.create(input="x" * 2000)
        assert await client.closed() == aiohttp.WSCloseCode.MESSAGE_TOO_BIG


async def test_a_conversation_that_is_too_long_is_rejected() -> None:
    """As a POST of it would be: a chain of small frames cannot exceed the limit of a body."""
    async with (
        ScriptedServer(stream(text_stream(CHAT))) as server,
        gate(with_limits(config_for(server.url, CHAT), request_body=2000)) as opened,
        speaking(opened.url) as client,
    ):
        events = await client.turn(input="x" * 1500)
        assert events[-1]["type"] == "response.completed"
        (error,) = await client.turn(input="y" * 1500, previous_response_id=events[-1]["response"]["id"])
        assert error["status"] == 413
