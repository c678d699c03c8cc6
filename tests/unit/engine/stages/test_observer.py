"""The observers of a passthrough: when a stream may end, its cost, its content, and where it broke its grammar."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.chat.stream.observer import ChatObserver
from dragoman.dialects.messages.stream.observer import MessagesObserver
from dragoman.errors import StreamTruncated
from dragoman.stages.observer import Observer
from dragoman.wire.sse import encode
from dragoman.wire.sse_parser import Parser
from oracles.grammar import chat, messages
from support.paths import TRANSCRIPTS


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


START = {"type": "message_start", "message": {"usage": {"input_tokens": 8, "cache_read_input_tokens": 4}}}


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
