"""Log probabilities: read from Chat upstreams, written for Chat clients, cut with their text (mapping §7.1, §9.6)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from dragoman import direction, translate
from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Logprobs,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.canonical.parts import Part, Reasoning, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of
from dragoman.dialects.chat.reply.read import read_reply
from dragoman.dialects.chat.reply.write import write_reply
from dragoman.dialects.chat.stream.reader import ChatReader as Reader
from dragoman.dialects.chat.stream.writer import ChatWriter as Writer
from dragoman.errors import Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.stop_sequences import StopCutter, cut_reply
from dragoman.wire.sse import Frame
from support.frames import frames_of

Json = dict[str, Any]


def token(text: str, **fields: Any) -> Json:
    return {"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": [], **fields}


def asked(**fields: Any) -> ReplyContext:
    return ReplyContext("m", 1, "req_1", logprobs=True, **fields)


def piece(delta: Json, *tokens: Json, finish: str | None = None, **logprobs: Any) -> Json:
    choice: Json = {"index": 0, "delta": delta, "finish_reason": finish}
    if tokens or logprobs:
        choice["logprobs"] = {"content": list(tokens), **logprobs}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def read(*chunks: Json, context: ReplyContext | None = None) -> list[Event]:
    reader = Reader(context or asked())
    return reader.feed([Frame("", json.dumps(chunk).encode()) for chunk in chunks])


# --- reading ----------------------------------------------------------------------------------------------------------


def test_tokens_follow_their_text() -> None:
    events = read(piece({"role": "assistant", "content": ""}), piece({"content": "He"}, token("He")))
    assert events[1:] == [BlockStart(0, "text"), Delta(0, "He"), Logprobs(0, [token("He")])]


def test_tokens_follow_their_text_even_if_the_chunk_has_more() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    context = asked()
    events = read(piece({"content": "He", "refusal": "No.", "tool_calls": [call]}, token("He")), context=context)
    assert events[2:4] == [Delta(0, "He"), Logprobs(0, [token("He")])]
    assert not context.losses.counts


def test_tokens_of_a_part_of_a_character_come_with_no_text() -> None:
    """Some servers hold a text back until its last character is whole, but not its tokens."""
    half = token("\\xf0\\x9f", bytes=[240, 159])
    events = read(
        piece({"content": "a"}, token("a")), piece({"content": ""}, half), piece({"content": "👋"}, token("b"))
    )
    assert events[2:] == [
        Delta(0, "a"),
        Logprobs(0, [token("a")]),
        Logprobs(0, [half]),
        Delta(0, "👋"),
        Logprobs(0, [token("b")]),
    ]


@pytest.mark.parametrize("tokens", [[], None])
def test_none_were_given(tokens: Any) -> None:
    events = read(piece({"content": "a"}, content=tokens), piece({"content": "b"}, refusal=None))
    assert events[2:] == [Delta(0, "a"), Delta(0, "b")]


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "Hm"},
        {"refusal": "No."},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]},
    ],
)
def test_tokens_of_what_is_no_text_are_left_out_with_a_row(delta: Json) -> None:
    context = asked()
    events = read(piece(delta, token("Hm")), context=context)
    assert not any(isinstance(event, Logprobs | Error) for event in events)
    assert context.losses.counts == {LossCode.UNKNOWN_FIELD: 1}


def test_tokens_of_a_refusal_are_left_out_with_a_row() -> None:
    context = asked()
    read(piece({"refusal": "No."}, content=None, refusal=[token("No.")]), context=context)
    assert context.losses.rows[0][:2] == (LossCode.UNKNOWN_FIELD, "choices[0].logprobs.refusal")


def test_tokens_that_were_not_asked_for_are_left_out_with_one_row() -> None:
    context = ReplyContext("m")
    events = read(piece({"content": "a"}, token("a")), piece({"content": "b"}, token("b")), context=context)
    assert events[2:] == [Delta(0, "a"), Delta(0, "b")]
    assert [row.code for row in context.losses.rows] == [LossCode.UNKNOWN_FIELD]


@pytest.mark.parametrize(
    "logprobs",
    [
        "x",
        [5],
        {"content": "x"},
        {"content": [5]},
        {"content": [{"token": "a"}]},
        {"content": [token("a", logprob=True)]},
        {"content": [token("a", top_logprobs=5)]},
        {"content": [token("a", top_logprobs=[{"token": 5, "logprob": 0}])]},
    ],
)
def test_tokens_that_are_none_are_left_out_with_a_row(logprobs: Any) -> None:
    chunk = piece({"content": "a"})
    chunk["choices"][0]["logprobs"] = logprobs
    streamed, complete = asked(), asked()
    assert read(chunk, context=streamed)[2:] == [Delta(0, "a")]
    whole({"content": "a"}, logprobs, complete)
    assert streamed.losses.rows == complete.losses.rows
    assert [row.code for row in complete.losses.rows] == [LossCode.UNKNOWN_FIELD]


def whole(message: Json, logprobs: Any, context: ReplyContext | None = None) -> list[Part]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "logprobs": logprobs, "finish_reason": "stop"}
    return read_reply({"id": "1", "choices": [choice]}, context or asked()).parts


def test_a_whole_replys_tokens_are_its_texts() -> None:
    (reasoning, text) = whole({"content": "He", "reasoning_content": "Hm"}, {"content": [token("He")], "refusal": None})
    assert isinstance(reasoning, Reasoning)
    assert isinstance(text, Text)
    assert text.logprobs == [token("He")]


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None, "refusal": None}, {"content": []}])
def test_a_whole_reply_may_have_none(logprobs: Any) -> None:
    (text,) = whole({"content": "He"}, logprobs)
    assert isinstance(text, Text)
    assert text.logprobs is None


def test_a_whole_reply_without_text_has_no_place_for_them() -> None:
    context = asked()
    whole({"content": None, "refusal": "No."}, {"content": [token("x")]}, context)
    assert context.losses.rows[0][:2] == (LossCode.UNKNOWN_FIELD, "choices[0].logprobs.content")


def test_a_whole_reply_that_was_not_asked_for_them_is_read_without() -> None:
    (text,) = whole({"content": "He"}, {"content": [token("He")]}, ReplyContext("m"))
    assert isinstance(text, Text)
    assert text.logprobs is None


# --- writing ----------------------------------------------------------------------------------------------------------

USAGE = Usage(1, None, None, 1)
FINISH: list[Event] = [Finish(Stop(StopReason.END), USAGE), End()]


def written(*events: Event, context: ReplyContext | None = None, step: int | None = None) -> list[Json]:
    """The chunks for events that come in batches of `step`."""
    writer = Writer(context or asked())
    given = [Start("1", "m"), *events]
    frames: list[Frame] = []
    for at in range(0, len(given), step or len(given)):
        frames += frames_of(writer.feed(given[at : at + (step or len(given))]))
    return [json.loads(frame.data) for frame in frames if frame.data not in (None, b"[DONE]")]


def accumulated(chunks: list[Json]) -> ChatCompletion:
    """The completion that the official SDK makes of the chunks."""
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    return state.get_final_completion()


@pytest.mark.parametrize("usage", [False, True])
def test_tokens_stand_on_the_chunk_of_their_text(usage: bool) -> None:
    bare = {"token": "He", "logprob": -1, "top_logprobs": None}
    events = [BlockStart(0, "text"), Delta(0, "He"), Logprobs(0, [bare]), Delta(0, "y"), BlockEnd(0), *FINISH]
    chunks = written(*events, context=asked(include_usage=usage))
    choice_with_text = chunks[1]["choices"][0]
    full = {"token": "He", "logprob": -1, "bytes": None, "top_logprobs": []}
    assert choice_with_text == {
        "index": 0,
        "delta": {"content": "He"},
        "logprobs": {"content": [full], "refusal": None},
        "finish_reason": None,
    }
    assert "logprobs" not in chunks[2]["choices"][0]
    assert len(chunks) == (5 if usage else 4)


def test_tokens_without_a_text_of_their_own_get_a_chunk() -> None:
    events: list[Event] = [
        BlockStart(0, "text"),
        Delta(0, "a"),
        Logprobs(0, [token("a")]),
        Logprobs(0, [token("b")]),
    ]
    for step in (None, 1):
        chunks = written(*events, step=step)
        assert [chunk["choices"][0].get("logprobs", {}).get("content", [{}])[0].get("token") for chunk in chunks][
            -2:
        ] == ["a", "b"]
        assert chunks[-1]["choices"][0]["delta"] == {}


def test_tokens_do_not_go_to_the_chunk_of_another_block() -> None:
    events: list[Event] = [
        BlockStart(0, "text"),
        Delta(0, "a"),
        BlockStart(1, "tool", "c", "f"),
        Delta(1, "{}"),
    ]
    chunks = written(*events, Logprobs(0, [token("a")]))
    assert "logprobs" not in chunks[-2]["choices"][0]
    assert chunks[-1]["choices"][0]["delta"] == {}


def test_a_whole_reply_shows_them() -> None:
    reply = Reply("1", "m", [Text("a", logprobs=[token("a")]), Text("b", logprobs=[token("b")])], Stop(StopReason.END))
    body = write_reply(reply, asked())
    assert body["choices"][0]["logprobs"] == {"content": [token("a"), token("b")], "refusal": None}
    assert write_reply(reply, ReplyContext("m"))["choices"][0]["logprobs"] is None
    bare = Reply("1", "m", [Text("a")], Stop(StopReason.END))
    assert write_reply(bare, asked())["choices"][0]["logprobs"] is None


def test_the_official_sdk_accumulates_a_stream_to_the_whole_reply() -> None:
    tokens = [token("He"), token("y", top_logprobs=[{"token": "y", "logprob": -0.5, "bytes": [121]}])]
    parts: list[Part] = [Reasoning("Hm", origin="chat"), Text("Hey", logprobs=tokens), ToolCall("c", "f", "{}")]
    reply = Reply("1", "m", parts, Stop(StopReason.TOOL_CALLS), USAGE, 1)
    streamed = accumulated(written(*events_of(reply)[1:], context=asked(include_usage=True)))
    one = ChatCompletion.model_validate(write_reply(reply, asked()))
    assert streamed.choices[0].logprobs is not None
    assert streamed.choices[0].logprobs == one.choices[0].logprobs
    assert streamed.choices[0].message.content == one.choices[0].message.content


# --- cutting ----------------------------------------------------------------------------------------------------------

_WORDS = st.lists(st.sampled_from(("a", "E", "EN", "D", "END", "é", "👋", "\n", " x")), min_size=1, max_size=8)


def token_stream(words: list[str]) -> tuple[str, list[Json], list[Event]]:
    """A text of such tokens, in a stream that has each character with the token that completes it."""
    data = "".join(words).encode()
    events: list[Event] = []
    tokens = []
    places = [0, *(len("".join(words[: n + 1]).encode()) for n in range(len(words)))]
    for first, last in pairwise(places):
        tokens.append(token(data[first:last].decode()))
        events += [Delta(0, data[first:last].decode()), Logprobs(0, [tokens[-1]])]
    return data.decode(), tokens, events


@given(_WORDS, st.lists(st.sampled_from(("END", "NDa", "\n", "é👋", "x E")), min_size=1, max_size=2))
def test_tokens_are_cut_with_their_text_in_streams_and_whole_alike(words: list[str], stops: list[str]) -> None:
    text, tokens, events = token_stream(words)
    cutter = StopCutter(asked(), stops)
    out = cutter.feed([BlockStart(0, "text"), *events, BlockEnd(0), *FINISH])
    reply = Reply("1", "m", [Text(text, logprobs=tokens)], Stop(StopReason.END))
    cut_reply(reply, stops, Losses())
    (part,) = reply.parts
    assert isinstance(part, Text)
    assert [one for event in out if isinstance(event, Logprobs) for one in event.tokens] == (part.logprobs or [])
    shown = 0
    covered = 0
    for event in out:
        if isinstance(event, Delta):
            shown += len(event.text.encode())
        elif isinstance(event, Logprobs):
            covered += sum(len(one["bytes"]) for one in event.tokens)
            assert covered <= shown, "a token was sent before its text"
    assert shown == len(part.text.encode())
    if part.text == text:
        assert covered == shown


def test_tokens_of_a_delta_that_is_cut_in_its_middle_are_those_of_what_is_left() -> None:
    tokens = [token("a"), token("b"), token("END"), token(" c")]
    out = StopCutter(asked(), ["END"]).feed([BlockStart(0, "text"), Delta(0, "abEND c"), Logprobs(0, tokens)])
    assert out[1:4] == [Delta(0, "ab"), Logprobs(0, tokens[:2]), BlockEnd(0)]
    reply = Reply("1", "m", [Text("abEND c", logprobs=tokens)], Stop(StopReason.END))
    cut_reply(reply, ["END"], Losses())
    assert reply.parts == [Text("ab", logprobs=tokens[:2])]


def test_tokens_that_never_fit_their_text_are_not_hoarded() -> None:
    cutter = StopCutter(asked(), ["END"])
    strange = [token("much longer than its text")] * 1000
    out = cutter.feed([BlockStart(0, "text")])
    for _ in range(9):
        out += cutter.feed([Delta(0, "a"), Logprobs(0, list(strange))])
    assert sum(len(event.tokens) for event in out if isinstance(event, Logprobs)) >= 5000
    out += cutter.feed([BlockEnd(0), *FINISH])
    assert sum(len(event.tokens) for event in out if isinstance(event, Logprobs)) == 9000


def test_a_request_for_them_reaches_no_messages_upstream() -> None:
    body: Json = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    for fields in ({"logprobs": True}, {"logprobs": True, "top_logprobs": 2}):
        with pytest.raises(Unsupported, match=r"^logprobs: a Messages upstream gives no log probabilities"):
            translate(direction("chat", "messages"), json.dumps(body | fields).encode())
