"""The attempts of one request with a transport that follows a script: what is sent, where, and what is recorded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Dialect, DragomanError, Limits, translate
from dragoman.aio import STOPPING, StreamTimers, Timeouts, Upload, UpstreamRequest, UpstreamResponse
from dragoman.dialects.directions import direction
from dragoman.errors import UpstreamUnreachable
from dragoman.gateway import parse_body
from dragoman.wire import Json
from dragoman_server.accounts.usage.options import JSONL, UsageOptions
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.draft import Draft
from dragoman_server.observability.metric_families import RETRIES_DENIED, UPSTREAM_ERRORS, Totals
from dragoman_server.observability.tracing.exchange_trace import ExchangeTrace
from dragoman_server.observability.tracing.span import Span
from dragoman_server.observability.tracing.trace_context import TraceContext, new_span_id, new_trace_id
from dragoman_server.proxy import attempts
from dragoman_server.proxy.attempts import Attempts
from dragoman_server.proxy.exchange import Exchange
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.long_bodies import LONG_BODY
from dragoman_server.receipt import Receipt
from dragoman_server.routing.routing_state import RoutingState
from dragoman_server.scope import RequestScope
from dragoman_server.steps import read
from dragoman_server.steps.translate import translate_again
from support.samples import dump, reply, request
from support.strategies import examples
from support.waiting import turns, until

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES
BODY = dump(request(MESSAGES))
STATUSES = [200, 400, 401, 408, 429, 500, 529, 0]
"""Statuses of a script; 0 is a connection that is refused."""


BOOKED = UsageOptions(JSONL, "usage.jsonl")
"""Usage is booked, so tokens are estimated. The file is not opened."""


class Response:
    """A response with a status, and a whole reply if it is a good one."""

    def __init__(self, status: int, dialect: Dialect, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        self._body = dump(reply(dialect)) if status == 200 else b"{}"
        self.closed = 0

    async def read(self, limit: int) -> bytes:
        return self._body

    async def batches(self) -> AsyncGenerator[bytes, None]:
        yield self._body

    async def close(self) -> None:
        self.closed += 1


class Script:
    """A transport with one status for each request; the last one repeats."""

    def __init__(self, *statuses: int, **headers: str) -> None:
        self.statuses = statuses
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.calls: list[UpstreamRequest] = []
        self.responses: list[Response] = []

    async def open(self, call: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        status = self.statuses[min(len(self.calls), len(self.statuses) - 1)]
        self.calls.append(call)
        if not status:
            raise UpstreamUnreachable("refused")
        dialect = MESSAGES if call.url.endswith("messages") else CHAT
        self.responses.append(Response(status, dialect, self.headers))
        return self.responses[-1]

    async def open_upload(self, call: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """Attempts have whole bodies."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


class Scene:
    """Providers `up1` (Messages), `up2` (Chat), …, tried in this order."""

    def __init__(self, script: Script, providers: int = 2, **retries: Any) -> None:
        retries = {"backoff": 0.001, "backoff_max": 0.001, **retries}
        names = {f"up{n}": MESSAGES if n % 2 else CHAT for n in range(1, providers + 1)}
        found = {name: Provider(name, dialect, f"http://{name}") for name, dialect in names.items()}
        targets = tuple(RouteTarget(name) for name in found)
        self.config = Config(found, [Route("*", targets=targets)], retries=RetryOptions(**retries), usage=BOOKED)
        self.totals = Totals()
        self.script = script
        self.routing = RoutingState(self.config, self.totals)
        services = replace(Gateway(self.config).services, routing=self.routing, now=lambda: 1000.0)
        self.scope = RequestScope(services, Receipt("req_1", MESSAGES, 7, provider="up1"))
        self.receipt = self.scope.receipt
        self.receipt.translation = translate(direction(MESSAGES, MESSAGES), BODY)
        self.timers = StreamTimers(Timeouts())
        self.draft = draft = Draft(make_mocked_request("POST", "/v1/messages"), services.loaded, body=BODY)
        draft.target = target = services.router.resolve("m", MESSAGES)
        assert target.plan is not None
        draft.ranking = self.routing.ranking(target.plan, None)
        draft.candidate = draft.ranking[0]
        draft.transport = script
        build = services.upstream_requests.build
        draft.call = build(draft.request, self.receipt.translation, found["up1"], services.loaded)
        self.routing.budget.count_request()

    async def run(self) -> int:
        """Send the request. Returns the status of the last response, 0 for a failure."""
        attempts = Attempts(self.scope, self.draft, Exchange(self.scope), translate_again)
        try:
            return (await attempts.open(self.timers)).status
        except UpstreamUnreachable:
            return 0
        finally:
            self.timers.stop()

    def rows(self) -> list[tuple[str, str]]:
        return [(row.provider, row.outcome) for row in self.receipt.attempts]

    def taken(self) -> int:
        return sum(self.routing.of(provider).slots.taken for provider in self.config.providers.values())


class Spans:
    """Keeps the spans of a trace."""

    def __init__(self) -> None:
        self.found: list[Span] = []

    def put(self, span: Span) -> None:
        self.found.append(span)


