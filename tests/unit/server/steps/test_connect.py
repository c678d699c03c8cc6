"""The request to the upstream, and what observes and repeats it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from dragoman import Dialect, direction, translate
from dragoman.aio import CallObserver, ObservedTransport, Transport
from dragoman_server.draft import Draft
from dragoman_server.observability.tracing.exchange_trace import ExchangeTrace
from dragoman_server.observability.tracing.trace_context import TraceContext
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.output_cap_retry import OutputCapTransport
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.steps.connect import connect, expect_response, lower_output_cap, record_stream, trace_call
from support.gateways import config_for
from support.samples import dump, request
from support.scopes import drafted

CHAT, MESSAGES, RESPONSES, *_ = Dialect


async def scene(client: Dialect = CHAT, upstream: Dialect = MESSAGES) -> tuple[RequestScope, Draft]:
    """A request that is connected."""
    transport = Mock(spec=Transport)
    scope = RequestScope(
        Gateway(config_for("http://up", upstream), upstream=transport).services, Receipt("r", client, 7)
    )
    scope.receipt.translation = translate(direction(client, upstream), dump(request(client)))
    draft = drafted(payload={"model": "m"}, loaded=scope.services.loaded)
    draft.target = scope.services.router.resolve("m", client)
    connect(scope, draft)
    assert draft.transport is transport
    return scope, draft


async def test_the_call_is_that_of_the_translation(caplog: pytest.LogCaptureFixture) -> None:
    scope, draft = await scene()
    assert (draft.call.url, draft.call.body) == ("http://up/v1/messages", scope.translation.body)
    draft.target = draft.target._replace(warning="model 'm' has no route")
    connect(scope, draft)
    assert "r model 'm' has no route" in caplog.text


@pytest.mark.parametrize(("upstream", "repeats"), [(MESSAGES, True), (CHAT, False)])
async def test_an_output_cap_is_lowered_at_upstreams_that_require_one(upstream: Dialect, repeats: bool) -> None:
    scope, draft = await scene(CHAT, upstream)
    lower_output_cap(scope, draft)
    assert isinstance(draft.transport, OutputCapTransport) is repeats


@pytest.mark.parametrize(("upstream", "expected"), [(RESPONSES, True), (CHAT, False)])
async def test_a_response_is_expected_from_upstreams_that_store_it(upstream: Dialect, expected: bool) -> None:
    scope, draft = await scene(RESPONSES, upstream)
    expect_response(scope, draft)
    assert (scope.expected is not None) is expected


async def test_the_headers_of_the_trace_go_upstream() -> None:
    scope, draft = await scene()
    trace_call(scope, draft)
    assert "traceparent" not in draft.call.headers
    scope.trace = ExchangeTrace(TraceContext("a" * 32, "b" * 16, True), None, lambda: 7, None)
    trace_call(scope, draft)
    assert draft.call.headers["traceparent"].startswith(f"00-{'a' * 32}-")


async def test_a_stream_is_recorded_on_both_sides() -> None:
    scope, draft = await scene()
    record_stream(scope, draft)
    assert scope.record is None
    recording: Any = Mock(observe=Mock(return_value=CallObserver()))
    scope.services.instruments.recorder = Mock(begin=Mock(return_value=recording))
    before = draft.transport
    record_stream(scope, draft)
    assert isinstance(draft.transport, ObservedTransport)
    assert draft.transport is not before
    assert scope.record is recording.sent
    assert replace(draft.call).url == draft.call.url
