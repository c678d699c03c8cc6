"""Tools of kinds that the upstream lacks: back (mapping §6.1, §11)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Ping,
    Start,
    Stop,
    StopReason,
)
from dragoman.canonical.parts import Part, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode, Losses
from dragoman.stages.tool_restorer import ToolRestorer, restore_reply
from dragoman.tools.bridge import OriginalTool
from support.canonical import check
from support.replies import reply_of

TOOLS = {
    "patch": OriginalTool("patch", None, "custom"),
    "ns__exec": OriginalTool("exec", "ns", "custom"),
    "ns__add": OriginalTool("add", "ns"),
    "tool_search": OriginalTool("tool_search", None, "search"),
}
START = Start("id", "m")


def call(index: int, name: str, **fields: Any) -> BlockStart:
    return BlockStart(index, "tool", f"c{index}", name, **fields)


def finish(reason: StopReason = StopReason.TOOL_CALLS) -> list[Event]:
    return [Finish(Stop(reason)), End()]


def restored(*events: Event, tools: dict[str, OriginalTool] = TOOLS, losses: Losses | None = None) -> list[Event]:
    """Return what the stage gives for events that come one by one."""
    stage = ToolRestorer(tools, Losses() if losses is None else losses)
    out: list[Event] = []
    for event in events:
        if stage.done:
            break
        out += stage.feed([event])
    return out + stage.finish()


def test_calls_come_back_as_they_were_declared() -> None:
    events: list[Event] = [START]
    for index, name in enumerate([*TOOLS, "plain"]):
        events += [call(index, name), Delta(index, '{"input":"x"}'), BlockEnd(index)]
    out = restored(*events, *finish())
    starts = [event for event in out if isinstance(event, BlockStart)]
    assert starts == [
        call(0, "patch", custom=True),
        call(1, "exec", custom=True, namespace="ns"),
        call(2, "add", namespace="ns"),
        call(3, "tool_search", search=True),
        call(4, "plain"),
    ]
    stated = [event.text for event in out if isinstance(event, Delta)]
    assert stated == ["x", "x", '{"input":"x"}', '{"input":"x"}', '{"input":"x"}']


def test_interleaved_calls_keep_their_own_text() -> None:
    out = restored(
        START,
        call(0, "patch"),
        call(1, "ns__exec"),
        call(2, "plain"),
        Delta(0, '{"input":"a'),
        Delta(1, '{"in'),
        Ping(),
        Delta(2, '{"a"'),
        Delta(0, '\\nb"}'),
        Delta(1, 'put":"\\ud83d'),
        Delta(2, ":1}"),
        Delta(1, '\\udc4b"}'),
        BlockEnd(1),
        BlockEnd(0),
        BlockEnd(2),
        *finish(),
    )
    made = check(out)
    assert [(made_call.name, made_call.arguments) for made_call in made.calls] == [
        ("patch", "a\nb"),
        ("exec", "👋"),
        ("plain", '{"a":1}'),
    ]
    assert Ping() in out


def test_texts_of_the_same_name_are_left_alone() -> None:
    events: list[Event] = [START, BlockStart(0, "text"), Delta(0, '{"input":"x"}'), BlockEnd(0)]
    events += [BlockStart(1, "opaque", name="patch", code="vendor_block"), BlockEnd(1), *finish(StopReason.END)]
    assert restored(*events) == events


def test_a_call_that_the_upstream_made_as_free_text_is_not_unwrapped() -> None:
    out = restored(START, call(0, "ns__exec", custom=True), Delta(0, '{"input":"x"}'), BlockEnd(0), *finish())
    assert out[1:3] == [call(0, "exec", custom=True, namespace="ns"), Delta(0, '{"input":"x"}')]


def test_namespaces_that_the_upstream_takes_distinguish_tools() -> None:
    tools = {"ns__exec": OriginalTool("exec", "ns", "custom")}
    for namespace, is_custom in (("ns", True), ("other", False), (None, False)):
        start = restored(START, call(0, "exec", namespace=namespace), tools=tools)[1]
        assert start == call(0, "exec", namespace=namespace, custom=is_custom)


@pytest.mark.parametrize("arguments", ['{"input":"x","y":1}', '{"y":1,"input":"x"}'])
def test_what_is_left_out_is_reported(arguments: str) -> None:
    losses = Losses()
    out = restored(START, call(0, "patch"), Delta(0, arguments), BlockEnd(0), *finish(), losses=losses)
    assert out[2] == Delta(0, "x")
    assert losses.counts == {LossCode.CUSTOM_WRAPPED: 1}


# --- what is not whole ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ['{"input":"x', '{"input":"x"', '{"y":1,"input":"x'])
@pytest.mark.parametrize("complete", [True, False])
def test_a_cut_call_is_reported_as_incomplete(arguments: str, complete: bool) -> None:
    """Messages upstreams end the block before they report that the reply was cut; an agent would run the half."""
    events: list[Event] = [START, call(0, "patch"), Delta(0, arguments), BlockEnd(0, complete=complete)]
    out = restored(*events, *finish(StopReason.LENGTH))
    assert BlockEnd(0, complete=False) in out
    assert out[-2:] == finish(StopReason.LENGTH)


def test_a_call_that_its_reader_calls_incomplete_stays_so() -> None:
    events: list[Event] = [START, call(0, "patch"), Delta(0, '{"input":"x"}'), BlockEnd(0, complete=False)]
    assert restored(*events, *finish(StopReason.LENGTH))[3] == BlockEnd(0, complete=False)


def test_a_half_call_of_a_reply_that_was_not_cut_is_an_error() -> None:
    out = restored(START, call(0, "patch"), Delta(0, '{"input":"x'), BlockEnd(0), *finish())
    assert BlockEnd(0, complete=False) in out
    assert isinstance(out[-1], Error)
    assert "not whole JSON" in out[-1].failure.message
    assert not any(isinstance(event, Finish) for event in out)


@pytest.mark.parametrize("arguments", ['{"input":5}', '["x"]', '{"input":"\\x"}'])
def test_a_call_without_a_text_ends_the_stream_in_an_error(arguments: str) -> None:
    stage = ToolRestorer(TOOLS, Losses())
    out = stage.feed([START, call(0, "patch"), Delta(0, arguments), BlockEnd(0), *finish()])
    assert isinstance(out[-1], Error)
    assert stage.done
    assert not any(isinstance(event, BlockEnd) for event in out)


def test_an_error_of_the_upstream_goes_through() -> None:
    failure = UpstreamProtocolError("broken").failure
    assert restored(START, call(0, "patch"), Delta(0, '{"input":"x'), Error(failure))[-1] == Error(failure)


# --- whole replies ----------------------------------------------------------------------------------------------------


def whole(*parts: Part, reason: StopReason = StopReason.TOOL_CALLS, losses: Losses | None = None) -> list[Part]:
    reply = Reply("id", "m", list(parts), Stop(reason))
    restore_reply(reply, TOOLS, Losses() if losses is None else losses)
    return reply.parts


def test_a_whole_reply_is_restored() -> None:
    given = '{"input":"x"}'
    assert whole(Text("patch"), *(ToolCall(name, name, given) for name in [*TOOLS, "plain"])) == [
        Text("patch"),
        ToolCall("patch", "patch", "x", custom=True),
        ToolCall("ns__exec", "exec", "x", custom=True, namespace="ns"),
        ToolCall("ns__add", "add", given, namespace="ns"),
        ToolCall("tool_search", "tool_search", given, search=True),
        ToolCall("plain", "plain", given),
    ]


@pytest.mark.parametrize("arguments", ['{"input":5}', '{"input":"x', '{"input":"\\x"}'])
def test_a_whole_call_without_a_text_is_an_error(arguments: str) -> None:
    with pytest.raises(UpstreamProtocolError, match="'patch'"):
        whole(ToolCall("c", "patch", arguments))


def test_a_cut_whole_reply_keeps_what_there_is() -> None:
    assert whole(ToolCall("c", "patch", '{"input":"x'), reason=StopReason.LENGTH) == [
        ToolCall("c", "patch", "x", custom=True)
    ]


_ARGUMENTS = st.one_of(
    st.text(st.sampled_from('a"\\\né👋'), max_size=8).map(lambda text: json.dumps({"input": text})),
    st.text(st.sampled_from('a"\\\né👋'), max_size=8).map(lambda text: json.dumps({"more": 1, "input": text})),
    st.sampled_from(("", "{}", '{"input":"x","y":1}', '{"text":"x"}', '{"input":"x', '{"input":1}', "[]", '{"y":1')),
)


@given(
    st.lists(st.tuples(st.sampled_from([*TOOLS, "plain"]), _ARGUMENTS), max_size=4),
    st.sampled_from((StopReason.TOOL_CALLS, StopReason.LENGTH)),
    st.integers(1, 4),
)
def test_a_stream_accumulates_to_the_whole_reply(made: list[tuple[str, str]], reason: StopReason, size: int) -> None:
    events: list[Event] = [START]
    events += [call(index, name) for index, (name, _) in enumerate(made)]
    for index, (_, arguments) in enumerate(made):
        pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
        events += [Delta(index, piece) for piece in pieces]
        events.append(BlockEnd(index))
    losses, whole_losses = Losses(), Losses()
    out = restored(*events, *finish(reason), losses=losses)
    try:
        parts = whole(*(ToolCall(f"c{i}", *one) for i, one in enumerate(made)), reason=reason, losses=whole_losses)
    except UpstreamProtocolError:
        assert isinstance(out[-1], Error)
        return
    streamed = reply_of(out, "chat").parts
    assert [(part.name, part.arguments, part.custom) for part in streamed if isinstance(part, ToolCall)] == [
        (part.name, part.arguments, part.custom) for part in parts if isinstance(part, ToolCall)
    ]
    assert losses.counts == whole_losses.counts
