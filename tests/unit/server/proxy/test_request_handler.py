"""Forwarded endpoints at the gateway: keys, limits, receipts, metrics, logs and the end of the gateway."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import aiohttp
import openai
import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.forwarded_endpoints import FORMS, FORWARDED
from dragoman_server.observability.exchange_record import ExchangeRecord
from dragoman_server.observability.prometheus import exposition
from dragoman_server.proxy.hooks import Hooks
from support.forms import FORM_TYPE, form, part
from support.forwarding import ALIAS, MODEL, forwarding
from support.gateways import Gate, config_for, gate, until
from support.named_keys import keyed, made, spent
from support.sockets import ScriptedServer, Send, Stall, Step, answer, head

EMBEDDED = b'{"object":"list","data":[],"model":"m","usage":{"prompt_tokens":40,"total_tokens":40}}'
BODY = {"model": ALIAS, "input": "text"}


def post(entrance: Gate, path: str, body: Any = BODY, **headers: str) -> Any:
    return entrance.session.post(f"{entrance.url}/v1/{path}", json=body, headers=headers)


@pytest.mark.few
@pytest.mark.parametrize("path", FORWARDED)
async def test_each_endpoint_needs_a_key(path: str) -> None:
    key, record = made()
    async with forwarding(record, key=key) as there:
        for headers in ({}, {"authorization": "Bearer drg_wrong"}):
            async with post(there.entrance, path, **headers) as response:
                assert response.status == 401
                assert (await response.json())["error"]["code"] == "invalid_api_key"
        assert not there.requests


async def test_no_key_and_no_other_header_of_the_client_goes_upstream() -> None:
    key, record = made()
    data = form(part("model", b"m"), part("file", b"x", filename="a"))
    async with (
        ScriptedServer(answer(200, EMBEDDED, headers=[("set-cookie", "a=b"), ("x-request-id", "req_up")])) as server,
        gate(keyed(server.url, Dialect.CHAT, record)) as entrance,
    ):
        sent = {"authorization": f"Bearer {key}", "cookie": "a=b", "x-stainless-lang": "python", "x-forwarded-for": "1"}
        async with post(entrance, "embeddings", **sent) as response:
            assert response.status == 200
            assert await response.read() == EMBEDDED
            assert response.headers["x-request-id"] == "req_up"
            assert "set-cookie" not in response.headers
        async with entrance.session.post(
            f"{entrance.url}/v1/audio/transcriptions", data=data, headers={**sent, "content-type": FORM_TYPE}
        ) as response:
            assert response.status == 200
    assert len(server.requests) == 2
    for request in server.requests:
        assert key.encode() not in request.head
        assert not {"cookie", "x-stainless-lang", "x-forwarded-for", "authorization"} & set(request.headers)


async def test_limits_of_a_key_count_what_the_reply_reports() -> None:
    key, record = made(requests_per_minute=2, daily_tokens=10**6)
    async with (
        ScriptedServer(answer(200, EMBEDDED)) as server,
        gate(keyed(server.url, Dialect.CHAT, record)) as entrance,
    ):
        for left in (1, 0):
            async with post(entrance, "embeddings", authorization=f"Bearer {key}") as response:
                assert response.status == 200
                assert response.headers["x-ratelimit-remaining-requests"] == str(left)
        assert (await spent(entrance, record))["daily_tokens"] == 80
        async with post(entrance, "rerank", authorization=f"Bearer {key}") as response:
            assert response.status == 429
            assert int(response.headers["retry-after"]) >= 1
        assert len(server.requests) == 2


async def test_open_requests_count_in_the_limit_of_a_key() -> None:
    key, record = made(concurrent_requests=1)
    script: list[Step] = [Send(head(200, [("content-type", "audio/mpeg"), ("transfer-encoding", "chunked")])), Stall()]
    async with ScriptedServer(script) as server, gate(keyed(server.url, Dialect.CHAT, record)) as entrance:
        first = asyncio.ensure_future(post(entrance, "audio/speech", authorization=f"Bearer {key}").__aenter__())
        await until(lambda: bool(server.requests))
        async with post(entrance, "embeddings", authorization=f"Bearer {key}") as response:
            assert response.status == 429
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await until(lambda: not entrance.gateway.services.open_requests)


async def test_a_key_is_limited_to_its_models() -> None:
    key, record = made(models=("other-*",))
    async with forwarding(record, key=key) as there:
        with pytest.raises(openai.PermissionDeniedError):
            await there.sdk.embeddings.create(model=ALIAS, input="x")
        with pytest.raises(openai.PermissionDeniedError):
            await there.sdk.audio.transcriptions.create(model=ALIAS, file=("a.mp3", b"x" * 10**6))
        with pytest.raises(openai.PermissionDeniedError):  # without a model, the upstream would choose one
            await there.sdk.moderations.create(input="x")
        assert not there.requests


async def test_the_exchange_is_in_receipt_record_metrics_and_log(caplog: pytest.LogCaptureFixture) -> None:
    records: list[ExchangeRecord[Any]] = []
    caplog.set_level(logging.INFO, "dragoman")
    async with (
        ScriptedServer(answer(200, EMBEDDED)) as server,
        gate(config_for(server.url, Dialect.RESPONSES), hooks=Hooks(on_end=records.append)) as entrance,
    ):
        async with post(entrance, "embeddings", {"model": "m", "input": "canary"}) as response:
            request_id = response.headers["x-dragoman-request-id"]
        async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}") as response:
            receipt = await response.json()
        metrics = exposition(entrance.gateway.metrics.alone()).decode()
    assert (receipt["endpoint"], receipt["model"], receipt["ended"]) == ("embeddings", "m", "completed")
    assert receipt["usage"]["input_total"] == 40
    (record,) = records
    assert (record.endpoint, record.provider, record.status) == ("embeddings", "up", 200)
    assert record.usage is not None
    assert record.usage.input_total == 40
    labels = 'client="embeddings",provider="up",route="*",ended="completed",status="2xx"'
    assert f"dragoman_requests_total{{{labels}}} 1" in metrics
    assert 'dragoman_tokens_total{provider="up",kind="input"} 40' in metrics
    assert 'dragoman_open_requests{client="embeddings"} 0' in metrics
    (line,) = [message for message in caplog.messages if "embeddings" in message]
    assert "embeddings m → m completed status=200" in line
    assert "tokens_in=40" in line
    assert "canary" not in caplog.text


async def test_events_of_a_reply_are_counted_and_its_usage_is_read() -> None:
    async with forwarding() as there:
        stream = await there.sdk.audio.transcriptions.create(model=ALIAS, file=("a.mp3", b"x" * 5000), stream=True)
        assert [event.type async for event in stream][-1] == "transcript.text.done"
        receipt = next(iter(there.entrance.gateway.receipts._filed.values()))
        await until(lambda: receipt.ended == "completed")
        assert receipt.begun_at is not None
        assert json.loads(receipt.json())["usage"]["input_total"] == 5


async def test_a_client_that_disconnects_ends_the_upstream_request() -> None:
    script: list[Step] = [
        Send(head(200, [("content-type", "audio/mpeg"), ("content-length", "99")]) + b"x" * 9),
        Stall(),
    ]
    async with ScriptedServer(script) as server, gate(config_for(server.url, Dialect.CHAT)) as entrance:
        async with post(entrance, "audio/speech") as response:
            assert await response.content.readexactly(9) == b"x" * 9
            receipt = next(iter(entrance.gateway.receipts._filed.values()))
            response.close()
        await until(lambda: receipt.ended == "abandoned")
        await until(lambda: not entrance.gateway.services.open_requests)


async def test_a_gateway_that_stops_ends_replies_and_rejects_requests() -> None:
    script: list[Step] = [Send(head(200, [("content-type", "audio/mpeg"), ("content-length", "99")]) + b"x"), Stall()]
    async with ScriptedServer(script) as server, gate(config_for(server.url, Dialect.CHAT)) as entrance:
        async with post(entrance, "audio/speech") as response:
            assert await response.content.readexactly(1) == b"x"
            await entrance.gateway.stop(0.05)
            with pytest.raises(aiohttp.ClientError):
                await response.read()
        async with post(entrance, "embeddings") as response:
            assert response.status == 503
            assert response.headers["retry-after"] == "1"


async def test_an_error_of_the_upstream_keeps_its_status_and_loses_secrets() -> None:
    error = b'{"error":{"message":"bad key sk-secret-0123456789abcdef","type":"invalid_request_error","code":"c"}}'
    async with (
        ScriptedServer(answer(429, error, headers=[("retry-after", "7")])) as server,
        gate(config_for(server.url, Dialect.CHAT)) as entrance,
        post(entrance, "embeddings") as response,
    ):
        assert response.status == 429
        assert response.headers["retry-after"] == "7"
        shown = await response.json()
        assert shown["error"]["code"] == "c"
        assert "sk-secret" not in shown["error"]["message"]


async def test_an_upstream_that_is_away_is_a_502() -> None:
    async with gate(config_for("http://127.0.0.1:1", Dialect.CHAT)) as entrance, post(entrance, "rerank") as response:
        assert response.status == 502
        assert "cannot connect" in (await response.json())["error"]["message"]


async def test_forms_and_json_reach_the_endpoints_that_take_them() -> None:
    data = form(part("model", ALIAS.encode()), part("file", b"x", filename="a"), part("image", b"x", filename="a"))
    async with forwarding() as there:
        for path in FORWARDED:
            url = f"{there.entrance.url}/v1/{path}"
            headers = {"content-type": FORM_TYPE}
            async with there.entrance.session.post(url, data=data, headers=headers) as response:
                assert (response.status == 415) == (path not in FORMS)
        assert {request.body["model"] for request in there.requests} == {MODEL}


async def test_a_page_of_another_site_cannot_send_a_form() -> None:
    async with forwarding() as there:
        url = f"{there.entrance.url}/v1/audio/transcriptions"
        headers = {"content-type": FORM_TYPE, "origin": "http://evil.example"}
        async with there.entrance.session.post(url, data=form(part("model", b"m")), headers=headers) as response:
            assert response.status == 403
        assert not there.requests
