"""The observer of Messages streams that pass through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import Usage
from dragoman.dialects.messages.stream.observer import MessagesObserver
from dragoman.stages.observer import Observer
from support.strategies import texts


def watch(observer: Observer, *payloads: Any, named: bool = False) -> Observer:
    for payload in payloads:
        data = payload if isinstance(payload, str) else json.dumps(payload)
        event = payload.get("type", "") if named and isinstance(payload, dict) else ""
        observer.observe(data.encode(), event)
    return observer


MESSAGE = {"id": "m", "model": "up", "role": "assistant", "content": []}
COUNTS = {"input_tokens": 8, "output_tokens": 1, "cache_read_input_tokens": 4}
START = {"type": "message_start", "message": {**MESSAGE, "usage": COUNTS}}

TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}


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
    "frames", [[START], [block("delta", 0)], [block("stop", 0)], [block("start", 0), block("start", 0)]]
)
def test_T02_T13_what_messages_clients_would_misread_is_odd(frames: list[Any]) -> None:
    observer = watch(MessagesObserver(), START, *frames, named=True)
    assert (observer.odd, observer.violations) == (True, [])


@pytest.mark.parametrize(
    ("frames", "violation"),
    [
        ([TEXT, {"type": "message_stop"}], "message_stop out of place"),
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


_odd = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)


@given(st.sampled_from(("start", "delta", "stop")), _odd, _odd, _odd)
def test_no_value_makes_the_messages_observer_raise(name: str, index: Any, message: Any, usage: Any) -> None:
    frames = [{"type": "message_start", "message": message}, block(name, index), {"type": message}]
    watch(MessagesObserver(), *frames, {"type": "message_delta", "usage": usage}, {"type": "error", "error": usage})


CALL = {
    "type": "content_block_start",
    "index": 0,
    "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
}
STOP = {"type": "message_stop"}
ENDED = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}


def test_messages_stop_within_an_open_call_is_a_fault_and_completes_nothing() -> None:
    observer = watch(MessagesObserver(), START, CALL, STOP, named=True)
    assert (observer.complete, observer.closed) == (False, True)
    assert observer.fault is not None
    assert (observer.fault.status, observer.fault.code) == (502, "stream_truncated")
    assert "open tool call" in observer.fault.message


def test_messages_stop_reason_within_an_open_text_is_odd() -> None:
    observer = watch(MessagesObserver(), START, TEXT, ENDED, named=True)
    assert (observer.odd, observer.fault) == (True, None)


def test_messages_stop_without_a_stop_reason_is_a_fault() -> None:
    unknown = {**ENDED, "delta": {"stop_reason": None}}
    observer = watch(MessagesObserver(), START, unknown, STOP, named=True)
    assert observer.fault is not None
    assert observer.fault.code == "stream_truncated"
    assert (observer.complete, observer.closed) == (False, True)


def test_done_in_a_messages_stream_means_nothing() -> None:
    observer = watch(MessagesObserver(), START, ENDED, "[DONE]", STOP, named=True)
    assert (observer.complete, observer.fault, observer.violations) == (True, None, [])
