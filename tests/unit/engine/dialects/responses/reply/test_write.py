"""A whole reply for a Responses client: what the last event of its stream holds, key for key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response

from dragoman import Knobs
from dragoman.canonical.events import Citation, RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.parts import Document, Inline, Native, Part, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of, may_be_cut
from dragoman.dialects.responses.reply.write import write_reply
from dragoman.dialects.responses.stream.writer import ResponsesWriter as Writer
from dragoman.losses import LossCode
from dragoman.reasoning.envelope import Envelope, unwrap
from dragoman.reply_context import ReplyContext
from oracles.grammar import responses
from support.frames import frames_of
from support.strategies import arguments, call_ids, models, names, reply_ids, texts, usages

Json = dict[str, Any]
ENVELOPE = Envelope("anthropic", "claude")
THINKING: Json = {"type": "thinking", "thinking": "Hm", "signature": "SIG"}
WEB: Json = {"type": "web_search_result_location", "url": "https://a.example", "title": "A"}


def context(**settings: Any) -> ReplyContext:
    return ReplyContext("client-model", 1, "req_1", **settings)


def reply(*parts: Part, reason: StopReason = StopReason.END, native: str | None = None, **more: Any) -> Reply:
    return Reply("msg_x", "upstream-model", list(parts), Stop(reason, native), Usage(12, 4, None, 7, 2), **more)


def test_a_reply_in_full() -> None:
    signed = Reasoning("Hm", (), "messages", "SIG", native=THINKING)
    call = ToolCall("toolu_a", "add_note", '{"a":1}', namespace="mcp__notes")
    whole = write_reply(reply(signed, Text("Hi"), call, reason=StopReason.TOOL_CALLS), context(envelope=ENVELOPE))
    responses.check_whole(whole)
    Response.model_validate(whole, strict=True)
    envelope = unwrap(whole["output"][0].pop("encrypted_content"))
    assert envelope is not None
    assert envelope.block == THINKING
    assert whole == {
        "id": "resp_x",
        "object": "response",
        "created_at": 1,
        "model": "client-model",
        "status": "completed",
        "output": [
            {
                "type": "reasoning",
                "id": "rs_x1",
                "summary": [],
                "status": "completed",
                "content": [{"type": "reasoning_text", "text": "Hm"}],
            },
            {
                "type": "message",
                "id": "msg_x1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
            },
            {
                "type": "function_call",
                "id": "fc_x1",
                "call_id": "toolu_a",
                "name": "add_note",
                "arguments": '{"a":1}',
                "status": "completed",
                "namespace": "mcp__notes",
            },
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "reasoning": None,
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
        "background": False,
        "service_tier": "default",
        "safety_identifier": None,
        "prompt_cache_key": None,
        "user": None,
        "previous_response_id": None,
        "store": False,
        "usage": {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 19,
        },
        "completed_at": None,
    }


def test_T31_cached_tokens_are_part_of_the_input() -> None:
    one = reply()
    one.usage = Usage(100, 90, 5, 7, 3)
    assert write_reply(one, context())["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 90, "cache_write_tokens": 5},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 107,
    }


def test_an_empty_reply_and_one_without_counts() -> None:
    into = context()
    one = reply(reason=StopReason.LENGTH)
    one.usage = None
    whole = write_reply(one, into)
    assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert (whole["output"], whole["usage"]) == ([], None)
    assert into.losses.counts == {LossCode.USAGE_ESTIMATED: 1}


@pytest.mark.parametrize(
    ("parts", "knob", "status", "refusals"),
    [
        ([], "completed", "completed", ["No."]),
        ([], "native", "incomplete", ["No."]),
        ([Text("Step one")], "completed", "incomplete", ["No."]),
        ([ToolCall("a", "f", "{}")], "completed", "incomplete", ["No."]),
        ([Refusal("I can't")], "completed", "completed", ["I can't"]),
        ([Text("")], "completed", "completed", ["No."]),
    ],
)
def test_a_messages_refusal(parts: list[Part], knob: Any, status: str, refusals: list[str]) -> None:
    """mapping §9.3, decision 0002."""
    into = context(knobs=Knobs(refusal_terminal=knob))
    info = RefusalInfo("No.", "cyber")
    whole = write_reply(reply(*parts, reason=StopReason.FILTERED, native="refusal", refusal=info), into)
    texts_written = [
        part["refusal"] for item in whole["output"] for part in item.get("content", ()) if "refusal" in part
    ]
    assert (whole["status"], texts_written) == (status, refusals)
    assert into.losses.counts == {LossCode.REFUSAL_CATEGORY: 1}


def test_a_refusal_without_words_after_text_gets_none() -> None:
    whole = write_reply(reply(Text("a"), reason=StopReason.FILTERED, native="refusal"), context())
    assert (len(whole["output"]), whole["status"]) == (1, "incomplete")
    assert len(write_reply(reply(reason=StopReason.FILTERED, native="refusal"), context())["output"]) == 1


def test_T22_only_the_last_free_text_call_of_a_cut_reply_may_be_cut() -> None:
    calls = [ToolCall(name, name, "x", custom=True) for name in "ab"]
    cut = reply(*calls, reason=StopReason.LENGTH)
    assert [item["status"] for item in write_reply(cut, context())["output"]] == ["completed", "incomplete"]
    assert [may_be_cut(cut, index) for index in (0, 1)] == [False, True]
    ended = reply(*calls, reason=StopReason.TOOL_CALLS)
    assert [item["status"] for item in write_reply(ended, context())["output"]] == ["completed", "completed"]
    half = reply(ToolCall("a", "f", '{"a":'), reason=StopReason.LENGTH)
    assert write_reply(half, context())["output"][0]["status"] == "incomplete"


def test_what_cannot_be_carried_is_counted() -> None:
    into = context()
    parts: list[Part] = [
        Native("messages", "web_search_tool_result", {}, "hosted_history", ("content", 0)),
        Reasoning("", ("content", 1), "messages", "XYZ", redacted=True, native={"type": "redacted_thinking"}),
        Reasoning("Hm", ("content", 2), "messages", "SIG", native=THINKING),
        Text("a", ("content", 3), citations=[Citation("messages", {"type": "char_location"})]),
        Document(Inline("application/pdf", "AA=="), ("content", 4)),
    ]
    whole = write_reply(reply(*parts), into)
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message"]
    assert [(row.code, row.path) for row in into.losses.rows] == [
        (LossCode.HOSTED_HISTORY, "content[0]"),
        (LossCode.REASONING_ENCRYPTED, "content[1]"),
        (LossCode.REASONING_SIGNATURE, "content[2]"),
        (LossCode.CITATIONS, "content[3]"),
        (LossCode.UNKNOWN_EVENT, "content[4]"),
    ]


# --- the stream and the whole agree -----------------------------------------------------------------------------------

_citations = st.sampled_from(
    (
        Citation("messages", WEB, WEB["url"], "A"),
        Citation("messages", {"type": "char_location"}),
        Citation("chat", {"type": "url_citation"}, "https://b.example", None, 0, 1),
        Citation("responses", {"type": "file_path", "file_id": "f", "index": 0}),
    )
)
_logprobs = st.lists(st.just({"token": "a", "logprob": -0.5, "bytes": None}), min_size=1, max_size=2)
_text = st.builds(Text, texts, citations=st.lists(_citations, max_size=2), logprobs=st.none() | _logprobs)
_reasoning = st.one_of(
    texts.map(lambda text: Reasoning(text, (), "chat")),
    texts.map(lambda text: Reasoning(text, (), "chat", native={"reasoning_content": text})),
    texts.map(lambda text: Reasoning(text, (), "messages", "SIG", native=THINKING | {"thinking": text})),
    texts.map(lambda text: Reasoning(text, (), "messages", "SIG")),
    texts.map(lambda text: Reasoning(text, (), "responses", "gAAA", native={"type": "reasoning"})),
    st.just(Reasoning("", (), "messages", "X", redacted=True, native={"type": "redacted_thinking", "data": "X"})),
)
_spaces = st.none() | names
_calls = st.one_of(
    st.builds(ToolCall, call_ids, names, arguments() | st.sampled_from(("", " ", '{"a":', "[]")), namespace=_spaces),
    st.builds(ToolCall, st.sampled_from(("", "a", "x.y:0")), names, texts, custom=st.just(True), namespace=_spaces),
    st.builds(ToolCall, call_ids, st.just("tool_search"), arguments() | st.just("{"), search=st.just(True)),
)
_natives = st.just(Native("messages", "web_search_tool_result", {}, "hosted_history"))
_parts = st.lists(st.one_of(_text, st.builds(Refusal, texts), _reasoning, _calls, _natives), max_size=6)
_stops = st.one_of(st.builds(Stop, st.sampled_from(list(StopReason))), st.just(Stop(StopReason.FILTERED, "refusal")))
_infos = st.none() | st.builds(RefusalInfo, st.none() | texts, st.none() | st.just("cyber"))
_replies = st.builds(
    Reply, reply_ids | st.just(""), models, _parts, _stops, st.none() | usages(), st.none() | st.just(17), _infos
)
_knobs = st.builds(
    Knobs,
    reasoning_surface=st.sampled_from(("reasoning_text", "summary")),
    refusal_terminal=st.sampled_from(("completed", "native")),
    echo_model=st.sampled_from(("requested", "upstream")),
)


@given(_replies, _knobs, st.booleans(), st.booleans())
def test_the_last_event_of_its_stream_is_the_whole_reply(one: Reply, knobs: Knobs, enveloped: bool, logs: bool) -> None:
    settings: Json = {"knobs": knobs, "envelope": ENVELOPE if enveloped else None, "logprobs": logs}
    settings["echo"] = {"instructions": "x", "tools": [{"type": "function", "name": "f"}]}
    streamed, at_once = context(**settings), context(**settings)
    frames = frames_of(Writer(streamed).feed(events_of(one)))
    last = json.loads(frames[-1].data or b"")
    whole = write_reply(one, at_once)
    assert last["response"] == whole
    assert list(last["response"]) == list(whole)
    assert streamed.losses.counts == at_once.losses.counts


@given(_replies, _knobs)
def test_every_whole_reply_fits_the_sdk_types(one: Reply, knobs: Knobs) -> None:
    Response.model_validate(
        json.loads(json.dumps(write_reply(one, context(knobs=knobs, envelope=ENVELOPE, logprobs=True))))
    )
