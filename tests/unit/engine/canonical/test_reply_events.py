"""A complete reply as the events of a stream."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockStart,
    Citation,
    Delta,
    End,
    Finish,
    Logprobs,
    Opaque,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of, may_be_cut
from dragoman.canonical.request import Image, Native, Part, Reasoning, Refusal, Text, ToolCall, Url
from dragoman.losses import LossCode

STOP, USAGE = Stop(StopReason.END), Usage(1, None, None, 2)


def reply(*parts: Part, stop: Stop = STOP) -> Reply:
    return Reply("r", "m", list(parts), stop, USAGE)


def test_each_part_is_a_block_with_its_index() -> None:
    citation, token = Citation("chat", {}, "https://a.test"), {"token": "x"}
    search = {"type": "web_search_call"}
    events = events_of(
        reply(
            Reasoning("why", origin="messages", proof="sig"),
            Text("x", citations=[citation], logprobs=[token], apart=True),
            Refusal("No"),
            ToolCall("c", "f", "{}"),
            Native("responses", "web_search_call", search, LossCode.HOSTED_HISTORY),
        )
    )
    assert events == [
        Start("r", "m", None, None),
        BlockStart(0, "reasoning"),
        Delta(0, "why"),
        Opaque(0, "messages", "signature", "sig", None),
        BlockEnd(0),
        BlockStart(1, "text", apart=True),
        Delta(1, "x"),
        Logprobs(1, [token]),
        Annotation(1, citation),
        BlockEnd(1),
        BlockStart(2, "refusal"),
        Delta(2, "No"),
        BlockEnd(2),
        BlockStart(3, "tool", "c", "f"),
        Delta(3, "{}"),
        BlockEnd(3),
        BlockStart(4, "opaque", name="web_search_call", code=LossCode.HOSTED_HISTORY),
        Opaque(4, "responses", "block", search),
        BlockEnd(4),
        Finish(STOP, USAGE, None),
        End(),
    ]


def test_redacted_reasoning_is_one_opaque_block() -> None:
    events = events_of(reply(Reasoning("", origin="messages", proof="d", redacted=True)))
    assert Opaque(0, "messages", "block", {"data": "d"}) in events


def test_T22_only_a_free_text_call_at_the_end_of_a_cut_reply_may_be_cut() -> None:
    text = ToolCall("c", "f", "x", custom=True)
    cut = Stop(StopReason.LENGTH)
    assert may_be_cut(reply(text, stop=cut), 0)
    assert not may_be_cut(reply(text), 0)
    assert not may_be_cut(reply(text, Text("x"), stop=cut), 0)
    assert not may_be_cut(reply(ToolCall("c", "f", "{"), stop=cut), 0)
    ends = [event for event in events_of(reply(text, stop=cut)) if isinstance(event, BlockEnd)]
    assert ends == [BlockEnd(0, complete=False)]


def test_no_reply_has_an_image() -> None:
    with pytest.raises(TypeError, match="Image"):
        events_of(reply(Image(Url("u"))))
