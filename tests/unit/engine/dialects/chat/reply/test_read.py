"""Whole Chat replies as they are read (mapping §9.1 to §9.4)."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import Citation, Stop, StopReason, Usage
from dragoman.canonical.parts import Json, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects.chat.reasoning_fields import reasoning_text, record_dropped_proofs
from dragoman.dialects.chat.reply.read import _STANDARD, read_reply
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext


def upstream(message: Json, finish: str | None = "stop", **more: Any) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "up", "choices": [choice], **more}


def read(body: Json, names: dict[str, str] | None = None) -> tuple[Reply, list[LossCode]]:
    losses = Losses()
    reply = read_reply(body, ReplyContext("asked", losses=losses, names=names or {}))
    return reply, [row.code for row in losses.rows]


def broken(body: Any, match: str) -> None:
    with pytest.raises(UpstreamProtocolError, match=match) as caught:
        read(body)
    assert caught.value.failure.status == 502


def tool_call(arguments: Any = "{}", **more: Any) -> Json:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}, **more}


def test_whole_reply_is_read() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    body = upstream(
        {"content": "hi", "refusal": None, "reasoning_content": "why", "tool_calls": [tool_call('{ "a": 1 }')]},
        "tool_calls",
        usage=usage,
        service_tier="default",
        system_fingerprint="x",
    )
    reply, losses = read(body)
    at = ("choices", 0, "message")
    assert reply.parts == [
        Reasoning("why", (*at, "reasoning_content"), "chat"),
        Text("hi", (*at, "content")),
        ToolCall("c1", "f", '{ "a": 1 }', (*at, "tool_calls", 0)),
    ]
    assert reply.stop == Stop(StopReason.TOOL_CALLS, "tool_calls")
    assert (reply.id, reply.model, reply.created) == ("chatcmpl-1", "up", 5)
    assert reply.usage == Usage(3, None, None, 2, None)
    assert losses == []


@pytest.mark.parametrize("count", [0, 2, 3])
def test_exactly_one_choice(count: int) -> None:
    body = upstream({"content": "x"})
    body["choices"] = body["choices"] * count
    broken(body, f"{count} choices")


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ({}, "no choices"),
        ([], "no choices"),
        ({"choices": {}}, "no choices"),
        ({"choices": ["x"]}, "without a message"),
        (upstream({"role": "user", "content": "x"}), "role"),
        (upstream({"content": 3}), "content"),
        (upstream({"content": None, "audio": {"id": "a"}}), "audio only"),
        (upstream({"content": None, "function_call": {"name": "f", "arguments": "{"}}, "function_call"), "not JSON"),
        (upstream({"tool_calls": {"index": 0}}), "not an array"),
        (upstream({"tool_calls": ["x"]}), "tool call"),
        (upstream({"tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}), "without a name"),
        (upstream({"tool_calls": [tool_call('{"a": ')]}, "tool_calls"), "not JSON"),
        (upstream({"tool_calls": [tool_call("[1]")]}), "not a JSON object"),
        (upstream({"tool_calls": [tool_call("[]")]}), "not a JSON object"),
        (upstream({"tool_calls": [tool_call(3)]}), "not a JSON object"),
    ],
)
def test_what_no_client_can_be_given_is_the_upstreams_fault(body: Any, match: str) -> None:
    broken(body, match)


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("content", ["", None])
def test_empty_reply_is_legal(content: str | None, finish: str) -> None:
    reply, losses = read(upstream({"content": content}, finish))
    assert reply.parts == []
    assert reply.stop.native == finish
    assert losses == []


@pytest.mark.parametrize(
    ("arguments", "read_as"), [("", "{}"), (" ", "{}"), (None, "{}"), ({"a": 1}, '{"a":1}'), ('{"a":1.0}', '{"a":1.0}')]
)
def test_T06_arguments_come_out_as_json_text(arguments: Any, read_as: str) -> None:
    reply, _ = read(upstream({"tool_calls": [tool_call(arguments)]}, "tool_calls"))
    part = reply.parts[0]
    assert isinstance(part, ToolCall)
    assert part.arguments == read_as


def test_T42_tool_names_are_undone() -> None:
    reply, _ = read(upstream({"tool_calls": [tool_call()]}, "tool_calls"), {"f": "a.b"})
    part = reply.parts[0]
    assert isinstance(part, ToolCall)
    assert part.name == "a.b"


def test_missing_call_ids_are_minted_distinct_and_stable() -> None:
    body = upstream({"tool_calls": [tool_call(id=None), tool_call(id="")]}, "tool_calls")
    ids = [part.id for part in read(body)[0].parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == 2
    assert all(ids)
    assert ids == [part.id for part in read(body)[0].parts if isinstance(part, ToolCall)]


def test_free_text_calls_are_read() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "g", "input": "free"}}
    reply, _ = read(upstream({"tool_calls": [call]}, "tool_calls"))
    assert reply.parts == [ToolCall("c", "g", "free", ("choices", 0, "message", "tool_calls", 0), custom=True)]


def test_finish_is_corrected_by_the_content() -> None:
    reply, losses = read(upstream({"content": "x", "tool_calls": [tool_call()]}, "stop"))
    assert (reply.stop.reason, losses) == (StopReason.TOOL_CALLS, [LossCode.FINISH_FIXED])
    reply, losses = read(upstream({"content": "x", "tool_calls": []}, "tool_calls"))
    assert (reply.stop.reason, losses) == (StopReason.END, [LossCode.FINISH_FIXED])
    reply, losses = read(upstream({"content": "x"}, None))
    assert (reply.stop.reason, losses) == (StopReason.END, [LossCode.STOP_UNKNOWN])


def test_refusal_in_the_models_words() -> None:
    reply, _ = read(upstream({"content": None, "refusal": "I won't."}))
    assert reply.parts == [Refusal("I won't.", ("choices", 0, "message", "refusal"))]
    assert reply.stop == Stop(StopReason.REFUSAL, "stop")


@pytest.mark.parametrize("refusal", [["no"], {"text": "no"}, 1])
def test_a_refusal_that_is_no_text_is_an_error_as_in_a_stream(refusal: Any) -> None:
    with pytest.raises(UpstreamProtocolError, match="refusal"):
        read(upstream({"content": None, "refusal": refusal}))


def test_citations_are_read() -> None:
    note = {"type": "url_citation", "url_citation": {"url": "https://a.test", "title": "A", "start_index": 1}}
    reply, losses = read(upstream({"content": "x", "annotations": [note, {"type": "file_citation"}]}))
    text = reply.parts[0]
    assert isinstance(text, Text)
    assert text.citations == [
        Citation("chat", note, "https://a.test", "A", 1),
        Citation("chat", {"type": "file_citation"}),
    ]
    assert losses == []


@pytest.mark.parametrize(
    ("annotations", "kept"), [({"type": "url_citation"}, 0), ("see", 0), (["see", {"type": "url_citation"}], 1)]
)
def test_annotations_that_are_invalid_are_recorded(annotations: Any, kept: int) -> None:
    reply, losses = read(upstream({"content": "x", "annotations": annotations}))
    text = reply.parts[0]
    assert isinstance(text, Text)
    assert len(text.citations) == kept
    assert losses == [LossCode.CITATIONS]


def test_content_in_parts_and_audio_beside_text() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}, {"type": "thinking"}]
    content.append({"type": "refusal", "refusal": ""})
    reply, losses = read(upstream({"content": content, "audio": {"id": "x"}}))
    assert [type(part) for part in reply.parts] == [Text, Refusal]
    assert losses == [LossCode.REPLY_REPAIRED, LossCode.UNKNOWN_EVENT, LossCode.UNKNOWN_EVENT]


@pytest.mark.parametrize(
    "extension",
    [
        {"reasoning_content": "why"},
        {"reasoning": "why"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "why"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "why"}]},
    ],
)
def test_each_extension_that_holds_reasoning_is_read(extension: Json) -> None:
    assert _STANDARD.isdisjoint(extension)
    reply, _ = read(upstream({"content": "hi", **extension}))
    assert [type(part) for part in reply.parts] == [Reasoning, Text]


def test_standard_members_hold_no_reasoning() -> None:
    message = dict.fromkeys(_STANDARD, "why")
    assert reasoning_text(message) == ""
    losses = Losses()
    record_dropped_proofs(message, (), losses)
    assert not losses.rows
