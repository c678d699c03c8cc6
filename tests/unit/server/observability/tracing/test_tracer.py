"""Traces are those of the client, or new ones of which a share is recorded."""

from __future__ import annotations

import pytest

from dragoman.aio import Timeouts, UpstreamRequest
from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability.metric_families import Totals
from dragoman_server.observability.tracing.span import Span
from dragoman_server.observability.tracing.trace_context import read_context
from dragoman_server.observability.tracing.tracer import Tracer, create_tracer
from dragoman_server.receipt import Receipt

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALL = UpstreamRequest("http://h/v1", {"a": "b"}, b"{}", False, Timeouts())
UP = Provider("up", Dialect.CHAT, "http://127.0.0.1:9/v1")


class Kept(list[Span]):
    """A sink that keeps what it gets."""

    def put(self, span: Span) -> None:
        self.append(span)


def traced(tracer: Tracer, **headers: str) -> str:
    """Trace one exchange. Returns the `traceparent` that its upstream gets."""
    trace = tracer.begin(headers)
    sent = trace.start_attempt(CALL, UP, "m")
    assert sent.headers["a"] == "b"
    assert "traceparent" not in CALL.headers
    receipt = Receipt("req_1", Dialect.CHAT, 7, ended="completed", status=200)
    trace.end(receipt, None)
    return sent.headers["traceparent"]


@pytest.mark.parametrize(("chance", "recorded"), [(0.0, True), (0.24, True), (0.25, False), (0.99, False)])
def test_a_share_of_new_traces_is_recorded(chance: float, recorded: bool) -> None:
    kept = Kept()
    header = traced(Tracer(0.25, kept, chance=lambda: chance))
    assert header.endswith("-01" if recorded else "-00")
    assert len(kept) == (2 if recorded else 0)


@pytest.mark.parametrize(("flags", "recorded"), [("01", True), ("00", False)])
def test_a_trace_of_the_client_is_recorded_if_the_client_does(flags: str, recorded: bool) -> None:
    kept = Kept()
    header = traced(Tracer(0.5, kept, chance=lambda: 0.9), traceparent=f"00-{TRACE}-{SPAN}-{flags}")
    assert header.startswith(f"00-{TRACE}-")
    assert header.endswith(flags)
    assert SPAN not in header
    assert [span.parent for span in kept if span.server] == ([SPAN] if recorded else [])


def test_without_a_sink_headers_are_sent_all_the_same() -> None:
    context = read_context({"traceparent": traced(Tracer(1.0, None))})
    assert context is not None
    assert context.sampled


async def test_tracing_that_is_off_has_no_tracer() -> None:
    assert create_tracer(Telemetry(endpoint="http://collector:4318"), Totals()) is None
    tracer = create_tracer(Telemetry(traces=True), Totals())
    assert tracer is not None
    await tracer.close()
