"""Whole Chat replies as they are written (mapping §9.1 to §9.4)."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from dragoman.canonical.events import Citation, RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.parts import Json, Native, Part, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects.chat.reply.read import read_reply
from dragoman.dialects.chat.reply.write import JoinedText, write_reply
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext


def upstream(message: Json, finish: str | None = "stop", **more: Any) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "up", "choices": [choice], **more}


def read(body: Json, names: dict[str, str] | None = None) -> tuple[Reply, list[LossCode]]:
    losses = Losses()
    reply = read_reply(body, ReplyContext("asked", losses=losses, names=names or {}))
    return reply, [row.code for row in losses.rows]


def tool_call(arguments: Any = "{}", **more: Any) -> Json:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}, **more}


def give(
    *parts: Part, stop: Stop | None = None, knobs: Knobs | None = None, **more: Any
) -> tuple[Json, list[LossCode]]:
    """A written reply, which must also be one in the eyes of the official SDK."""
    losses = Losses()
    reply = Reply("msg_1", "up", list(parts), stop or Stop(StopReason.END), **more)
    written = write_reply(reply, ReplyContext("asked", 9, knobs=knobs or Knobs(), losses=losses))
    ChatCompletion.model_validate(written, strict=True)
    return written, [row.code for row in losses.rows]


def message_of(written: Json) -> Json:
    message: Json = written["choices"][0]["message"]
    return message


def test_whole_reply_is_written() -> None:
    written, losses = give(
        Reasoning("why", origin="messages", proof="sig"),
        Text("hi"),
        ToolCall("toolu_1", "f", '{"a":1}'),
        stop=Stop(StopReason.TOOL_CALLS, "tool_use"),
        usage=Usage(10, 4, None, 2, None),
    )
    assert written == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 9,
        "model": "asked",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "hi",
                    "refusal": None,
                    "annotations": [],
                    "reasoning_content": "why",
                    "tool_calls": [
                        {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
                    ],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }
    assert losses == [LossCode.REASONING_SIGNATURE]


def test_usage_only_if_known_and_time_of_the_upstream() -> None:
    written, _ = give(Text("x"), created=3)
    assert "usage" not in written
    assert written["created"] == 3


def test_empty_reply_is_written() -> None:
    written, _ = give(stop=Stop(StopReason.LENGTH, "max_tokens"))
    assert message_of(written) == {"role": "assistant", "content": None, "refusal": None, "annotations": []}
    assert written["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("reasoning_content", {"reasoning_content"}),
        ("reasoning", {"reasoning"}),
        ("both", {"reasoning_content", "reasoning"}),
        ("off", set()),
    ],
)
def test_T14_reasoning_goes_to_its_field_and_never_into_content(field: Any, keys: set[str]) -> None:
    written, _ = give(Reasoning("a"), Reasoning("b"), Text("x"), knobs=Knobs(reasoning_field=field))
    message = message_of(written)
    assert message["content"] == "x"
    assert set(message) - {"role", "content", "refusal", "annotations"} == keys
    assert all(message[key] == "a\n\nb" for key in keys)


def test_opaque_reasoning_leaves_a_row() -> None:
    _, losses = give(Reasoning("", origin="messages", proof="d", redacted=True), Text("x"))
    assert losses == [LossCode.REASONING_ENCRYPTED]
    _, losses = give(Reasoning("", origin="responses", proof="d"), Text("x"))
    assert losses == [LossCode.REASONING_ENCRYPTED]


def test_texts_join_and_native_blocks_are_dropped() -> None:
    native = Native("messages", "server_tool_use", {}, "hosted_history")
    written, losses = give(Text("a"), Text("b"), native, Text("c"), ToolCall("1", "f", ""), Text("d"))
    message = message_of(written)
    assert message["content"] == "ab\n\nc\n\nd"
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"
    assert losses == [LossCode.HOSTED_HISTORY, LossCode.BLOCK_ORDER]


def test_web_citations_get_their_place_in_the_content() -> None:
    web = Citation("messages", {}, "https://a.test", "A")
    page = Citation("messages", {"type": "page_location"})
    written, losses = give(Text("See "), Text("this", citations=[web, page]), Text("."))
    message = message_of(written)
    (note,) = message["annotations"]
    span = note["url_citation"]
    assert message["content"][span["start_index"] : span["end_index"]] == "this"
    assert losses == [LossCode.CITATIONS]


def test_unfit_call_ids_are_made_to_fit() -> None:
    written, _ = give(ToolCall("functions.x:0", "f", "{}"), ToolCall("", "g", "{}"), ToolCall("x" * 80, "h", "{}"))
    ids = [call["id"] for call in message_of(written)["tool_calls"]]
    assert all(0 < len(call_id) <= 64 and "." not in call_id for call_id in ids)
    assert len(set(ids)) == 3


REFUSED = Stop(StopReason.FILTERED, "refusal")


def test_messages_refusal_with_nothing_shown() -> None:
    info = RefusalInfo("Because.", "cyber")
    written, losses = give(stop=REFUSED, refusal=info)
    assert message_of(written) == {"role": "assistant", "content": None, "refusal": "Because.", "annotations": []}
    assert written["choices"][0]["finish_reason"] == "stop"
    assert losses == [LossCode.REFUSAL_CATEGORY]
    written, _ = give(stop=REFUSED, refusal=info, knobs=Knobs(refusal_terminal="native"))
    assert written["choices"][0]["finish_reason"] == "content_filter"
    written, _ = give(stop=REFUSED)
    assert message_of(written)["refusal"]


def test_messages_refusal_after_text_keeps_the_text() -> None:
    written, _ = give(Text("Well"), stop=REFUSED, refusal=RefusalInfo("Because."))
    message = message_of(written)
    assert (message["content"], message["refusal"]) == ("Well", "Because.")
    assert written["choices"][0]["finish_reason"] == "content_filter"


def test_filter_of_another_upstream_is_no_refusal() -> None:
    written, _ = give(Text("Well"), stop=Stop(StopReason.FILTERED, "content_filter"))
    assert message_of(written)["refusal"] is None
    assert written["choices"][0]["finish_reason"] == "content_filter"


def test_refusal_in_the_models_words_is_written() -> None:
    written, _ = give(Refusal("No."), stop=Stop(StopReason.REFUSAL, "completed"))
    assert message_of(written) == {"role": "assistant", "content": None, "refusal": "No.", "annotations": []}
    assert written["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "message",
    [
        {"content": "x", "refusal": None},
        {"content": None, "refusal": "no"},
        {"content": "x", "refusal": None, "reasoning_content": "why", "tool_calls": [tool_call('{"a": 1}')]},
        {
            "content": "xy",
            "refusal": None,
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {"start_index": 0, "end_index": 1, "title": "A", "url": "https://a.test"},
                }
            ],
        },
    ],
)
def test_reading_and_writing_keeps_the_message(message: Json) -> None:
    body = upstream(message, "tool_calls" if "tool_calls" in message else "stop")
    reply, losses = read(body)
    written = write_reply(reply, ReplyContext("up"))
    assert message_of(written) == {"role": "assistant", "annotations": [], **message}
    assert {key: written[key] for key in ("id", "created", "model")} == {
        key: body[key] for key in ("id", "created", "model")
    }
    assert losses == []


def test_an_empty_text_keeps_two_messages_apart() -> None:
    written, _ = give(Text("One"), Text("", apart=True), Text("Two"))
    assert message_of(written)["content"] == "One\n\nTwo"


def test_adjacent_texts_join_and_parted_ones_get_a_blank_line() -> None:
    text = JoinedText()
    text.gap()
    assert [text.add("one"), text.add(" two")] == [0, 3]
    text.gap()
    text.gap()
    assert text.add("three") == 9
    assert str(text) == "one two\n\nthree"
