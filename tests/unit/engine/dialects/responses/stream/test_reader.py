"""The Responses stream reader on the worked streams of streams §7, and its laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockStart,
    Citation,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Logprobs,
    Opaque,
    Ping,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.dialects.responses.stream.reader import ResponsesReader as Reader
from dragoman.errors import FailureKind
from dragoman.losses import LossCode
from dragoman.profiles.profile import builtin_profile
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame, OddFrame
from dragoman.wire.sse_parser import Parser
from support import canonical
from support.responses_frames import (
    Json,
    added,
    at,
    call,
    closes,
    created,
    cut,
    done,
    ended,
    frames,
    message,
    opens,
    read,
    reasoned,
    refusal_part,
    response,
    text_part,
    writes,
)
from support.responses_upstreams import responses_streams
from support.strategies import RESPONSES_ONLY

START = Start("resp_u", "m", None, 5)
COUNTS = Usage(12, 4, 0, 7, 0)
BEGUN: list[Json] = [created(), {"type": "response.in_progress", "response": response()}]


def finish(reason: StopReason, native: str = "completed") -> list[Event]:
    return [Finish(Stop(reason, native), COUNTS), End()]


def fragment(index: int, text: str) -> Json:
    return at(index, "function_call_arguments.delta", delta=text)


def test_text() -> None:
    received = message(text_part("Hello"))
    assert read(*BEGUN, *opens(0), *writes(0, "Hel", "lo"), *closes(0, "Hello"), ended(received)) == [
        START,
        BlockStart(0, "text"),
        Delta(0, "Hel"),
        Delta(0, "lo"),
        BlockEnd(0),
        *finish(StopReason.END),
    ]


def test_T01_T03_text_then_two_interleaved_calls() -> None:
    weather, time = call("call_a", "get_weather", '{"city":"Oslo"}'), call("call_b", "get_time", '{"tz":"CET"}')
    stream = [
        *opens(0),
        *writes(0, "Looking up"),
        *closes(0, "Looking up"),
        added(1, **weather | {"arguments": ""}),
        added(2, **time | {"arguments": ""}),
        fragment(1, '{"city":'),
        fragment(2, '{"tz":'),
        fragment(1, '"Oslo"}'),
        fragment(2, '"CET"}'),
        at(1, "function_call_arguments.done", arguments='{"city":"Oslo"}'),
        done(1, **weather),
        at(2, "function_call_arguments.done", arguments='{"tz":"CET"}'),
        done(2, **time),
    ]
    assert read(*BEGUN, *stream, ended(message(text_part("Looking up")), weather, time))[4:] == [
        BlockStart(1, "tool", "call_a", "get_weather"),
        BlockStart(2, "tool", "call_b", "get_time"),
        Delta(1, '{"city":'),
        Delta(2, '{"tz":'),
        Delta(1, '"Oslo"}'),
        BlockEnd(1),
        Delta(2, '"CET"}'),
        BlockEnd(2),
        *finish(StopReason.TOOL_CALLS),
    ]


def test_T12_T14_reasoning_text_and_call_are_three_blocks() -> None:
    item = reasoned("Need weather", encrypted_content="ENC")
    stream = [
        added(0, **reasoned(encrypted_content="provisional")),
        at(0, "reasoning_text.delta", delta="Need"),
        at(0, "reasoning_text.delta", delta=" weather"),
        at(0, "reasoning_text.done", text="Need weather"),
        done(0, **item, status="completed"),
        *opens(1),
        *writes(1, "Checking"),
        *closes(1, "Checking"),
        added(2, **call(arguments="")),
        fragment(2, "{}"),
        done(2, **call()),
    ]
    assert read(*BEGUN, *stream, ended(item, message(text_part("Checking")), call())) == [
        START,
        BlockStart(0, "reasoning"),
        Delta(0, "Need"),
        Delta(0, " weather"),
        Opaque(0, "responses", "encrypted_content", "ENC"),
        BlockEnd(0),
        BlockStart(1, "text", apart=True),
        Delta(1, "Checking"),
        BlockEnd(1),
        BlockStart(2, "tool", "call_a", "f"),
        Delta(2, "{}"),
        BlockEnd(2),
        *finish(StopReason.TOOL_CALLS),
    ]


def test_a_refusal_in_words() -> None:
    part = refusal_part("I can't help.")
    stream = [
        *opens(0, refusal_part()),
        at(0, "refusal.delta", delta="I can't help."),
        at(0, "refusal.done", refusal="I can't help."),
        at(0, "content_part.done", part=part),
        done(0, **message(part)),
    ]
    assert read(*BEGUN, *stream, ended(message(part))) == [
        START,
        BlockStart(0, "refusal"),
        Delta(0, "I can't help."),
        BlockEnd(0),
        *finish(StopReason.REFUSAL),
    ]


def test_a_filter_after_visible_text() -> None:
    received = message(text_part("Step one"), status="incomplete")
    events = read(
        *BEGUN, *opens(0), *writes(0, "Step one"), *closes(0, "Step one", "incomplete"), cut("content_filter", received)
    )
    assert events[3:] == [BlockEnd(0), *finish(StopReason.FILTERED, "content_filter")]


def test_the_token_cap_inside_arguments_wins_over_the_call() -> None:
    item = call(arguments='{"path":"a', status="incomplete")
    events = read(
        *BEGUN,
        added(0, **item | {"arguments": ""}),
        fragment(0, '{"path":"a'),
        done(0, **item),
        cut("max_output_tokens", item),
    )
    assert events == [
        START,
        BlockStart(0, "tool", "call_a", "f"),
        Delta(0, '{"path":"a'),
        BlockEnd(0, complete=False),
        *finish(StopReason.LENGTH, "max_output_tokens"),
    ]


FAILED: Json = {
    "type": "response.failed",
    "response": response("failed", error={"code": "server_is_overloaded", "message": "The server is overloaded"}),
}


def test_T22_an_error_in_mid_stream_closes_nothing() -> None:
    *received, error = read(*BEGUN, *opens(0), *writes(0, "Hel"), FAILED)
    assert received == [START, BlockStart(0, "text"), Delta(0, "Hel")]
    assert isinstance(error, Error)
    assert (error.failure.kind, error.failure.message) == (FailureKind.OVERLOADED, "The server is overloaded")


def test_T23_a_cut_stream_is_an_error() -> None:
    *received, error = read(*BEGUN, *opens(0), *writes(0, "Hel"))
    assert received == [START, BlockStart(0, "text"), Delta(0, "Hel")]
    assert isinstance(error, Error)
    assert error.failure.code == "stream_truncated"


def test_custom_calls_are_free_text_and_searches_are_objects() -> None:
    patch = {"type": "custom_tool_call", "id": "ctc_a", "call_id": "call_p", "name": "apply_patch", "input": "*** x"}
    search = {"type": "tool_search_call", "execution": "client", "call_id": "call_s", "arguments": {"query": "q"}}
    events = read(
        *BEGUN,
        added(0, **patch | {"input": ""}),
        at(0, "custom_tool_call_input.delta", delta="*** "),
        at(0, "custom_tool_call_input.done", input="*** x"),
        done(0, **patch),
        added(1, **search | {"arguments": {}}),
        done(1, **search),
        ended(patch, search),
    )
    assert events[1:-2] == [
        BlockStart(0, "tool", "call_p", "apply_patch", custom=True),
        Delta(0, "*** "),
        Delta(0, "x"),
        BlockEnd(0),
        BlockStart(1, "tool", "call_s", "tool_search", search=True),
        Delta(1, '{"query":"q"}'),
        BlockEnd(1),
    ]


def test_names_go_back_and_namespaces_come_along() -> None:
    context = ReplyContext("m", names={"sent_1": "sent.by/client"})
    events = read(*BEGUN, done(0, **call(name="sent_1", namespace="mcp__notes")), ended(), context=context)
    assert events[1] == BlockStart(0, "tool", "call_a", "sent.by/client", namespace="mcp__notes")


def test_annotations_and_the_log_probabilities_that_were_asked_for() -> None:
    web = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}
    file: Json = {"type": "file_citation", "file_id": "file-1", "filename": "a", "index": 0}
    tokens = [{"token": "Hi", "logprob": -0.5}]
    stream: list[Json] = [
        *opens(0),
        at(0, "output_text.delta", delta="Hi", logprobs=tokens),
        at(0, "output_text.annotation.added", annotation_index=0, annotation=web),
        at(0, "content_part.done", part=text_part("Hi", logprobs=tokens) | {"annotations": [web, file]}),
        done(0, **message(text_part("Hi"))),
        ended(),
    ]
    finals = [
        Annotation(0, Citation("responses", web, "https://a.example", "A", 0, 2)),
        Annotation(0, Citation("responses", file)),
    ]
    assert read(*BEGUN, *stream)[2:-3] == [Delta(0, "Hi"), *finals]
    asked = read(*BEGUN, *stream, context=ReplyContext("m", logprobs=True))
    assert asked[2:-3] == [Delta(0, "Hi"), Logprobs(0, tokens), *finals]


HOSTED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (HOSTED, LossCode.HOSTED_HISTORY),
        ({"type": "mcp_call", "id": "mcp_1"}, LossCode.HOSTED_HISTORY),
        ({"type": "compaction", "encrypted_content": "C"}, LossCode.VENDOR_BLOCK),
        ({"type": "tool_search_call", "execution": "server", "arguments": {}}, LossCode.TOOL_SEARCH),
    ],
)
def test_a_hosted_item_is_one_opaque_block(item: Json, code: LossCode) -> None:
    context = ReplyContext("m")
    progress = {"type": f"response.{item['type']}.in_progress", "output_index": 0, "item_id": "x"}
    events = read(*BEGUN, added(0, **item), progress, done(0, **item, more=1), ended(item), context=context)
    assert events[1:] == [
        BlockStart(0, "opaque", name=item["type"], code=code),
        Opaque(0, "responses", "block", {**item, "more": 1}),
        BlockEnd(0),
        *finish(StopReason.END),
    ]
    assert not context.losses


@pytest.mark.parametrize("envelope", [None, Envelope("openai", "gpt")])
@pytest.mark.parametrize("profile", ["openai", "compatible"])
def test_T10_T16_T17_the_whole_reasoning_item_rides_along_for_clients_that_keep_it(
    envelope: Envelope | None, profile: str
) -> None:
    context = ReplyContext("m", envelope=envelope, profile=builtin_profile("responses", profile))
    encrypted = {"type": "reasoning", "id": "rs_1", "encrypted_content": "ENC", "content": None, "status": "completed"}
    plain = reasoned("t") | {"status": "completed", "encrypted_content": None}
    events = read(*BEGUN, done(0, **encrypted), done(1, **plain), ended(), context=context)
    opaque = [event for event in events if isinstance(event, Opaque)]
    native = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC"}
    expected = [Opaque(0, "responses", "encrypted_content", "ENC", native if envelope else None)]
    if envelope and profile == "compatible":
        expected.append(Opaque(1, "responses", "encrypted_content", None, reasoned("t")))
    assert opaque == expected


def split_feed(data: bytes, sizes: list[int], context: ReplyContext) -> list[Event]:
    reader, parser, out = Reader(context), Parser(), list[Event]()
    frames_of: list[Frame] = [*parser.feed(data), *parser.finish()]
    for size in sizes:
        out += reader.feed(frames_of[:size])
        del frames_of[:size]
    out += reader.feed(frames_of)
    return out + reader.finish()


@given(responses_streams(RESPONSES_ONLY), st.lists(st.integers(0, 4), max_size=40))
def test_any_split_yields_the_same_events_in_the_grammar(upstream: Any, sizes: list[int]) -> None:
    one = split_feed(upstream.data, [], ReplyContext("m"))
    assert split_feed(upstream.data, sizes, ReplyContext("m")) == one
    canonical.check(one)


def test_comments_and_keepalives_are_signs_of_life() -> None:
    reader = Reader(ReplyContext("m"))
    beat = OddFrame("", None)
    assert reader.feed([beat, *frames({"type": "keepalive", "sequence_number": 3})]) == [Ping(), Ping()]
