"""The headers of W3C Trace Context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.observability.tracing.trace_context import (
    TraceContext,
    new_span_id,
    new_trace_id,
    read_context,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("header", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f" 00-{TRACE}-{SPAN}-02 ", False),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-will-be", True),
    ],
)
def test_valid_headers(header: str, sampled: bool) -> None:
    assert read_context({"traceparent": header}) == TraceContext(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "canary",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"cc-{TRACE}-{SPAN}-01.more",
    ],
)
def test_other_headers_are_ignored(header: str) -> None:
    assert read_context({"traceparent": header}) is None
    assert read_context({}) is None


def test_the_state_is_passed_on_if_it_can_be() -> None:
    header = f"00-{TRACE}-{SPAN}-01"
    context = read_context({"traceparent": header, "tracestate": "vendor=a,other=b"})
    assert context is not None
    assert context.headers() == {"traceparent": header, "tracestate": "vendor=a,other=b"}
    for state in ("v=" + "a" * 600, "v=\r\nx: y", "v=é"):
        other = read_context({"traceparent": header, "tracestate": state})
        assert other is not None
        assert other.headers() == {"traceparent": header}


@given(st.booleans())
def test_what_is_written_can_be_read(sampled: bool) -> None:
    context = TraceContext(new_trace_id(), new_span_id(), sampled)
    assert read_context(context.headers()) == context


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    context = read_context({"traceparent": text, "tracestate": text})
    assert context is None or len(context.trace_id) == 32
