"""Replies of an upstream of the client's dialect that are not of that dialect: an error in the client's envelope."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from dragoman.dialects import Dialect
from support.directions import ask
from support.gateways import config_for, gate
from support.samples import TEXT, dump, reply, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, answer, chunk, sse_head, stream

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
EACH = pytest.mark.parametrize("dialect", [CHAT, MESSAGES, RESPONSES], ids=str)
PAGE = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


async def asked(entrance: Any, dialect: Dialect, *, streamed: bool) -> tuple[int, str, bytes]:
    async with entrance.post(dialect, ask(dialect, stream=streamed)) as response:
        return response.status, response.content_type, await response.read()


def is_envelope(dialect: Dialect, body: bytes) -> bool:
    payload = json.loads(body)
    if dialect is MESSAGES and payload.get("type") != "error":
        return False
    return isinstance(payload["error"]["message"], str) and isinstance(payload["error"]["type"], str)


@EACH
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (502, PAGE),
        (503, b"upstream connect error or disconnect/reset before headers"),
        (409, b'{"detail":"Conflict"}'),
        (418, b'"teapot"'),
        (500, b""),
        (429, b'{"error":"slow down"}'),
    ],
)
async def test_a_foreign_error_body_becomes_the_clients_envelope_with_its_status(
    dialect: Dialect, streamed: bool, status: int, body: bytes
) -> None:
    script = answer(status, body, content_type="text/html", headers=[("retry-after", "7")])
    async with ScriptedServer(script) as server, gate(config_for(server.url, dialect)) as entrance:
        async with entrance.post(dialect, ask(dialect, stream=streamed)) as response:
            noted = await response.read()
            assert (response.status, response.content_type) == (status, "application/json")
            assert response.headers["retry-after"] == "7"
        assert is_envelope(dialect, noted)
        assert b"<html>" not in noted


@EACH
@pytest.mark.parametrize("body", [PAGE, b"", b"[]", b'"hi"', b"{", b"data: {}\n\n"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_reply_that_is_no_json_object_is_502(dialect: Dialect, body: bytes, streamed: bool) -> None:
    async with (
        ScriptedServer(answer(200, body)) as server,
        gate(config_for(server.url, dialect)) as entrance,
    ):
        status, form, noted = await asked(entrance, dialect, streamed=streamed)
    assert (status, form) == (502, "application/json")
    assert is_envelope(dialect, noted)


@EACH
@pytest.mark.parametrize("form", ["text/html", "text/plain", "application/octet-stream", "text/event-stream"])
@pytest.mark.parametrize("body", [PAGE, b"hello\n\nworld\n\n", b"", b'{"choices":[]}'])
async def test_a_stream_request_answered_with_no_event_stream_is_502(dialect: Dialect, form: str, body: bytes) -> None:
    async with (
        ScriptedServer(answer(200, body, content_type=form)) as server,
        gate(config_for(server.url, dialect)) as entrance,
    ):
        status, _, noted = await asked(entrance, dialect, streamed=True)
    assert status == 502
    assert is_envelope(dialect, noted)


@EACH
@pytest.mark.parametrize("size", [1, 7, 100, 1_000_000])
@pytest.mark.parametrize("bad", [b"data: {oops\n\n", b"data: <html>\n\n", b"da\xffta: {}\n\n"])
async def test_an_event_that_is_not_json_ends_in_an_in_band_error_however_it_comes(
    dialect: Dialect, size: int, bad: bytes
) -> None:
    good = text_stream(dialect)
    before = b"".join(good[:2])
    data = before + bad + b"".join(good[2:])
    pieces: list[Step] = [Send(chunk(data[at : at + size])) for at in range(0, len(data), size)]
    async with (
        ScriptedServer([Send(sse_head()), *pieces, Send(LAST_CHUNK)]) as server,
        gate(config_for(server.url, dialect)) as entrance,
    ):
        status, _, noted = await asked(entrance, dialect, streamed=True)
    assert status == 200
    assert noted.startswith(before)
    (error,) = noted[len(before) :].split(b"\n\n")[:-1]
    payload = json.loads(error.partition(b"data: ")[2])
    assert payload.get("error") or payload["response"]["error"]


@EACH
@pytest.mark.parametrize("cut", [8, 40])
async def test_a_stream_cut_within_its_first_frame_is_502(dialect: Dialect, cut: int) -> None:
    async with (
        ScriptedServer(stream([text_stream(dialect)[0][:cut]])) as server,
        gate(config_for(server.url, dialect)) as entrance,
    ):
        status, _, noted = await asked(entrance, dialect, streamed=True)
    assert status == 502
    assert is_envelope(dialect, noted)


async def test_the_sdks_see_a_whole_reply_to_a_stream_request_and_no_empty_success() -> None:
    messages: Any = [{"role": "user", "content": "Hi"}]
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(config_for(server.url, CHAT)) as entrance,
        openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="k", max_retries=0) as chat,
    ):
        parts = [part async for part in await chat.chat.completions.create(model="m", messages=messages, stream=True)]
        assert "".join(part.choices[0].delta.content or "" for part in parts) == TEXT
    async with (
        ScriptedServer(answer(200, dump(reply(MESSAGES)))) as server,
        gate(config_for(server.url, MESSAGES)) as entrance,
        anthropic.AsyncAnthropic(base_url=entrance.url, api_key="k", max_retries=0) as claude,
        claude.messages.stream(model="m", messages=messages, max_tokens=9) as events,
    ):
        assert await events.get_final_text() == TEXT


async def test_a_200_that_is_no_json_is_an_error_to_the_chat_sdk() -> None:
    messages: Any = [{"role": "user", "content": "Hi"}]
    async with (
        ScriptedServer(answer(200, b"Service is starting")) as server,
        gate(config_for(server.url, CHAT)) as entrance,
        openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="k", max_retries=0) as chat,
    ):
        for streamed in (False, True):
            with pytest.raises(openai.InternalServerError) as raised:
                await chat.chat.completions.create(model="m", messages=messages, stream=streamed)
            assert raised.value.status_code == 502
