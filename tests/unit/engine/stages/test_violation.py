"""The report of a breach: without content of the stream, and not too often."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import direction, translate
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.stages.violation import SHOWN_MAX, Violation, masked
from dragoman.wire.sse import Frame, encode
from dragoman_server.observability.throttled_log import VIOLATIONS_MAX, ViolationLog
from dragoman_server.receipt import Receipt
from support.verdicts import TEXT, checker_of, golden_frames

_NAMES = (
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.function_call_arguments.delta",
    "response.completed",
    "response.failed",
)
_KEYS = (
    *("type", "index", "delta", "message", "content_block", "usage", "error", "choices", "finish_reason", "content"),
    *("id", "item_id", "item", "part", "output_index", "content_index", "response", "output", "text", "stop_reason"),
    *("object", "created", "model", "tool_calls", "function", "arguments", "role", "status", "summary", "refusal"),
)


def test_a_frame_is_shown_without_its_texts() -> None:
    frame = {
        "type": "response.output_item.done",
        "item": {
            "type": "function_call",
            "name": "steal",
            "status": "completed",
            "arguments": '{"secret": 1}',
            "secret key": {"secret": "secret"},
            "role": "the secret plan",
        },
        "sequence_number": 7,
        "flags": [True, None, 1.5, "secret", 5],
    }
    assert masked(json.dumps(frame).encode()) == (
        '{type:"response.output_item.done",item:{type:"function_call",name:<5>,status:"completed",arguments:<13>,'
        "?:{?:<6>},role:<15>},sequence_number:7,?:[true,null,1.5,<6>,… 5]}"
    )


_WORDS = st.text("abcdefgh secret", min_size=9, max_size=40).map(lambda text: "Secret " + text)


@given(
    st.recursive(
        _WORDS | st.integers() | st.none() | st.booleans(),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_WORDS | st.sampled_from(["type", "text"]), inner),
        max_leaves=12,
    )
)
def test_no_text_is_ever_shown_and_never_much(value: object) -> None:
    shown = masked(json.dumps(value).encode())
    assert "Secret" not in shown
    assert len(shown) <= SHOWN_MAX


def test_what_is_no_json_is_recognised_by_its_length() -> None:
    assert masked(b"data: secret") == "<12 bytes that are not JSON>"
    deep = b"[" * 100_000 + b"]" * 100_000
    assert len(masked(deep)) <= SHOWN_MAX


def test_only_the_first_breach_of_a_stream_is_reported() -> None:
    judge = checker_of(Dialect.MESSAGES)
    frames = golden_frames("messages_from_chat/two_tools")
    for frame in [*frames[:4], b"data: {}\n\n", *frames[:4], frames[0]]:
        judge.feed(frame)
    judge.finish()
    violation = judge.violation
    assert violation is not None
    assert (violation.position, violation.event, violation.frame) == (4, "", "{}")
    assert violation.rule == "an event whose name is not its type: the SDK does not see it"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_log_is_not_flooded(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    violation_log = ViolationLog(clock)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}).encode()

    def report(times: int) -> None:
        for _ in range(times):
            receipt = Receipt("req_1", Dialect.CHAT, 7)
            receipt.provider, receipt.route = "up", "claude-*"
            receipt.translation = translate(direction("chat", "messages"), body)
            violation_log.record(receipt, Violation("a rule", "chunk", 3, "{}"))

    with caplog.at_level(logging.WARNING, "dragoman"):
        report(VIOLATIONS_MAX + 5)
        assert len(caplog.records) == VIOLATIONS_MAX
        assert caplog.records[0].getMessage() == (
            "req_1 chat→messages up (route claude-*) output broke its grammar: a rule (chunk at 3: {})"
        )
        clock.now += 59.9
        report(1)
        assert len(caplog.records) == VIOLATIONS_MAX
        clock.now += 0.2
        report(2)
    assert len(caplog.records) == VIOLATIONS_MAX + 2
    assert "6 more replies" in caplog.records[VIOLATIONS_MAX].getMessage()
    assert "more replies" not in caplog.records[VIOLATIONS_MAX + 1].getMessage()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "text", "message", "msg_1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=6),
    max_leaves=12,
)


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
@given(
    payloads=st.lists(st.tuples(st.sampled_from(_NAMES), st.dictionaries(st.sampled_from(_KEYS), _JSON)), max_size=4)
)
def test_whatever_is_judged_nothing_is_raised(dialect: Dialect, payloads: list[tuple[str, dict[str, object]]]) -> None:
    """Behind a sound beginning: a judge that raises would end the stream."""
    frames = golden_frames(TEXT[dialect])
    judge = checker_of(dialect)
    for frame in frames[:4]:
        judge.feed(frame)
    for name, payload in payloads:
        event = "" if dialect is Dialect.CHAT else name
        judge.feed(encode(Frame(event, json.dumps({"type": name, "sequence_number": 4, **payload}).encode())))
        judge.over = False  # as if nothing had been wrong, to get further
    judge.finish()
