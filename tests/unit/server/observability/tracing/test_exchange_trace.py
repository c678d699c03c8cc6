"""The spans of one exchange."""

from __future__ import annotations

import json
import re
from itertools import count

from dragoman import direction, translate
from dragoman.aio import Timeouts, UpstreamRequest
from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect
from dragoman.errors import Failure, FailureKind, FailureOrigin
from dragoman_server.config.provider import Provider
from dragoman_server.observability.tracing.exchange_trace import ExchangeTrace
from dragoman_server.observability.tracing.span import Span
from dragoman_server.observability.tracing.trace_context import TraceContext
from dragoman_server.receipt import Receipt
from support.named_keys import made
from support.paths import ROOT

CONTEXT = TraceContext("a" * 32, "b" * 16, True)
CALL = UpstreamRequest("http://h/v1", {}, b"{}", False, Timeouts())
UP = Provider("up", Dialect.MESSAGES, "https://api.anthropic.com")
OTHER = Provider("other", Dialect.CHAT, "http://[::1]:8000/v1")


class Recorded:
    """A trace, the spans that it makes, and a clock of whole seconds."""

    def __init__(self, parent: TraceContext | None = None) -> None:
        self.spans: list[Span] = []
        clock = count(1_000_000_000, 1_000_000_000)
        self.trace = ExchangeTrace(CONTEXT, parent, lambda: next(clock), self)

    def put(self, span: Span) -> None:
        self.spans.append(span)


def receipt(ended: str = "completed", status: int = 200, *, translated: bool = True) -> Receipt:
    made_ = Receipt("req_1", Dialect.CHAT, 7, ended=ended, status=status)
    if translated:
        body = {
            "model": "gpt-x",
            "messages": [{"role": "user", "content": "canary"}],
            "stream": True,
            "seed": 7,
            "max_tokens": 9,
        }
        made_.model, made_.provider, made_.route, made_.client_profile = "gpt-x", "up", "gpt-*", "codex"
        made_.key, made_.tag = made("alice")[1], "team-7"
        made_.translation = translate(
            direction(Dialect.CHAT, Dialect.MESSAGES), json.dumps(body).encode(), upstream_model="claude-x"
        )
    return made_


def test_an_exchange_and_its_attempt() -> None:
    recorded = Recorded(TraceContext("a" * 32, "c" * 16, True))
    sent = recorded.trace.start_attempt(CALL, UP, "claude-x")
    ended = receipt()
    ended.opened_at, ended.begun_at = 50.0, 52.5
    assert ended.translation is not None
    ended.translation.context.usage = Usage(10, 4, None, 20, 5)
    recorded.trace.end(ended, None)
    attempt, exchange = recorded.spans
    assert sent.headers == {"traceparent": f"00-{'a' * 32}-{attempt.context.span_id}-01"}
    assert (attempt.name, attempt.server, attempt.failed, attempt.parent) == ("chat claude-x", False, False, "b" * 16)
    assert (attempt.start, attempt.end) == (2 * 10**9, 3 * 10**9)
    assert attempt.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-x",
        "gen_ai.request.stream": True,
        "gen_ai.response.time_to_first_chunk": 1.5,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "server.address": "api.anthropic.com",
        "server.port": 443,
        "dragoman.provider": "up",
        "dragoman.attempt": 1,
    }
    assert (exchange.name, exchange.server, exchange.failed) == ("POST /v1/chat/completions", True, False)
    assert (exchange.parent, exchange.remote, exchange.context) == ("c" * 16, True, CONTEXT)
    assert (exchange.start, exchange.end) == (10**9, 4 * 10**9)
    assert exchange.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "url.path": "/v1/chat/completions",
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.request.stream": True,
        "dragoman.request_id": "req_1",
        "dragoman.client.dialect": "chat",
        "dragoman.client.profile": "codex",
        "dragoman.upstream.dialect": "messages",
        "dragoman.provider": "up",
        "dragoman.route": "gpt-*",
        "dragoman.key.name": "alice",
        "dragoman.tag": "team-7",
        "dragoman.ended": "completed",
        "dragoman.attempts": 1,
        "dragoman.losses": 1,
    }


def test_a_failed_attempt_before_another_one() -> None:
    recorded = Recorded()
    recorded.trace.start_attempt(CALL, UP, "claude-x")
    recorded.trace.fail_attempt(Failure(FailureKind.OVERLOADED, "canary", 529))
    recorded.trace.start_attempt(CALL, OTHER, "qwen3")
    recorded.trace.end(receipt(), None)
    first, second, exchange = recorded.spans
    assert (first.failed, first.attributes["error.type"], first.attributes["dragoman.attempt"]) == (
        True,
        "overloaded",
        1,
    )
    assert (second.failed, second.attributes["dragoman.attempt"]) == (False, 2)
    assert (second.attributes["server.address"], second.attributes["server.port"]) == ("::1", 8000)
    assert second.attributes["gen_ai.provider.name"] == "other"
    assert first.context.span_id != second.context.span_id
    assert exchange.attributes["dragoman.attempts"] == 2


