"""The client's response: any content type while it arrives, JSON whole, and what becomes of a reply that breaks off."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman.dialects.openai.forwarded_events import ForwardedEvents
from dragoman_server.config.provider import Auth, Secret
from support.gateways import config_for, gate, until, with_limits
from support.sockets import Close, ScriptedServer, Send, Stall, Step, answer, chunk, head, stream

CHAT = Dialect.CHAT
EVENT = b'data: {"type":"x"}\n\n'


async def fetched(*script: Step, path: str = "audio/speech", limits: Any = None, **server: Any) -> tuple[Any, bytes]:
    """The response and its body. Raises ClientError for a body that breaks off."""
    async with ScriptedServer(list(script)) as upstream:
        config = with_limits(config_for(upstream.url, CHAT, **server), **(limits or {}))
        async with (
            gate(config) as entrance,
            asyncio.timeout(30),
            entrance.session.post(f"{entrance.url}/v1/{path}", json={"model": "m"}) as response,
        ):
            return response, await response.read()


@pytest.mark.parametrize("content_type", ["audio/mpeg", "text/plain; charset=utf-8", "application/octet-stream"])
async def test_bytes_are_unchanged_and_have_their_length(content_type: str) -> None:
    body = bytes(range(256)) * 1000
    response, received = await fetched(*answer(200, body, content_type=content_type))
    assert received == body
    assert response.headers["content-type"] == content_type
    assert response.headers["content-length"] == str(len(body))


async def test_a_reply_without_a_type_or_with_an_unsendable_one_is_bytes() -> None:
    for headers in ([], [("content-type", "a\xe9b")], [("content-type", "a" * 300)]):
        response, received = await fetched(Send(head(200, [("content-length", "2"), *headers]) + b"ok"))
        assert (response.headers["content-type"], received) == ("application/octet-stream", b"ok")


async def test_json_that_is_no_object_is_unchanged() -> None:
    for body in (b"[1, 2]", b"not json", b'{"usage": 1}'):
        assert (await fetched(*answer(200, body), path="rerank"))[1] == body


async def test_long_json_is_an_error() -> None:
    response, body = await fetched(*answer(200, b'"' + b"x" * 2000 + b'"'), limits={"reply_body": 1000})
    assert response.status == 502
    assert b"reply_body" in body


async def test_events_pass_while_they_arrive() -> None:
    response, body = await fetched(*stream([EVENT, EVENT]), path="completions")
    assert body == EVENT * 2
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-accel-buffering"] == "no"


async def test_the_reply_ends_with_done_even_if_the_upstream_does_not() -> None:
    _, body = await fetched(*stream([EVENT, b"data: [DONE]\n\n"], end=False), Stall(), path="completions")
    assert body == EVENT + b"data: [DONE]\n\n"


async def test_events_that_break_off_end_in_an_error() -> None:
    _, body = await fetched(*stream([EVENT], end=False), Close(), path="completions")
    assert body.startswith(EVENT)
    assert b'"error"' in body
    assert b"upstream connection broke" in body


@pytest.mark.parametrize("last", [False, True], ids=["then more", "without its end"])
async def test_an_event_about_the_gateways_own_key_is_none_about_the_clients(last: bool) -> None:
    error = b'data: {"error":{"message":"Incorrect API key provided: sk-1","code":"invalid_api_key"}}'
    events = [EVENT, error] if last else [EVENT, error + b"\n\n", EVENT]
    async with ScriptedServer(stream(events)) as upstream:
        for auth in (Auth.CONFIGURED, Auth.PASSTHROUGH):
            config = config_for(upstream.url, CHAT)
            key = Secret("sk-1") if auth is Auth.CONFIGURED else None
            provider = replace(config.providers["up"], api_key=key, auth=auth)
            async with (
                gate(replace(config, providers={"up": provider})) as entrance,
                asyncio.timeout(30),
                entrance.session.post(
                    f"{entrance.url}/v1/completions", json={"model": "m"}, headers={"authorization": "Bearer k"}
                ) as response,
            ):
                body = await response.read()
                (receipt,) = entrance.gateway.receipts.newest()
            assert body.startswith(EVENT)
            if auth is Auth.CONFIGURED:
                assert b"the provider up refused the credential that this gateway has for it" in body
                assert b"API key" not in body
                assert body.count(EVENT) == 1
                assert receipt.ended == "failed"
            else:
                assert b"Incorrect API key provided" in body


async def test_bytes_that_break_off_break_off_for_the_client() -> None:
    fields = [("content-type", "audio/mpeg"), ("transfer-encoding", "chunked")]
    with pytest.raises(aiohttp.ClientError):
        await fetched(Send(head(200, fields) + chunk(b"abc")), Close())


async def test_a_reply_that_breaks_off_before_its_first_byte_is_an_error() -> None:
    response, body = await fetched(Send(head(200, [("content-type", "audio/mpeg"), ("content-length", "3")])), Close())
    assert response.status == 502
    assert b"upstream connection broke" in body


async def test_an_upstream_that_pauses_for_too_long_is_cut() -> None:
    fields = [("content-type", "audio/mpeg"), ("content-length", "30")]
    with pytest.raises(aiohttp.ClientError):
        await fetched(Send(head(200, fields) + b"abc"), Stall(), timeouts=Timeouts(idle=0.3))
    response, body = await fetched(Stall(), timeouts=Timeouts(first_byte=0.3))
    assert response.status == 504
    assert b"first_byte" in body


async def test_a_client_that_does_not_read_pauses_the_upstream() -> None:
    size = 200 * 2**20
    script: list[Step] = [Send(head(200, [("content-type", "audio/mpeg"), ("content-length", str(size))]))]
    script += [Send(b"x" * 2**20)] * 200
    async with ScriptedServer(script) as server, gate(config_for(server.url, CHAT)) as entrance:
        async with entrance.session.post(f"{entrance.url}/v1/audio/speech", json={"model": "m"}) as response:
            (receipt,) = entrance.gateway.receipts._filed.values()
            await asyncio.sleep(0.5)
            assert receipt.ended == "open"
            assert response.content.total_bytes < size
            response.close()
        await until(lambda: receipt.ended == "abandoned")


async def test_a_defect_in_a_reply_ends_it_in_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def feed(self: ForwardedEvents, data: bytes) -> bytes:
        raise KeyError("canary")

    monkeypatch.setattr(ForwardedEvents, "feed", feed)
    _, body = await fetched(*stream([EVENT]), path="completions")
    assert body.count(b"HTTP/1.1") == 0
    assert b'"error"' in body
    assert b"canary" not in body
    assert "failed by a defect" in caplog.text
