"""A complete reply as the events of a stream, and the reply of such events."""

from __future__ import annotations

import pytest

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
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.canonical.parts import Image, Json, Native, Part, Reasoning, Refusal, Text, ToolCall, Url
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of, may_be_cut, reply_of
from dragoman.errors import Failure, FailureKind, UpstreamStatusError
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


def at(index: int) -> tuple[str | int, ...]:
    """Return the path of a part in a Messages reply."""
    return ("content", index)


def test_the_events_of_a_stream_accumulate_to_the_reply() -> None:
    citation = Citation("messages", {}, "https://a.test")
    parts: list[Part] = [
        Reasoning("why", at(0), "messages", proof="sig"),
        Text("x", at(1), citations=[citation], logprobs=[{"token": "x"}], apart=True),
        Refusal("No", at(2)),
        ToolCall("c", "f", '{"a":1}', at(3), namespace="n"),
        ToolCall("d", "g", "text", at(4), custom=True),
        Native("messages", "web_search_result", {"type": "web_search_result"}, LossCode.HOSTED_HISTORY, at(5)),
        Reasoning("", at(6), "messages", proof="d", native={"data": "d"}, redacted=True),
    ]
    assert reply_of(events_of(reply(*parts)), "messages") == reply(*parts)


def test_a_part_of_a_chat_reply_has_the_path_of_the_message() -> None:
    made = reply_of(events_of(reply(Text("x"))), "chat")
    assert made.parts == [Text("x", ("choices", 0, "message"))]


def test_fragments_are_joined_in_their_order() -> None:
    events: list[Event] = [
        Start("r", "m", None, 9),
        BlockStart(0, "reasoning"),
        BlockStart(1, "tool", "c", "f"),
        Delta(1, '{"a"'),
        Delta(0, "wh"),
        Opaque(0, "messages", "signature", "si"),
        Delta(1, ":1}"),
        Delta(0, "y"),
        Opaque(0, "messages", "signature", "g", {"type": "thinking"}),
        BlockEnd(0),
        BlockEnd(1),
        Finish(STOP, Usage(1, cache_write=3, cache_write_1h=2)),
        End(Usage(output_total=7)),
    ]
    made = reply_of(events, "messages")
    reasoning = Reasoning("why", at(0), "messages", proof="sig", native={"type": "thinking"})
    assert made.parts == [reasoning, ToolCall("c", "f", '{"a":1}', at(1))]
    assert made.usage == Usage(1, cache_write=3, output_total=7, cache_write_1h=2)
    assert made.created == 9


def test_a_call_without_arguments_has_an_empty_object_unless_it_was_cut() -> None:
    def called(*, custom: bool = False, complete: bool = True) -> Reply:
        start = BlockStart(0, "tool", "c", "f", custom=custom)
        return reply_of([start, Delta(0, ""), BlockEnd(0, complete=complete), Finish(STOP, USAGE), End()], "messages")

    for made, arguments in ((called(), "{}"), (called(custom=True), ""), (called(complete=False), "")):
        (call,) = made.parts
        assert isinstance(call, ToolCall)
        assert call.arguments == arguments
    assert called().cut == frozenset()
    assert called(complete=False).cut == {0}


def test_the_deltas_of_an_opaque_block_are_joined() -> None:
    events: list[Event] = [
        BlockStart(0, "opaque", name="server_tool_use"),
        Opaque(0, "messages", "block", {"input": ""}),
        Opaque(0, "messages", "delta", {"partial_json": "{"}),
        Opaque(0, "messages", "delta", {"partial_json": "}"}),
        BlockEnd(0),
        Finish(STOP, USAGE),
        End(),
    ]

    def join(block: Json, deltas: list[Json]) -> Json:
        return {**block, "input": "".join(delta["partial_json"] for delta in deltas)}

    for chosen, expected in ((join, {"input": "{}"}), (None, {"input": ""})):
        (part,) = reply_of(events, "messages", chosen).parts
        assert isinstance(part, Native)
        assert part.payload == expected


def test_an_error_in_the_stream_is_raised() -> None:
    failure = Failure(FailureKind.OVERLOADED, "busy", 529)
    with pytest.raises(UpstreamStatusError, match="busy"):
        reply_of([Start("r", "m"), Error(failure)], "messages")
