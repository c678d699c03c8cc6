"""The ends of streams of Messages servers, and the parts that they leave out, repeat or misplace before.

What can mean one thing only is read as that, and is a row; what could mean two is an error, and so is every cut.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from dragoman import LossCode, direction
from oracles.grammar import Call, sse
from regressions.repaired import restored, rows
from regressions.wire import CHAT, DONE, MESSAGES, begin, block, delta, end, event, stop, tool
from support.directions import error_of, judge, stream_through, translated

RESPONSES = "responses"
HI = (block(0, type="text", text=""), delta(0, "text", "Hi"))
A, B = Call("call_a", "read", '{"f":"a"}'), Call("call_b", "list", '{"d":"/"}')
REASON, LAST = end("end_turn").split(b"event: message_stop")[0], event("message_stop")
END = {
    CHAT: {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"},
    RESPONSES: {
        "end_turn": "completed",
        "tool_use": "completed",
        "max_tokens": "incomplete/max_output_tokens",
        "refusal": "incomplete/content_filter",
    },
}
COUNTS = {CHAT: ("prompt_tokens", "completion_tokens"), RESPONSES: ("input_tokens", "output_tokens")}
clients = pytest.mark.parametrize("client", [CHAT, RESPONSES])


def reason(word: str | None, **usage: int) -> bytes:
    """`message_delta` alone."""
    return end(word, **usage).split(b"event: message_stop")[0]


def no_index(frame: bytes) -> bytes:
    return re.sub(rb'"index": \d, |, "index": \d', b"", frame)


def whole_call(index: int, call: Call) -> tuple[bytes, ...]:
    return tool(index, call.id, call.name), delta(index, "input_json", call.arguments), stop(index)


# --- stop reasons -----------------------------------------------------------------------------------------------------


@clients
def test_end_turn_after_a_call_means_the_call(client: str) -> None:
    held, done, _ = restored(client, MESSAGES, begin(), *whole_call(0, A), end("end_turn"))
    assert (held.calls, held.finish) == ([A], END[client]["tool_use"])
    assert done == ["end_turn after a call became tool_use"]


@clients
@pytest.mark.parametrize(
    ("word", "meant"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("tool_calls", "tool_use"), ("content_filter", "refusal")],
)
def test_chats_words_for_a_reason(client: str, word: str, meant: str) -> None:
    stated = whole_call(0, A) if meant == "tool_use" else (*HI, stop(0))
    held, done, _ = restored(client, MESSAGES, begin(), *stated, end(word))
    assert held.finish == END[client][meant]
    assert done == [f"read {word!r} as {meant!r}"]


@clients
@pytest.mark.parametrize("word", ["error", "abort", "cancelled"])
def test_T22_a_reason_that_means_a_failure_is_no_end(client: str, word: str) -> None:
    """Truncated answers reach the client as clean ones (ollama/ollama#18332): these words were read as ends."""
    held, _, _ = restored(client, MESSAGES, begin(), *HI, stop(0), end(word))
    assert held.error is not None
    assert word in held.error["message"]


@clients
def test_a_pause_is_reported_as_a_cut_and_never_as_calls(client: str) -> None:
    """Other dialects cannot resume: a call that does not exist would be waited for (mapping §9.2)."""
    held, done, _ = restored(client, MESSAGES, begin(), *HI, stop(0), end("pause_turn"))
    assert held.finish == END[client]["max_tokens"]
    assert done == []


# --- blocks -----------------------------------------------------------------------------------------------------------


@clients
def test_T20_blocks_without_their_end_are_ended_by_the_reason(client: str) -> None:
    """Events that never come (tombii/better-ccflare#307): here `content_block_stop`."""
    call = (tool(1, A.id, A.name), delta(1, "input_json", A.arguments))
    held, done, _ = restored(client, MESSAGES, begin(), *HI, *call, end("tool_use"))
    assert (held.text, held.calls, held.error) == ("Hi", [A], None)
    assert done == ["a block ended without content_block_stop"]


@clients
@pytest.mark.parametrize(("word", "stated"), [("tool_use", '{"f":'), ("max_tokens", '{"f":'), ("max_tokens", "")])
def test_T22_half_a_call_without_its_end_is_never_closed_as_whole(client: str, word: str, stated: str) -> None:
    """Truncated answers reach the client as clean ones (ollama/ollama#18332)."""
    held, _, out = restored(
        client, MESSAGES, begin(), tool(0, "call_a", "read"), delta(0, "input_json", stated), end(word)
    )
    assert (held.error is None) is (word == "max_tokens")
    assert b'"{}"' not in out
    assert b"arguments.done" not in out
    assert b'"finish_reason":"tool_calls"' not in out


@clients
def test_T20_a_stop_without_blocks_ends_and_reason_is_a_cut(client: str) -> None:
    """Neither the block's end nor a reason came (tombii/better-ccflare#307): nothing states that the text is whole."""
    held, _, _ = restored(client, MESSAGES, begin(), *HI, LAST)
    assert held.error is not None


@clients
def test_T05_blocks_without_an_index_follow_the_one_that_began_last(client: str) -> None:
    """Indexes left out, as in zed-industries/zed#38412."""
    frames = (*HI, stop(0), *whole_call(1, A))
    held, done, _ = restored(client, MESSAGES, begin(), *map(no_index, frames), end("tool_use"))
    assert (held.text, held.calls) == ("Hi", [A])
    assert done == ["a block had no index"]


@clients
@pytest.mark.parametrize("given", ["", None])
def test_T17_a_call_without_an_id_gets_one(client: str, given: str | None) -> None:
    """An empty id is refused in the next request (microsoft/agent-framework-go#784)."""
    start = block(0, type="tool_use", id=given, name="read", input={})
    held, done, _ = restored(
        client, MESSAGES, begin(), start, delta(0, "input_json", A.arguments), stop(0), end("tool_use")
    )
    assert [(call.name, call.arguments) for call in held.calls] == [("read", A.arguments)]
    assert held.calls[0].id
    assert done == ["a call without an id"]


@clients
def test_T17_calls_of_one_id_get_ids_of_their_own(client: str) -> None:
    """Duplicate ids are refused in the next request (microsoft/agent-framework-go#784)."""
    held, done, _ = restored(
        client, MESSAGES, begin(), *whole_call(0, A), *whole_call(1, B._replace(id=A.id)), end("tool_use")
    )
    assert [call.name for call in held.calls] == ["read", "list"]
    assert held.calls[0].id == A.id != held.calls[1].id
    assert done == ["a call with the id of another"]


@clients
@pytest.mark.parametrize("given", [{"f": "a"}, None])
def test_T06_fragments_as_an_object_or_null(client: str, given: Any) -> None:
    """Arguments in the other dialect's form (aradlein/hass-agent-llm#42)."""
    fragment = event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": given})
    held, done, _ = restored(client, MESSAGES, begin(), tool(0, A.id, A.name), fragment, stop(0), end("tool_use"))
    assert held.parsed_calls() == [("call_a", "read", given or {})]
    assert done == [
        "arguments were an object instead of text" if given else "a fragment of arguments is null",
    ]


@clients
def test_T04_input_whole_in_the_start_is_counted(client: str) -> None:
    """The tool's name arrives, its arguments never do (BerriAI/litellm#25836)."""
    held, done, _ = restored(client, MESSAGES, begin(), tool(0, A.id, A.name, {"f": "a"}), stop(0), end("tool_use"))
    assert held.calls == [A]
    assert done == ["the arguments of a call were complete in content_block_start"]


# --- the end ----------------------------------------------------------------------------------------------------------


@clients
@pytest.mark.parametrize("last", [(), (DONE,)])
def test_T20_a_server_known_to_leave_message_stop_out_ends_by_its_reason(client: str, last: tuple[bytes, ...]) -> None:
    """`stop_reason` came, `message_stop` never (tombii/better-ccflare#307): repaired for those only, and reported."""
    held, done, _ = restored(client, MESSAGES, begin(), *HI, stop(0), REASON, *last, profile="compatible")
    assert (held.text, held.finish, held.error) == ("Hi", END[client]["end_turn"], None)
    assert done == ["the stream ended without message_stop"]
    held, _, _ = restored(client, MESSAGES, begin(), *HI, stop(0), REASON, *last)
    # `[DONE]` behind a reason is an end in each profile.
    assert (held.error is None) is (client != MESSAGES and last == (DONE,))


@clients
@pytest.mark.parametrize("frames", [(begin(), *HI), (begin(), *HI, stop(0)), (begin(), *HI, stop(0), reason(None))])
def test_T20_without_a_reason_no_server_ends_well(client: str, frames: tuple[bytes, ...]) -> None:
    """The repair is narrow: whatever may be missing besides `message_stop` is a cut (tombii/better-ccflare#307)."""
    held, _, _ = restored(client, MESSAGES, *frames, DONE, profile="compatible")
    assert held.error is not None


def test_T20_a_passed_through_stream_is_given_the_message_stop_that_its_server_leaves_out() -> None:
    """Likewise on the way from Messages to Messages (tombii/better-ccflare#307)."""
    frames = [begin(), *HI, stop(0), REASON]
    translation = translated(direction(MESSAGES, MESSAGES), profile="compatible")
    out = stream_through(translation, frames)
    assert judge(MESSAGES, out).finish == "end_turn"
    assert rows(translation) == ["the stream ended without message_stop"]
    for count in range(1, len(frames)):
        cut = stream_through(translated(direction(MESSAGES, MESSAGES), profile="compatible"), frames[:count])
        assert error_of(MESSAGES, sse.split(cut)[-1])
    half = stream_through(translated(direction(MESSAGES, MESSAGES), profile="compatible"), [*frames, b"event: mess"])
    assert error_of(MESSAGES, sse.split(half)[-1])


@clients
def test_a_second_reason_is_not_reported_again(client: str) -> None:
    held, done, _ = restored(client, MESSAGES, begin(), *HI, stop(0), REASON, reason("end_turn", output_tokens=9), LAST)
    assert held.finish == END[client]["end_turn"]
    assert done == ["a second stop_reason"]


@clients
def test_T31_counts_only_at_the_start_are_reported_as_no_final_ones(client: str) -> None:
    """Counts that do not add up (Portkey-AI/gateway#1754): what `message_start` counts of the output is provisional."""
    bare = event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None})
    translation = translated(direction(client, MESSAGES))
    held = judge(client, stream_through(translation, [begin(), *HI, stop(0), bare, LAST]))
    assert held.usage is not None
    assert held.usage[COUNTS[client][0]] == 9
    assert rows(translation, LossCode.USAGE_ESTIMATED) == ["only message_start counted, before the reply was made"]


@clients
def test_T30_counts_only_at_the_end_are_the_counts(client: str) -> None:
    """The input count is 0 in `message_start` (sgl-project/sglang#20678), the end has it."""
    start = begin(input_tokens=0, output_tokens=0)
    held, done, _ = restored(client, MESSAGES, start, *HI, stop(0), end("end_turn", input_tokens=9, output_tokens=3))
    assert held.usage is not None
    assert [held.usage[name] for name in COUNTS[client]] == [9, 3]
    assert done == []
