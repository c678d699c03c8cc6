"""Law: Messages clients have one block open at a time, and lose nothing by it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st

from dragoman import Dialect, Knobs, direction
from dragoman.dialects.shared import streamed_arguments as module
from dragoman.dialects.shared.streamed_arguments import Arguments, ReplyBudget
from dragoman.limits import Limits
from oracles.grammar import messages, responses
from support.accumulators import Block, by_index, by_last_block, by_open_block
from support.directions import stream_through, translated
from support.responses_upstreams import responses_streams
from support.strategies import CHAT, MESSAGES, RESPONSES, arguments, fragments, splits
from support.upstreams import Upstream, chat_streams, messages_streams

UPSTREAMS: dict[str, st.SearchStrategy[Upstream]] = {
    "chat": chat_streams(CHAT),
    "messages": messages_streams(MESSAGES),
    "responses": responses_streams(RESPONSES),
}
"""Streams whose blocks overlap as they like: in Chat the calls, elsewhere all of them."""


Order = Literal["auto", "interleave", "sequential"]


def written(client: str, upstream: str, data: bytes, order: Order, pieces: list[bytes] | None = None) -> bytes:
    row = direction(client, upstream)
    # A profile that has a Messages upstream's events read and written again, as those of others are.
    translation = translated(row, profile="compatible", knobs=Knobs(block_order=order))
    translation = replace(translation, rewritten=True) if row.passthrough else translation
    if row.passthrough:
        translation.context.names = {"unused": "unused"}
    return stream_through(translation, pieces or [data])


@pytest.mark.parametrize("upstream", UPSTREAMS)
@given(data=st.data())
def test_clients_that_know_one_open_block_get_what_others_get(upstream: str, data: st.DataObject) -> None:
    sent = data.draw(UPSTREAMS[upstream])
    live = written("messages", upstream, sent.data, "interleave")
    noted = written("messages", upstream, sent.data, "auto", data.draw(splits(sent.data)))
    note(f"{sent.data.decode()}\n---\n{noted.decode()}")
    messages.check(live, overlapping=True)
    messages.check(noted)
    blocks = by_index(noted)
    assert by_last_block(noted) == by_open_block(noted) == blocks
    assert calls(blocks) == calls(by_index(live))
    assert words(blocks) == words(by_index(live))
    if upstream == "chat":
        assert sorted(blocks) == sorted(by_index(live)), "prose of Chat never overlaps"


def calls(blocks: list[Block]) -> list[Block]:
    return [block for block in blocks if block[0] == "tool_use"]


def words(blocks: list[Block]) -> Counter[tuple[str, str]]:
    """All that is stated in a kind of block, in any order."""
    return Counter((kind, char) for kind, _, stated in blocks for char in stated)


@pytest.mark.parametrize("upstream", ["chat", "messages"])
@given(data=st.data())
def test_a_whole_call_is_done_when_the_next_block_starts(upstream: str, data: st.DataObject) -> None:
    sent = data.draw(UPSTREAMS[upstream])
    noted = written("responses", upstream, sent.data, "auto", data.draw(splits(sent.data)))
    live = written("responses", upstream, sent.data, "interleave")
    note(noted.decode())
    early, late = responses.check(noted), responses.check(live)
    assert (early.calls, early.text, early.reasoning) == (late.calls, late.text, late.reasoning)
    assert early.finish == late.finish


@given(st.data())
def test_arguments_are_whole_when_they_are_one_object(data: st.DataObject) -> None:
    text = data.draw(st.one_of(arguments(), st.text('{}[]":,\\a1 \n', max_size=12)))
    found = Arguments(ReplyBudget(Limits()))
    stated = ""
    for piece in data.draw(fragments(text)):
        found.add(piece)
        stated += piece
        if data.draw(st.booleans()):
            assert found.is_whole() in (is_object(stated), is_object(stated.rstrip()))
    if is_object(text):
        assert found.is_whole()


@example('{"a":"\\\\"}')
@example('{"a":"\\\\\\""}')
@example('{"a":"}"}')
@given(arguments())
def test_arguments_are_whole_at_their_last_brace_and_not_before(text: str) -> None:
    found = Arguments(ReplyBudget(Limits()))
    for at, char in enumerate(text.rstrip()):
        assert not found.is_whole(), text[:at]
        found.add(char)
    assert found.is_whole() == is_object(text)
    found.add(" \n")
    assert found.is_whole() == is_object(text)


def is_object(text: str) -> bool:
    try:
        return type(json.loads(text)) is dict
    except ValueError:
        return False


def test_the_look_at_arguments_is_linear_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked, each character is split off once and parsed once."""
    parsed: list[int] = []

    def loads(text: str) -> Any:
        parsed.append(len(text))
        return json.loads(text)

    monkeypatch.setattr(module, "loads", loads)
    for count in (1000, 4000):
        parsed.clear()
        found = Arguments(ReplyBudget(Limits()))
        found.add('{"a":[')
        for _ in range(count):
            found.add('{"b":"}\\""},')
            assert not found.is_whole()
            assert found._scanned == len(found._pieces)
        found.add("0]}")
        for _ in range(count):
            assert found.is_whole()
        assert len(parsed) == 1


def test_seed_example_of_interleaving_is_what_interleave_writes() -> None:
    """Two calls that overlap are accepted, and live where the operator asks for that."""
    row = direction(Dialect.MESSAGES, Dialect.CHAT)
    frames: list[dict[str, Any]] = [
        {"index": 0, "id": "call_a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 1, "id": "call_b", "type": "function", "function": {"name": "g", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a":'}},
        {"index": 1, "function": {"arguments": '{"b":'}},
        {"index": 0, "function": {"arguments": "1}"}},
        {"index": 1, "function": {"arguments": "2}"}},
    ]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"tool_calls": [frame]}, "finish_reason": None} for frame in frames
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    head: dict[str, Any] = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    data = b"".join(b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n" for choice in choices)
    data += b"data: [DONE]\n\n"
    live = stream_through(translated(row, knobs=Knobs(block_order="interleave")), [data])
    events = [json.loads(line[6:]) for line in live.decode().splitlines() if line.startswith("data: ")]
    assert [(event["type"].removeprefix("content_block_"), event["index"]) for event in events if "index" in event] == [
        ("start", 0),
        ("start", 1),
        ("delta", 0),
        ("delta", 1),
        ("delta", 0),
        ("delta", 1),
        ("stop", 0),
        ("stop", 1),
    ]
    ordered = stream_through(translated(row), [data])
    assert by_last_block(live) != by_index(live)
    assert by_last_block(ordered) == by_index(ordered) == by_index(live)