@examples(3)
@given(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=6), st.integers(1, 3), st.integers(1, 5))
def test_what_holds_for_every_script(statuses: list[int], providers: int, attempts: int) -> None:
    most = attempts + (providers == 1)  # one attempt at one provider has no plan

    async def check() -> None:
        script = Script(*statuses)
        scene = Scene(script, providers, attempts=most)
        last = await scene.run()
        count = len(script.calls)
        played = [statuses[min(number, len(statuses) - 1)] for number in range(count)]
        assert 1 <= count <= most
        assert last == played[-1]
        assert all(status not in (200, 400) for status in played[:-1])
        assert len(scene.receipt.attempts) == count
        assert scene.receipt.attempts[-1].provider == scene.receipt.provider
        # Each response but the last was closed, and only a request that was answered keeps its place, to its end.
        assert all(response.closed for response in script.responses[: -1 if last else None])
        assert scene.taken() == (last == 200)
        scene.scope.end("completed", 200)
        assert scene.taken() == 0

    asyncio.run(check())


async def test_another_dialect_gets_a_request_of_its_own() -> None:
    scene = Scene(Script(529, 200))
    assert await scene.run() == 200
    first, second = scene.script.calls
    assert (first.url, second.url) == ("http://up1/v1/messages", "http://up2/v1/chat/completions")
    assert b"max_tokens" in first.body
    assert first.body != second.body
    assert scene.scope.translation.context.input_estimate > 0
    assert scene.rows() == [("up1", "unavailable"), ("up2", "answered")]


@pytest.mark.parametrize(
    ("retries", "headers", "reason"),
    [
        ({"attempts": 2}, {}, "attempts"),
        ({"attempts": 9, "wait": 1}, {"retry_after": "2"}, "wait"),
        ({"attempts": 9, "budget_min": 2, "failures": 0}, {}, "budget"),
        ({"attempts": 9, "failures": 1}, {}, "candidates"),
    ],
)
async def test_what_ends_the_attempts_is_counted(retries: Any, headers: Any, reason: str) -> None:
    scene = Scene(Script(500, **headers), **retries)
    assert await scene.run() == 500
    assert scene.totals.read(RETRIES_DENIED, reason) == [1]


async def test_without_budget_a_provider_that_works_is_still_tried() -> None:
    scene = Scene(Script(500, 500, 200), providers=3, budget_min=0, budget=0.0)
    second = scene.config.providers["up2"]
    scene.routing.of(second).breaker.failed()
    assert await scene.run() == 500
    assert scene.rows() == [("up1", "unavailable"), ("up3", "unavailable")]


async def test_a_gateway_that_stops_ends_a_pause() -> None:
    scene = Scene(Script(503, retry_after="20"), providers=1, attempts=2)
    running = asyncio.create_task(scene.run())
    await until(lambda: scene.receipt.attempts)
    await turns()
    scene.timers.expire(DragomanError(STOPPING))
    with pytest.raises(DragomanError, match="shutting down"):
        await running
    assert scene.taken() == 0


async def test_a_long_request_that_failed_is_parsed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, threads = Scene(Script(400), attempts=2), []
    text = {"role": "user", "content": "x" * LONG_BODY}
    scene.draft.body = dump({**request(MESSAGES), "messages": [text]})

    def parse(body: bytes, limits: Limits) -> Json:
        threads.append(threading.current_thread())
        return parse_body(body, limits)

    monkeypatch.setattr(read, "parse_body", parse)
    assert await scene.run() == 400
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    assert scene.draft.conversation is not None
    assert scene.draft.payload == {}


async def test_a_client_that_leaves_while_its_request_is_parsed_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, parsing = Scene(Script(400), attempts=2), asyncio.Event()

    async def parse(scope: RequestScope, draft: Draft) -> Draft:
        parsing.set()
        await asyncio.Event().wait()
        return draft

    monkeypatch.setattr(attempts, "parse", parse)
    running = asyncio.create_task(scene.run())
    await until(parsing.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert scene.taken() == 0
    assert scene.script.responses[0].closed
    assert scene.rows() == [("up1", "abandoned")]


async def test_each_attempt_has_a_span_and_an_error_of_its_provider() -> None:
    scene, spans = Scene(Script(503, 200)), Spans()
    trace = scene.scope.trace = ExchangeTrace(TraceContext(new_trace_id(), new_span_id(), True), None, lambda: 7, spans)
    scene.scope.at_end(trace.end)
    scene.draft.call = trace.start_attempt(scene.draft.call, scene.config.providers["up1"], "m")
    assert await scene.run() == 200
    scene.scope.end("completed", 200)
    assert [span.attributes.get("dragoman.provider") for span in spans.found] == ["up1", "up2", "up2"]
    assert [span.attributes.get("error.type") for span in spans.found] == ["overloaded", None, None]
    assert spans.found[-1].attributes["dragoman.attempts"] == 2
    parents = [call.headers["traceparent"].split("-")[2] for call in scene.script.calls]
    assert parents == [span.context.span_id for span in spans.found[:2]]
    assert scene.totals.read(UPSTREAM_ERRORS, "up1", "overloaded") == [1]
