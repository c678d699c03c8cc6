"""Traces of real exchanges, as a collector receives them by OTLP over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.schema import Config
from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability.logs import JsonFormatter
from dragoman_server.observability.metric_families import SPANS
from support.gateways import CHAT, MESSAGES, Gate, config_for, gate, until
from support.named_keys import made
from support.otlp_collector import OtlpCollector, attributes, otlp_collector
from support.samples import dump, reply, text_stream
from support.sockets import Close, ScriptedServer, Step, answer, stream

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"


def traced(config: Config, url: str = "", **options: Any) -> Config:
    return replace(config, telemetry=Telemetry(True, endpoint=url, **options))


@asynccontextmanager
async def tracing(*scripts: list[Step], **options: Any) -> AsyncIterator[tuple[Gate, ScriptedServer, OtlpCollector]]:
    """A gateway with an upstream of the dialect Chat and a collector."""
    async with ScriptedServer(*scripts or (answer(200, dump(reply(CHAT))),)) as server, otlp_collector() as collector:
        config = traced(config_for(server.url, CHAT), options.pop("url", collector.url), **options)
        async with gate(config) as entrance:
            yield entrance, server, collector


async def spans_of(collector: OtlpCollector, count: int) -> tuple[list[Any], list[Any]]:
    """The spans of exchanges and of attempts, once so many have arrived."""
    await until(lambda: len(collector.spans) >= count)
    assert len(collector.spans) == count
    exchanges = [span for span in collector.spans if span.kind == 2]
    attempts = [span for span in collector.spans if span.kind == 3]
    assert len(exchanges) + len(attempts) == count
    return exchanges, attempts


def upstream_context(server: ScriptedServer, index: int = 0) -> list[str]:
    """The parts of the `traceparent` that the upstream got."""
    return server.requests[index].headers["traceparent"].split("-")


@pytest.mark.few
@pytest.mark.parametrize("client", CLIENT_DIALECTS, ids=str)
@pytest.mark.parametrize("upstream", list(Dialect), ids=str)
async def test_a_stream_is_an_exchange_and_an_attempt(client: Dialect, upstream: Dialect) -> None:
    script = stream(text_stream(upstream))
    async with ScriptedServer(script) as server, otlp_collector() as collector:
        config = traced(config_for(server.url, upstream), collector.url, headers={"x-collector-key": "k"})
        async with gate(config) as entrance:
            await entrance.stream(client)
            (exchange,), (attempt,) = await spans_of(collector, 2)
    assert exchange.trace_id == attempt.trace_id
    assert attempt.parent_span_id == exchange.span_id
    assert exchange.parent_span_id == b""
    assert upstream_context(server) == ["00", attempt.trace_id.hex(), attempt.span_id.hex(), "01"]
    assert exchange.start_time_unix_nano <= attempt.start_time_unix_nano
    assert attempt.end_time_unix_nano <= exchange.end_time_unix_nano
    facts, parent = attributes(attempt), attributes(exchange)
    assert facts["gen_ai.usage.output_tokens"] > 0
    assert 0 < facts["gen_ai.response.time_to_first_chunk"] < 60
    assert parent["dragoman.ended"] == "completed"
    assert (parent["dragoman.client.dialect"], parent["dragoman.upstream.dialect"]) == (client, upstream)
    assert not any(name.startswith("gen_ai.usage") for name in parent), "backends would add them twice"
    assert exchange.status.code == attempt.status.code == 0
    assert collector.resource["service.name"] == "dragoman"
    assert collector.scopes == {"dragoman"}
    assert {headers["x-collector-key"] for headers in collector.headers} == {"k"}


async def test_a_trace_of_the_client_goes_on_to_the_upstream(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    async with tracing() as (entrance, server, collector):
        headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
        for client in (CHAT, MESSAGES):
            async with entrance.post(client, headers=headers) as response:
                assert response.status == 200
        exchanges, attempts = await spans_of(collector, 4)
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert {span.parent_span_id.hex() for span in exchanges} == {SPAN}
    assert all(span.trace_state == "vendor=1" for span in collector.spans)
    assert {upstream_context(server, index)[2] for index in range(2)} == {span.span_id.hex() for span in attempts}
    assert all(request.headers["tracestate"] == "vendor=1" for request in server.requests)
    lines = [record for record in caplog.records if hasattr(record.msg, "fields")]
    assert len(lines) == 2
    for record in lines:
        assert json.loads(JsonFormatter().format(record))["trace_id"] == TRACE
        assert f" trace_id={TRACE}" in record.getMessage()


@pytest.mark.parametrize("sampled", [True, False])
async def test_without_an_endpoint_only_the_headers_are_sent(sampled: bool) -> None:
    async with tracing(url="", sample=float(sampled)) as (entrance, server, collector):
        for headers in ({}, {"traceparent": TRACEPARENT}):
            async with entrance.post(CHAT, headers=headers) as response:
                assert response.status == 200
    assert collector.bodies == []
    assert upstream_context(server)[3] == ("01" if sampled else "00")
    version, trace, span, flags = upstream_context(server, 1)
    assert (version, trace, flags) == ("00", TRACE, "01")
    assert span != SPAN


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
async def test_a_gateway_without_tracing_sends_no_headers(upstream: Dialect) -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(upstream)))) as server,
        gate(config_for(server.url, upstream)) as entrance,
        entrance.post(CHAT, headers={"traceparent": TRACEPARENT}) as response,
    ):
        assert response.status == 200
    assert "traceparent" not in server.requests[0].headers


async def ended_badly(entrance: Gate) -> None:
    """Requests that are refused, cut, abandoned and rejected."""
    for streamed in (True, False):
        async with entrance.post(CHAT, stream=streamed) as response:
            await response.read()
    assert (await entrance.refusal(CHAT, b"{"))[0] == 400


async def test_errors_are_marked() -> None:
    refused = answer(429, b'{"error":{"message":"canary"}}')
    scripts = ([*stream(text_stream(CHAT)[:3], end=False), Close()], refused)
    async with tracing(*scripts) as (entrance, _, collector):
        await ended_badly(entrance)
        exchanges, attempts = await spans_of(collector, 5)
    assert sorted((attributes(span)["dragoman.ended"], span.status.code) for span in exchanges) == [
        ("failed", 2),
        ("refused", 0),
        ("rejected", 0),
    ]
    assert [span.status.code for span in attempts] == [2, 2]
    assert {attributes(span)["error.type"] for span in attempts} == {"stream_truncated", "rate_limit"}
    assert b"canary" not in b"".join(collector.bodies)


async def test_a_collector_that_is_away_does_not_touch_requests() -> None:
    async with otlp_collector() as collector:
        url = collector.url
    async with tracing(url=url) as (entrance, _, _):
        for _ in range(3):
            async with entrance.post(CHAT) as response:
                assert response.status == 200
        totals = entrance.gateway.metrics.totals
    await until(lambda: sum(totals.read(SPANS, word)[0] for word in ("failed", "dropped")) == 6)
    assert totals.read(SPANS, "exported") == [0]


async def test_the_last_spans_are_sent_when_the_gateway_closes() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, otlp_collector() as collector:
        async with (
            gate(traced(config_for(server.url, CHAT), collector.url)) as entrance,
            entrance.post(CHAT) as response,
        ):
            assert response.status == 200
        assert len(collector.spans) == 2


async def test_a_change_of_the_settings_needs_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer([]) as server, gate(config_for(server.url, CHAT)) as entrance:
        entrance.gateway.reconfigure(traced(entrance.gateway.config))
        assert "telemetry: the change takes effect after a restart" in caplog.text
        assert entrance.gateway.services.instruments.tracer is None


async def test_no_key_and_no_prompt_is_in_a_span(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key, record = made("alice", admin=True)
    upstream_key, prompt, collector_key = "canary-upstream-key", "canary-prompt", "canary-collector-key"
    echo = json.dumps({"error": {"message": f"{upstream_key} {prompt}", "code": prompt, "type": upstream_key}}).encode()
    scripts = (
        stream([frame.replace(b"Hello", b"canary-reply") for frame in text_stream(CHAT)]),
        answer(400, echo),
        answer(500, echo),
        stream([*text_stream(CHAT)[:2], b"data: " + echo + b"\n\n"]),
    )
    pages = []
    async with ScriptedServer(*scripts) as server, otlp_collector() as collector:
        provider = Provider("up", CHAT, f"{server.url}/v1?key=canary-query", Secret(upstream_key))
        config = traced(
            config_for(server.url, CHAT), collector.url, headers={"authorization": f"Bearer {collector_key}"}
        )
        config = replace(config, providers={"up": provider}, keys={"alice": record})
        async with gate(config) as entrance:
            sent = {"authorization": f"Bearer {key}", "tracestate": "vendor=1", "traceparent": TRACEPARENT}
            message = [{"role": "user", "content": prompt}]
            for _ in scripts:
                async with entrance.post(CHAT, headers=sent, stream=True, messages=message) as response:
                    await response.read()
            await entrance.refusal(CHAT, headers={"authorization": "Bearer canary-wrong-key"}, messages=message)
            await spans_of(collector, 9)
            for path in ("/metrics", "/ready", "/health", "/ready?strict"):
                async with entrance.session.get(entrance.url + path, headers=sent) as response:
                    assert response.status == 200
                    pages.append(await response.text())
    assert len(server.requests) == 4
    assert prompt.encode() in server.requests[0].body
    secret = key.rpartition("-")[2]
    lines = [JsonFormatter().format(record) for record in caplog.records if record.name.startswith("dragoman")]
    seen = {"spans": str(collector.spans), "raw": repr(collector.bodies), "pages": str(pages), "log": str(lines)}
    assert all(len(text) > 500 for text in seen.values())
    assert not {name for name, text in seen.items() if "canary" in text or secret in text}
    assert all(headers["authorization"] == f"Bearer {collector_key}" for headers in collector.headers)


async def test_requests_at_once_keep_their_traces_apart() -> None:
    async def ask(entrance: Gate) -> None:
        async with entrance.post(CHAT) as response:
            assert response.status == 200

    async with tracing() as (entrance, _, collector):
        await asyncio.gather(*(ask(entrance) for _ in range(20)))
        exchanges, attempts = await spans_of(collector, 40)
    assert len({span.trace_id for span in exchanges}) == 20
    assert {(span.trace_id, span.span_id) for span in exchanges} == {
        (span.trace_id, span.parent_span_id) for span in attempts
    }