def test_errors() -> None:
    late = receipt("failed", 200)
    assert late.translation is not None
    late.translation.context.failure = Failure(FailureKind.API, "canary", 500, code="their_code")
    for ended, failure, failed in (
        (late, None, (True, True)),
        (receipt("refused", 400), Failure(FailureKind.INVALID_REQUEST, "canary", 400), (True, False)),
        (receipt("failed", 502), Failure(FailureKind.API, "canary", 502), (True, True)),
        (receipt("abandoned", 499), None, (False, False)),
    ):
        recorded = Recorded()
        recorded.trace.start_attempt(CALL, UP, "m")
        recorded.trace.end(ended, failure)
        assert tuple(span.failed for span in recorded.spans) == failed
        assert "canary" not in str(recorded.spans)
    recorded = Recorded()
    recorded.trace.end(receipt("rejected", 401, translated=False), Failure(FailureKind.AUTHENTICATION, "canary", 401))
    (span,) = recorded.spans
    assert (span.failed, span.attributes["error.type"], span.attributes["dragoman.attempts"]) == (
        False,
        "authentication",
        0,
    )
    assert "gen_ai.request.model" not in span.attributes


def test_what_the_gateway_ends_is_no_error_of_the_attempt() -> None:
    stopping = Failure(FailureKind.OVERLOADED, "canary", 503, origin=FailureOrigin.PROXY, reason="stopping")
    recorded = Recorded()
    recorded.trace.start_attempt(CALL, UP, "m")
    recorded.trace.end(receipt("failed", 503), stopping)
    attempt, exchange = recorded.spans
    assert (attempt.failed, "error.type" in attempt.attributes, exchange.failed) == (False, False, True)
    no_place = Failure(FailureKind.OVERLOADED, "canary", 503, origin=FailureOrigin.PROXY, reason="no_provider")
    recorded = Recorded()
    recorded.trace.start_attempt(CALL, UP, "m")
    recorded.trace.end(receipt("rejected", 503), no_place)
    (exchange,) = recorded.spans
    assert exchange.attributes["dragoman.attempts"] == 0


def test_attributes_are_documented() -> None:
    """Those of the page are those of the code, in the row of their span."""
    page = (ROOT / "docs/howto/observability.md").read_text("utf-8")
    source = (ROOT / "server/dragoman_server/observability/tracing/exchange_trace.py").read_text("utf-8")
    _, attempt, exchange = re.split(r"def _put_attempt|def end\(", source)
    exchange, _, reply = exchange.partition("def _reply_attributes")
    for code, row in ((exchange, "| exchange:"), (attempt + reply, "| attempt:")):
        written = set(re.findall(r'"((?:gen_ai|dragoman|http|url|server|error)\.[a-z_.]+)"', code))
        (line,) = (line for line in page.splitlines() if line.startswith(row))
        assert set(re.findall(r"`([a-z_]+\.[a-z_.]+)`", line)) == written, row
    assert "`gen_ai.usage.*`" in page


def test_names_of_models_are_quoted() -> None:
    recorded = Recorded()
    recorded.trace.start_attempt(CALL, UP, "evil\nmodel\x1b[0m" + "x" * 1000)
    recorded.trace.end(receipt(), None)
    assert "\n" not in recorded.spans[0].name
    assert "\x1b" not in recorded.spans[0].name
    assert len(recorded.spans[0].name) < 500


def test_a_forwarded_endpoint_names_the_operation() -> None:
    for endpoint, operation in (
        ("embeddings", "embeddings"),
        ("completions", "text_completion"),
        ("audio/speech", "audio"),
    ):
        recorded = Recorded()
        recorded.trace = ExchangeTrace(CONTEXT, None, lambda: 1, recorded, endpoint)
        recorded.trace.start_attempt(CALL, OTHER, "m")
        ended = receipt()
        ended.endpoint = endpoint
        recorded.trace.end(ended, None)
        attempt, exchange = recorded.spans
        assert (attempt.name, exchange.name) == (f"{operation} m", f"POST /v1/{endpoint}")
        assert attempt.attributes["gen_ai.operation.name"] == operation
        assert exchange.attributes["http.route"] == f"/v1/{endpoint}"
