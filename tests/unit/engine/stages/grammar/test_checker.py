"""The judge's input and memory: any bytes, a limited memory, and time in proportion to the bytes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.reply_context import ReplyContext
from dragoman.stages.grammar.checker import Grammar, GrammarChecker
from support.verdicts import TEXT, checker_of, golden_frames

CHAT, MESSAGES, RESPONSES, *_ = Dialect
MIB = 1024 * 1024


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
@given(pieces=st.lists(st.binary(max_size=200), max_size=5), valid=st.integers(0, 4))
def test_any_bytes_are_judged(dialect: Dialect, pieces: list[bytes], valid: int) -> None:
    judge = checker_of(dialect)
    for frame in golden_frames(TEXT[dialect])[:valid]:
        judge.feed(frame)
    for piece in pieces:
        judge.feed(piece + b"\n\n")
    judge.finish()
    assert judge.over


NESTED = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
ODD = {
    "too deep": NESTED,
    "a long integer": b'{"type":"ping","index":' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_read_is_not_judged(dialect: Dialect, name: str) -> None:
    """It is valid JSON, so it is no violation."""
    judge = checker_of(dialect)
    judge.feed(b"data: " + ODD[name] + b"\n\n")
    judge.finish()
    assert judge.over
    assert judge.violation is None


def test_a_frame_beyond_the_limit_ends_the_judging() -> None:
    frames = golden_frames(TEXT[CHAT])
    for size, over in ((900, False), (1100, True)):
        judge = GrammarChecker(CODECS[CHAT].grammar(ReplyContext("m", include_usage=True)), 1000)
        judge.feed(frames[0])
        text = b": " + b"x" * (size - 2) + b"\n\n"
        judge.feed(text)
        assert (judge.over, judge.violation) == (over, None)


def _chat() -> Iterator[bytes]:
    head = '"id":"c","object":"chat.completion.chunk","created":1,"model":"m","usage":null,"choices":[{"index":0,'
    yield f'data: {{{head}"delta":{{"role":"assistant","content":""}},"finish_reason":null}}]}}\n\n'.encode()
    for number in range(50_000):
        call = {"index": number, "id": f"call_{number}", "type": "function", "function": {"name": "f", "arguments": ""}}
        yield f'data: {{{head}"delta":{{"tool_calls":[{json.dumps(call)}]}},"finish_reason":null}}]}}\n\n'.encode()


def _messages() -> Iterator[bytes]:
    yield golden_frames(TEXT[MESSAGES])[0]
    for number in range(50_000):
        block = {"type": "tool_use", "id": f"call_{number}", "name": "f", "input": {}}
        start = {"type": "content_block_start", "index": number, "content_block": block}
        end = {"type": "content_block_stop", "index": number}
        for event in (start, end):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _responses() -> Iterator[bytes]:
    frames = golden_frames(TEXT[RESPONSES])
    yield from frames[:2]
    for number in range(50_000):
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "f"}
        body = {**item, "arguments": "", "status": "in_progress"}
        name = "response.output_item.added"
        event = {"type": name, "sequence_number": number + 2, "output_index": number, "item": body}
        yield f"event: {name}\ndata: {json.dumps(event)}\n\n".encode()


@pytest.mark.turns
@pytest.mark.parametrize(("dialect", "stream"), [(CHAT, _chat), (MESSAGES, _messages), (RESPONSES, _responses)])
def test_what_is_kept_of_a_stream_is_limited(dialect: Dialect, stream: Callable[[], Iterator[bytes]]) -> None:
    """Each frame adds something that has to be remembered until the end."""
    judge = checker_of(dialect)
    tracemalloc.start()
    try:
        for number, frame in enumerate(stream()):
            judge.feed(frame)
            assert judge.violation is None, (number, judge.violation)
            if judge.over:
                break
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert judge.over
    assert judge.position > 100
    assert size < 4 * MIB


class _Failing(Grammar):
    def read(self, event: str, data: str | None) -> None:
        raise KeyError("a check that the grammar lacks")


def test_a_grammar_that_fails_does_not_end_the_stream() -> None:
    judge = GrammarChecker(_Failing())
    judge.feed(b"data: {}\n\n")
    assert judge.violation is not None
    assert judge.violation.rule == "a frame of an unknown form"
