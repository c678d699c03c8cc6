"""The items of a Responses stream: kinds of call, surfaces of reasoning, proofs, citations, probabilities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Knobs
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
    RefusalInfo,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.dialects.responses.stream.writer import ResponsesWriter as Writer
from dragoman.errors import StreamTruncated
from dragoman.losses import LossCode
from dragoman.reasoning.envelope import Envelope, unwrap
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import encode_frames
from oracles.grammar import responses
from support.frames import frames_of

Json = dict[str, Any]
START = Start("chatcmpl-x", "upstream-model")
ENVELOPE = Envelope("anthropic", "claude")
THINKING = {"type": "thinking", "thinking": "Hm", "signature": "SIG"}
WEB = {"type": "web_search_result_location", "url": "https://a.example", "title": "A", "encrypted_index": "e"}


def context(**settings: Any) -> ReplyContext:
    return ReplyContext("client-model", 1, "req_1", **settings)


def payloads(*events: Event, into: ReplyContext | None = None) -> list[Json]:
    frames = frames_of(Writer(into or context()).feed(list(events)))
    return [json.loads(frame.data) for frame in frames if frame.data is not None]


def whole(*events: Event, into: ReplyContext | None = None, reason: StopReason = StopReason.END) -> list[Json]:
    """The payloads between the opening and the terminal event of a stream that the grammar likes; items in the end."""
    given = [START, *events, Finish(Stop(reason), Usage(1, 0, 0, 1, 0)), End()]
    frames = frames_of(Writer(into or context()).feed(given))
    responses.check(encode_frames(frames))
    written = [json.loads(frame.data) for frame in frames if frame.data is not None]
    return [*written[2:-1], {"output": written[-1]["response"]["output"]}]


def kinds(written: list[Json]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in written if "type" in event]


def call(text: str, *, complete: bool = True, **start: Any) -> list[Event]:
    return [
        BlockStart(0, "tool", start.pop("call_id", "call_a"), start.pop("name", "f"), **start),
        Delta(0, text),
        BlockEnd(0, complete),
    ]


# --- calls ------------------------------------------------------------------------------------------------------------


def test_T50_a_free_text_call_comes_back_as_one() -> None:
    """Codex answers “aborted” to a custom tool that is called as a function."""
    written = whole(*call("*** Begin Patch\n", name="apply_patch", custom=True), reason=StopReason.TOOL_CALLS)
    assert kinds(written) == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    assert written[2]["input"] == "*** Begin Patch\n"
    assert written[-1]["output"] == [
        {
            "type": "custom_tool_call",
            "id": "ctc_x1",
            "call_id": "call_a",
            "name": "apply_patch",
            "input": "*** Begin Patch\n",
            "status": "completed",
        }
    ]


@pytest.mark.parametrize("custom", [True, False])
def test_T50_the_namespace_stands_beside_the_bare_name(custom: bool) -> None:
    written = whole(*call("{}", name="add_note", namespace="mcp__notes", custom=custom), reason=StopReason.TOOL_CALLS)
    for item in (written[0]["item"], written[-2]["item"], written[-1]["output"][0]):
        assert (item["name"], item["namespace"]) == ("add_note", "mcp__notes")


def test_T50_a_tool_search_has_no_deltas_and_parsed_arguments() -> None:
    written = whole(*call('{"query":"notes"}', name="tool_search", search=True), reason=StopReason.TOOL_CALLS)
    item: Json = {"type": "tool_search_call", "id": "tsc_x1", "call_id": "call_a", "execution": "client"}
    assert written == [
        {
            "type": "response.output_item.added",
            "sequence_number": 2,
            "output_index": 0,
            "item": item | {"arguments": {}, "status": "in_progress"},
        },
        {
            "type": "response.output_item.done",
            "sequence_number": 3,
            "output_index": 0,
            "item": item | {"arguments": {"query": "notes"}, "status": "completed"},
        },
        {"output": [item | {"arguments": {"query": "notes"}, "status": "completed"}]},
    ]


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_T04_a_call_without_arguments_gets_an_empty_object(text: str) -> None:
    written = whole(*call(text), reason=StopReason.TOOL_CALLS)
    assert [event["delta"] for event in written if "delta" in event] == ([text] if text else []) + ["{}"]
    assert written[-3]["arguments"] == written[-1]["output"][0]["arguments"] == text + "{}"
    searched = whole(*call(text, search=True), reason=StopReason.TOOL_CALLS)
    assert searched[-1]["output"][0]["arguments"] == {}


@pytest.mark.parametrize("text", ['{"a":', "[1]", '"x"', "{}{}", "nope"])
@pytest.mark.parametrize("search", [True, False])
def test_T22_arguments_that_are_no_object_are_never_written_as_complete(text: str, search: bool) -> None:
    written = whole(*call(text, search=search), reason=StopReason.LENGTH)
    assert "function_call_arguments.done" not in kinds(written)
    assert written[-1]["output"][0]["status"] == "incomplete"
    assert written[-1]["output"][0]["arguments"] == ({} if search else text)


def test_T22_a_free_text_call_that_was_cut_is_never_written_as_done() -> None:
    """Codex 0.169 ran a script of which the end was missing, although its item was `incomplete`."""
    written = whole(*call("rm -rf build", complete=False, custom=True), reason=StopReason.LENGTH)
    assert "custom_tool_call_input.done" not in kinds(written)
    assert "output_item.done" not in kinds(written)
    assert written[-1]["output"][0]["status"] == "incomplete"


def test_unfit_missing_and_repeated_call_ids() -> None:
    """The SDK raises on two calls of one id; Codex sends an id back as it got it."""
    given = ["functions.f:0", "", "a" * 65, "same", "same"]
    events: list[Event] = []
    for index, call_id in enumerate(given):
        events += [BlockStart(index, "tool", call_id, "f"), Delta(index, "{}"), BlockEnd(index)]
    made = [item["call_id"] for item in whole(*events, reason=StopReason.TOOL_CALLS)[-1]["output"]]
    assert made[3] == "same"
    assert len(set(made)) == len(made)
    assert all(len(call_id) == 29 and call_id.startswith("call_") for call_id in made if call_id != "same")
    assert made == [item["call_id"] for item in whole(*events, reason=StopReason.TOOL_CALLS)[-1]["output"]]


def test_numbers_stay_numbers_in_an_id_with_a_percent_sign() -> None:
    written = payloads(Start("a%d%b", "m"), BlockStart(0, "text"), Delta(0, "100% of %s"))
    assert (written[-1]["item_id"], written[-1]["delta"]) == ("msg_a%d%b1", "100% of %s")


# --- reasoning --------------------------------------------------------------------------------------------------------


def test_the_summary_surface() -> None:
    into = context(knobs=Knobs(reasoning_surface="summary"), envelope=ENVELOPE)
    signed = Opaque(0, "messages", "signature", "SIG", THINKING)
    written = whole(BlockStart(0, "reasoning"), Delta(0, "H"), Delta(0, "m"), signed, BlockEnd(0), into=into)
    assert kinds(written) == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    assert written[2] == {
        "type": "response.reasoning_summary_text.delta",
        "sequence_number": 4,
        "item_id": "rs_x1",
        "output_index": 0,
        "summary_index": 0,
        "delta": "H",
    }
    item = written[-1]["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "Hm"}]
    assert "content" not in item
    assert item["encrypted_content"].startswith("dgm1.")


@pytest.mark.parametrize("surface", ["reasoning_text", "summary"])
def test_reasoning_without_a_word_has_no_part(surface: Any) -> None:
    into = context(knobs=Knobs(reasoning_surface=surface), envelope=ENVELOPE)
    signed = Opaque(0, "messages", "signature", "SIG", THINKING | {"thinking": ""})
    written = whole(BlockStart(0, "reasoning"), Delta(0, ""), signed, BlockEnd(0), into=into)
    assert kinds(written) == ["output_item.added", "output_item.done"]
    assert (written[-1]["output"][0]["summary"], "content" in written[-1]["output"][0]) == ([], False)
    assert "encrypted_content" in written[-1]["output"][0]


def test_T10_redacted_thinking_travels_whole_or_is_counted() -> None:
    block = {"type": "redacted_thinking", "data": "XYZ"}
    start = BlockStart(0, "opaque", name="redacted_thinking", code="reasoning_encrypted")
    events = (start, Opaque(0, "messages", "block", block), BlockEnd(0))
    (item,) = whole(*events, into=context(envelope=ENVELOPE))[-1]["output"]
    envelope = unwrap(item["encrypted_content"])
    assert envelope is not None
    assert (envelope.block, item["summary"]) == (block, [])
    into = context()
    assert whole(*events, into=into) == [{"output": []}]
    assert into.losses.counts == {LossCode.REASONING_ENCRYPTED: 1}


def test_other_opaque_blocks_take_no_index() -> None:
    into = context()
    opaque = BlockStart(0, "opaque", name="web_search_tool_result", code="hosted_history")
    events = (opaque, Opaque(0, "messages", "block", {}), Opaque(0, "messages", "delta", {}), BlockEnd(0))
    written = whole(*events, BlockStart(1, "text"), Delta(1, "a"), BlockEnd(1), into=into)
    assert [event["output_index"] for event in written if "output_index" in event] == [0] * 6
    assert into.losses.counts == {LossCode.HOSTED_HISTORY: 1}


@pytest.mark.parametrize(
    ("origin", "form", "payload", "code"),
    [
        ("messages", "signature", "SIG", LossCode.REASONING_SIGNATURE),
        ("messages", "signature", "", None),
        ("chat", "reasoning_details", "x", LossCode.REASONING_ENCRYPTED),
    ],
)
def test_a_proof_that_cannot_be_kept_is_counted_once(
    origin: str, form: str, payload: str, code: LossCode | None
) -> None:
    into = context()
    proof = Opaque(0, origin, form, payload)
    (item,) = whole(BlockStart(0, "reasoning"), proof, proof, BlockEnd(0), into=into)[-1]["output"]
    assert "encrypted_content" not in item
    assert into.losses.counts == ({} if code is None else {code: 1})


def test_T15_reasoning_of_a_chat_server_comes_back_too() -> None:
    native = {"reasoning_content": "Hm"}
    events = (BlockStart(0, "reasoning"), Delta(0, "Hm"), Opaque(0, "chat", "reasoning_content", None, native))
    (item,) = whole(*events, BlockEnd(0), into=context(envelope=Envelope("deepseek", "r")))[-1]["output"]
    envelope = unwrap(item["encrypted_content"])
    assert envelope is not None
    assert (envelope.dialect, envelope.family, envelope.block) == ("chat", "deepseek", native)


def test_the_dialects_own_proof_is_not_wrapped() -> None:
    events = (BlockStart(0, "reasoning"), Opaque(0, "responses", "encrypted_content", "gAAA"), BlockEnd(0))
    assert whole(*events, into=context(envelope=ENVELOPE))[-1]["output"][0]["encrypted_content"] == "gAAA"


# --- text -------------------------------------------------------------------------------------------------------------


def test_citations_stand_at_the_end_of_their_text() -> None:
    into = context()
    native: Json = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
    events: list[Event] = [BlockStart(0, "text"), Annotation(0, Citation("messages", WEB, WEB["url"], "A"))]
    events += [Delta(0, "Hello"), Annotation(0, Citation("messages", {"type": "char_location"}))]
    events += [Annotation(0, Citation("responses", native)), Annotation(0, Citation("chat", {}, "u", None, 1, 3))]
    written = whole(*events, BlockEnd(0), into=into)
    notes = [
        {"type": "url_citation", "start_index": 0, "end_index": 5, "url": "https://a.example", "title": "A"},
        native,
        {"type": "url_citation", "start_index": 1, "end_index": 3, "url": "u", "title": ""},
    ]
    assert [(e["annotation_index"], e["annotation"]) for e in written if "annotation" in e] == list(enumerate(notes))
    assert kinds(written)[-4:] == [
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ]
    assert written[-1]["output"][0]["content"][0]["annotations"] == notes
    assert into.losses.counts == {LossCode.CITATIONS: 1}


TOKENS: list[Json] = [
    {"token": "Hel", "logprob": -0.1, "bytes": None, "top_logprobs": [{"token": "He", "logprob": -2}]}
]
WRITTEN: list[Json] = [
    {"token": "Hel", "bytes": [], "logprob": -0.1, "top_logprobs": [{"token": "He", "bytes": [], "logprob": -2}]}
]


def test_probabilities_follow_their_delta_into_it() -> None:
    events: list[Event] = [
        BlockStart(0, "text"),
        Delta(0, "Hel"),
        Logprobs(0, TOKENS),
        Delta(0, "%d"),
        Delta(0, "!"),
    ]
    written = whole(*events, BlockEnd(0), into=context(logprobs=True))
    deltas = [(event["delta"], event["logprobs"]) for event in written if "delta" in event]
    assert deltas == [("Hel", WRITTEN), ("%d", []), ("!", [])]
    assert written[-4]["logprobs"] == written[-1]["output"][0]["content"][0]["logprobs"] == WRITTEN


def test_probabilities_of_odd_shapes_are_no_trouble() -> None:
    odd: list[Any] = ["x", {"token": "a", "logprob": 0, "top_logprobs": "no"}, {"token": "b", "top_logprobs": [1]}]
    written = payloads(START, BlockStart(0, "text"), Delta(0, "ab"), Logprobs(0, odd), into=context(logprobs=True))
    assert [token["token"] for token in written[-1]["logprobs"]] == ["a", "b"]


def test_a_delta_waits_only_for_probabilities_that_were_asked_for() -> None:
    text: list[Event] = [START, BlockStart(0, "text"), Delta(0, "a")]
    assert len(frames_of(Writer(context()).feed(text))) == 5
    writer = Writer(context(logprobs=True))
    assert len(frames_of(writer.feed(text))) == 4
    assert [frame.event for frame in frames_of(writer.feed([Ping()]))] == ["response.output_text.delta", ""]
    writer.feed([Delta(0, "b")])
    failed = frames_of(writer.feed([Error(StreamTruncated().failure)]))
    assert [frame.event for frame in failed] == ["response.output_text.delta", "response.failed"]
    unasked = whole(BlockStart(0, "text"), Delta(0, "a"), Logprobs(0, TOKENS), BlockEnd(0))
    assert unasked[-1]["output"][0]["content"][0]["logprobs"] == []


def test_half_a_surrogate_pair_goes_through() -> None:
    written = payloads(START, BlockStart(0, "text"), Delta(0, "\ud83d"), Delta(0, "\ude00"), BlockEnd(0))
    assert written[-1]["item"]["content"][0]["text"].encode("utf-16", "surrogatepass").decode("utf-16") == "😀"


def test_T71_a_call_whose_character_came_in_two_halves_is_whole() -> None:
    """Codex runs an item that is completed in `output_item.done`, and nothing else."""
    halves = [Delta(0, '{"x":"\ud83d'), Delta(0, '\ude00"}')]
    written = payloads(START, BlockStart(0, "tool", "call_1", "f"), *halves, BlockEnd(0))
    assert [event["type"].split(".", 1)[1] for event in written[-2:]] == [
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert written[-1]["item"]["status"] == "completed"
    assert json.loads(written[-1]["item"]["arguments"].encode("utf-16", "surrogatepass").decode("utf-16")) == {
        "x": "😀"
    }


def test_a_refusal_during_an_item_without_text_leaves_the_response_incomplete() -> None:
    """Found by fuzzing: the response was completed, and had an incomplete item."""
    declined = Finish(Stop(StopReason.FILTERED, "refusal"), Usage(1, 0, 0, 1, 0), RefusalInfo("Declined.", "cyber"))
    frames = frames_of(Writer(context()).feed([START, BlockStart(0, "text"), BlockEnd(0, False), declined, End()]))
    responses.check(encode_frames(frames))
    last = json.loads(frames[-1].data or b"")["response"]
    assert (last["status"], last["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
    assert [item["status"] for item in last["output"]] == ["incomplete", "completed"]
