"""Whole Responses replies, and the law that a stream accumulates to the reply of its last snapshot."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockStart,
    Citation,
    Delta,
    Event,
    Finish,
    Logprobs,
    Opaque,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.canonical.parts import Native, Part, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects.responses.reply.read import read_reply
from dragoman.dialects.responses.stream.reader import ResponsesReader as Reader
from dragoman.errors import FailureKind, UpstreamError, UpstreamProtocolError, UpstreamStatusError
from dragoman.losses import LossCode
from dragoman.profiles.profile import builtin_profile
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse_parser import Parser
from support.mutations import mutated_json
from support.responses_frames import (
    USAGE,
    Json,
    call,
    message,
    reasoned,
    refusal_part,
    response,
    text_part,
)
from support.responses_upstreams import responses_streams
from support.strategies import RESPONSES_ONLY

COUNTS = Usage(12, 4, 0, 7, 0)


def reply(*items: Any, status: Any = "completed", context: ReplyContext | None = None, **more: Any) -> Reply:
    return read_reply(response(status, list(items), usage=USAGE) | more, context or ReplyContext("m"))


def test_every_kind_of_part_in_order() -> None:
    search = {"type": "web_search_call", "id": "ws_1"}
    find: Json = {"type": "tool_search_call", "execution": "client", "call_id": "s", "arguments": {"query": "q"}}
    patch: Json = {"type": "custom_tool_call", "call_id": "p", "name": "apply_patch", "input": "*** x"}
    web = {"type": "url_citation", "url": "u", "title": "T", "start_index": 1, "end_index": 2}
    read = reply(
        reasoned("Need", "more", encrypted_content="ENC"),
        search,
        message(text_part("Hi") | {"annotations": [web]}, refusal_part("No")),
        call(namespace="mcp__notes"),
        patch,
        find,
    )
    assert read == Reply(
        "resp_u",
        "m",
        [
            Reasoning("Need\n\nmore", ("output", 0), "responses", "ENC"),
            Native("responses", "web_search_call", search, LossCode.HOSTED_HISTORY, ("output", 1)),
            Text("Hi", ("output", 2, "content", 0), None, [Citation("responses", web, "u", "T", 1, 2)], apart=True),
            Refusal("No", ("output", 2, "content", 1)),
            ToolCall("call_a", "f", "{}", ("output", 3), namespace="mcp__notes"),
            ToolCall("p", "apply_patch", "*** x", ("output", 4), custom=True),
            ToolCall("s", "tool_search", '{"query":"q"}', ("output", 5), search=True),
        ],
        Stop(StopReason.TOOL_CALLS, "completed"),
        COUNTS,
        5,
    )


CANDIDATE = {"token": "H", "logprob": -1.0}


@pytest.mark.parametrize(
    "logprobs",
    [
        "x",
        {"content": []},
        [None],
        [{"token": "H"}],
        *([CANDIDATE | {"top_logprobs": top}] for top in ("x", 1, [None])),
    ],
)
def test_log_probabilities_that_are_none_are_left_out_with_a_row(logprobs: Any) -> None:
    for context in (ReplyContext("m", logprobs=True), ReplyContext("m")):
        (part,) = reply(message(text_part("H", logprobs=logprobs)), context=context).parts
        assert part == Text("H", part.at)
        empty = logprobs in ({"content": []}, [None])
        assert [row.code for row in context.losses.rows] == ([] if empty else [LossCode.UNKNOWN_FIELD])


@pytest.mark.parametrize("annotations", ["see", {"type": "url_citation"}, ["see"]])
def test_invalid_annotations_are_a_loss(annotations: Any) -> None:
    context = ReplyContext("m")
    reply(message(text_part("Hi") | {"annotations": annotations}), context=context)
    assert [row[:2] for row in context.losses.rows] == [(LossCode.CITATIONS, "output[0].content[0].annotations")]


def test_T31_missing_counts_are_unknown_and_not_zero() -> None:
    assert reply(usage={"input_tokens": 3, "output_tokens": 0, "input_tokens_details": None}).usage == Usage(
        3, None, None, 0
    )
    for nothing in (None, {}, "x", {"input_tokens": "x", "output_tokens": -1}):
        assert reply(usage=nothing).usage is None


@pytest.mark.parametrize(
    ("items", "more", "reason"),
    [
        ([], {}, StopReason.END),
        ([message(refusal_part("No"))], {}, StopReason.REFUSAL),
        ([message(refusal_part("No")), call()], {}, StopReason.TOOL_CALLS),
        ([call()], {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, StopReason.LENGTH),
        ([], {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, StopReason.FILTERED),
        ([], {"incomplete_details": {"reason": "max_output_tokens"}}, StopReason.LENGTH),
    ],
)
def test_the_stop(items: list[Json], more: Json, reason: StopReason) -> None:
    assert reply(*items, **more).stop.reason is reason


def test_arguments_are_kept_as_they_were_cut() -> None:
    item = call(arguments='{"path":"a', status="incomplete")
    more = message(status="incomplete")
    read = reply(item, call(), more, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert read.parts[:1] == [ToolCall("call_a", "f", '{"path":"a', ("output", 0))]
    assert read.cut == {0}


def test_names_log_probabilities_and_the_reasoning_item_by_context() -> None:
    tokens = [{"token": "Hi", "logprob": -0.1}]
    items = (reasoned("t") | {"status": None}, message(text_part("Hi", logprobs=tokens)), call(name="sent"))
    plain = reply(*items)
    assert plain.parts[0] == Reasoning("t", ("output", 0), "responses")
    context = ReplyContext(
        "m",
        names={"sent": "client's"},
        logprobs=True,
        envelope=Envelope("local", "m"),
        profile=builtin_profile("responses", "compatible"),
    )
    reasoning, text, called = reply(*items, context=context).parts
    assert isinstance(reasoning, Reasoning)
    assert reasoning.native == reasoned("t")
    assert isinstance(text, Text)
    assert text.logprobs == tokens
    assert isinstance(called, ToolCall)
    assert called.name == "client's"


def test_T24_unknown_items_and_parts_are_left_out_with_a_row_each() -> None:
    context = ReplyContext("m")
    read = reply({"type": "novelty"}, message({"type": "output_audio"}, text_part("Hi")), {}, context=context)
    assert [type(part) for part in read.parts] == [Text]
    assert [row.path for row in context.losses.rows] == ["output[0]", "output[1].content[0]", "output[2]"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "expected a response"),
        (response("in_progress"), "not finished: in_progress"),
        (response("queued"), "not finished: queued"),
        (response("completed") | {"output": "x"}, "output: expected an array"),
        (response("completed", ["x"]), "output[0]: expected an item"),
        (response("completed", [message() | {"content": 7}]), "content is an integer"),
        (response("completed", [message({"type": "output_text", "text": 5})]), "text is an integer"),
        (response("completed", [message(role="user")]), "spoke as 'user'"),
        (response("completed", [call(name="")]), "without a name"),
        (response("completed", [call(arguments=7)]), "neither text nor an object"),
        (response("completed", [call(arguments='{"a')]), "not whole JSON"),
        (response("completed", [call(arguments="[]")]), "not a JSON object"),
        (response("completed", [call(status="incomplete")]), "is incomplete"),
        (response("completed", [{"type": "shell_call"}]), "did not declare"),
    ],
)
def test_what_breaks_the_dialect_is_refused(body: Any, words: str) -> None:
    with pytest.raises(UpstreamProtocolError) as caught:
        read_reply(body, ReplyContext("m"))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (response("failed", error={"code": "rate_limit_exceeded", "message": "slow"}), FailureKind.RATE_LIMIT),
        (response("completed", error={"code": "server_error", "message": "oops"}), FailureKind.API),
        (response("failed", error=None), FailureKind.API),
        (response("cancelled"), FailureKind.API),
    ],
)
def test_T22_a_failed_response_is_an_error_even_under_a_good_status(body: Json, kind: FailureKind) -> None:
    with pytest.raises(UpstreamStatusError) as caught:
        read_reply(body, ReplyContext("m"))
    assert caught.value.failure.kind is kind
    assert caught.value.failure.message


# --- the law ----------------------------------------------------------------------------------------------------------


def started(event: BlockStart) -> Part:
    match event.kind:
        case "text":
            return Text("", apart=event.apart)
        case "refusal":
            return Refusal("")
        case "reasoning":
            return Reasoning("", origin="responses")
        case "opaque":
            return Native("responses", event.name, {}, event.code)
        case "tool":
            more: Json = {"custom": event.custom, "namespace": event.namespace, "search": event.search}
            return ToolCall(event.call_id, event.name, "", **more)


def accumulated(events: list[Event]) -> Reply:
    """Returns the reply that a stream consists of."""
    read = Reply("", "", [], Stop(StopReason.END))
    parts: dict[int, Part] = {}
    for event in events:
        match event:
            case Start():
                read.id, read.model, read.created = event.id, event.model, event.created
            case BlockStart(index=index):
                parts[index] = started(event)
            case Delta(index=index, text=text):
                part = parts[index]
                if isinstance(part, ToolCall):
                    part.arguments += text
                else:
                    assert isinstance(part, Text | Refusal | Reasoning)
                    part.text += text
            case Opaque(index=index):
                part = parts[index]
                if isinstance(part, Reasoning):
                    part.proof, part.native = event.payload, event.native
                else:
                    assert isinstance(part, Native)
                    part.payload = event.payload
            case Annotation(index=index):
                part = parts[index]
                assert isinstance(part, Text)
                part.citations.append(event.citation)
            case Logprobs(index=index):
                part = parts[index]
                assert isinstance(part, Text)
                part.logprobs = (part.logprobs or []) + event.tokens
            case BlockEnd(index=index, complete=False) if isinstance(parts[index], ToolCall):
                read.cut |= {index}
            case Finish():
                read.stop, read.usage = event.stop, event.usage
    read.parts = [parts[index] for index in sorted(parts)]
    return read


def context() -> ReplyContext:
    return ReplyContext("m", envelope=Envelope("openai", "m"), logprobs=True)


@given(responses_streams(RESPONSES_ONLY))
def test_the_stream_accumulates_to_the_reply_of_its_last_snapshot(upstream: Any) -> None:
    streamed, whole = context(), context()
    reader, parser = Reader(streamed), Parser()
    events = reader.feed([*parser.feed(upstream.data), *parser.finish()]) + reader.finish()
    read = read_reply(upstream.notes["response"], whole)
    for part in read.parts:
        part.at = ()
    assert accumulated(events) == read
    streams = (LossCode.UNKNOWN_EVENT, LossCode.REPLY_REPAIRED)  # what only a stream can leave out or repeat
    assert {c: n for c, n in streamed.losses.counts.items() if c not in streams} == {
        c: n for c, n in whole.losses.counts.items() if c not in streams
    }


OUTPUT = [reasoned("t", encrypted_content="E"), message(text_part("Hi")), call(), {"type": "web_search_call"}]


@given(mutated_json(response("completed", OUTPUT, usage=USAGE, error=None)))
def test_no_value_anywhere_makes_it_raise_anything_else(body: Json) -> None:
    with suppress(UpstreamError):
        assert isinstance(read_reply(body, context()), Reply)
