"""The observers beside a passthrough: when a stream may end, what it cost, what it said, where it broke its grammar."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect
from dragoman.dialects.chat.stream.observer import ChatObserver
from dragoman.dialects.codec import CODECS
from dragoman.dialects.messages.stream.observer import MessagesObserver
from dragoman.errors import StreamTruncated
from dragoman.stages.passthrough import Observer
from dragoman.wire.sse import Parser, encode
from grammar import chat, messages
from support.paths import TESTS
from support.strategies import texts

TRANSCRIPTS = TESTS / "transcripts"
COUNTS = Usage(12, 4, None, 7, 0)


def watch(observer: Observer, *payloads: Any, named: bool = False) -> Observer:
    for payload in payloads:
        data = payload if isinstance(payload, str) else json.dumps(payload)
        event = payload.get("type", "") if named and isinstance(payload, dict) else ""
        observer.observe(data.encode(), event)
    return observer


def piece(index: int = 0, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {}, "finish_reason": finish}], **extra}


def replay(dialect: str, case: str) -> Observer:
    parser, observer = Parser(), CODECS[Dialect(dialect)].observer()
    for frame in [*parser.feed((TRANSCRIPTS / dialect / f"{case}.sse").read_bytes()), *parser.finish()]:
        if frame.data is not None:
            observer.observe(frame.data, frame.event)
    return observer


@pytest.mark.parametrize("case", ["text", "two_tools", "thinking_text_tool", "refusal", "late_refusal", "token_cap"])
@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_a_whole_stream_is_complete_closed_counted_and_without_a_violation(dialect: str, case: str) -> None:
    observer = replay(dialect, case)
    assert (observer.complete, observer.closed, observer.failure, observer.violations) == (True, True, None, [])
    assert observer.usage is not None
    assert observer.usage.input_total == 12


@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_T22_an_error_closes_without_completing(dialect: str) -> None:
    observer = replay(dialect, "error")
    assert (observer.complete, observer.closed) == (False, True)
    assert observer.failure is not None


@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_T23_a_cut_stream_is_neither_complete_nor_closed(dialect: str) -> None:
    observer = replay(dialect, "cut")
    assert (observer.complete, observer.closed, observer.failure) == (False, False, None)


def test_chat_takes_several_choices_and_is_complete_when_all_have_finished() -> None:
    observer = watch(ChatObserver(), piece(0), piece(1), piece(0, "stop"))
    assert not observer.complete
    watch(observer, piece(1, "length"))
    assert (observer.complete, observer.closed, observer.violations) == (True, False, [])
    watch(observer, {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, "[DONE]")
    assert (observer.closed, observer.usage) == (True, Usage(1, None, None, 2))


def test_T27_chat_stays_complete_when_chunks_follow_the_finish() -> None:
    observer = watch(ChatObserver(), piece(0), piece(0, "stop"), piece(0, usage={"prompt_tokens": 3}))
    assert observer.complete
    assert observer.violations == ["a chunk of a choice that had finished"]
    assert observer.usage == Usage(3)


@pytest.mark.parametrize("before", [[], [piece(0)], [piece(0, "stop"), piece(1)]])
def test_T27_chat_done_before_every_finish_closes_without_completing(before: list[Any]) -> None:
    observer = watch(ChatObserver(), *before, "[DONE]")
    assert (observer.complete, observer.closed) == (False, True)
    assert observer.violations == ["[DONE] before every choice had finished"]


@pytest.mark.parametrize("frame", ["{", "[]", '"x"', {"id": "x"}, {"choices": ["x"]}, {"choices": [{"index": []}]}])
def test_chat_notes_what_is_no_chunk(frame: Any) -> None:
    assert watch(ChatObserver(), frame).violations


START = {"type": "message_start", "message": {"usage": {"input_tokens": 8, "cache_read_input_tokens": 4}}}


def block(name: str, index: Any) -> dict[str, Any]:
    return {"type": f"content_block_{name}", "index": index}


def test_messages_lays_later_counts_over_earlier_ones() -> None:
    later = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 7, "input_tokens": None},
    }
    observer = watch(MessagesObserver(), START, later, named=True)
    assert observer.usage == Usage(12, 4, None, 7, None)
    assert not observer.complete
    watch(observer, {"type": "message_stop"}, named=True)
    assert (observer.complete, observer.closed, observer.violations) == (True, True, [])


@pytest.mark.parametrize(
    ("frames", "violation"),
    [
        ([START], "message_start twice"),
        ([block("delta", 0)], "a delta of a block that is not open"),
        ([block("stop", 0)], "a stop of a block that is not open"),
        ([block("start", 0), block("start", 0)], "a block started twice"),
        ([block("start", 0), {"type": "message_stop"}], "message_stop out of place"),
        (["{"], "a frame that is not JSON"),
        (["[]"], "a frame that is not a JSON object"),
    ],
)
def test_T02_T13_messages_notes_breaches(frames: list[Any], violation: str) -> None:
    assert watch(MessagesObserver(), START, *frames, named=True).violations == [violation]


def test_messages_notes_an_event_line_that_disagrees() -> None:
    observer = MessagesObserver()
    observer.observe(json.dumps(START).encode(), "ping")
    assert observer.violations == ["event line 'ping' with type 'message_start'"]


@pytest.mark.parametrize("observer", [ChatObserver(), MessagesObserver()])
def test_what_comes_behind_the_end_is_a_violation_and_changes_nothing(observer: Observer) -> None:
    watch(observer, {"error": {"message": "no"}, "type": "error"}, named=True)
    failure = observer.failure
    watch(observer, START, piece(0, "stop"), "[DONE]", named=True)
    assert (observer.failure, observer.complete) == (failure, False)
    assert len(observer.violations) == 3


@pytest.mark.parametrize("observer", [ChatObserver(), MessagesObserver()])
def test_violations_are_bounded(observer: Observer) -> None:
    watch(observer, *["{"] * 100)
    assert len(observer.violations) == 8


def test_the_error_frame_is_the_dialects_own() -> None:
    failure = StreamTruncated().failure
    assert chat.check(encode(ChatObserver().error_frame(failure))).error is not None
    data = encode(MessagesObserver().error_frame(failure))
    assert messages.check(data).error is not None


_odd = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("choices", "usage", "error", "detail"), _odd)), _odd, _odd)
def test_no_value_makes_the_chat_observer_raise(chunk: Any, index: Any, finish: Any) -> None:
    watch(ChatObserver(), chunk, {"choices": [{"index": index, "finish_reason": finish}]}, "[DONE]")


@given(st.sampled_from(("start", "delta", "stop")), _odd, _odd, _odd)
def test_no_value_makes_the_messages_observer_raise(name: str, index: Any, message: Any, usage: Any) -> None:
    frames = [{"type": "message_start", "message": message}, block(name, index), {"type": message}]
    watch(MessagesObserver(), *frames, {"type": "message_delta", "usage": usage}, {"type": "error", "error": usage})


CALL = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f"}}
STOP = {"type": "message_stop"}
ENDED = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}


def test_messages_stop_within_an_open_call_is_a_fault_and_completes_nothing() -> None:
    observer = watch(MessagesObserver(), START, CALL, STOP, named=True)
    assert (observer.complete, observer.closed) == (False, True)
    assert observer.fault is not None
    assert (observer.fault.status, observer.fault.code) == (502, "stream_truncated")
    assert "open tool call" in observer.fault.message


def test_messages_stop_within_an_open_text_is_a_breach_only() -> None:
    text = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    observer = watch(MessagesObserver(), START, text, ENDED, STOP, named=True)
    assert (observer.complete, observer.closed, observer.fault) == (True, True, None)
    assert observer.violations == ["message_stop out of place"]


def test_messages_stop_without_a_stop_reason_is_a_fault() -> None:
    unknown = {"type": "message_delta", "delta": {"stop_reason": None}}
    observer = watch(MessagesObserver(), START, unknown, STOP, named=True)
    assert observer.fault is not None
    assert observer.fault.code == "stream_truncated"
    assert (observer.complete, observer.closed) == (False, True)


def test_done_in_a_messages_stream_means_nothing() -> None:
    observer = watch(MessagesObserver(), START, ENDED, "[DONE]", STOP, named=True)
    assert (observer.complete, observer.fault, observer.violations) == (True, None, [])


@pytest.mark.parametrize("make", [ChatObserver, MessagesObserver])
@pytest.mark.parametrize("frame", ["{", "[]", '"x"', "<html>"])
def test_a_frame_that_is_no_json_object_is_a_fault(make: type[Observer], frame: str) -> None:
    observer = watch(make(), frame)
    assert observer.fault is not None
    assert observer.fault.code == "upstream_protocol"
    assert not observer.complete


def test_names_that_an_upstream_chose_forge_no_log_line() -> None:
    observer = MessagesObserver()
    observer.observe(json.dumps({"type": "x\nERROR forged \x1b[31m"}).encode(), "y" * 200_000)
    (violation,) = observer.violations
    assert violation.isprintable()
    assert len(violation) < 300
    assert "<200000 characters>" in violation
