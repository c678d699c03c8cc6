"""The ends of streams of Chat servers, and the parts that they leave out, repeat or misplace before.

What can mean one thing only is read as that, and is a row; what could mean two is an error, and so is every cut.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import LossCode, direction
from oracles.grammar import Call
from regressions.repaired import replied, restored, rows
from regressions.wire import CHAT, DONE, MESSAGES, ROLE, USAGE, calls, chunk, more_call, start_call
from support.directions import Json, stream_through, translated

RESPONSES = "responses"
HI = chunk({"content": "Hi"})
STOP, CALLS, USED = chunk({}, "stop"), chunk({}, "tool_calls"), chunk(None, usage=USAGE)
A, B = Call("call_a", "read", '{"f":"a"}'), Call("call_b", "list", '{"d":"/"}')
END = {
    MESSAGES: {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"},
    RESPONSES: {
        "stop": "completed",
        "tool_calls": "completed",
        "length": "incomplete/max_output_tokens",
        "content_filter": "incomplete/content_filter",
    },
}
clients = pytest.mark.parametrize("client", [MESSAGES, RESPONSES])


def whole_call(call: Call, index: int | None = 0, **more: Any) -> Json:
    """A call in one fragment."""
    fragment = start_call(index or 0, call.id, call.name, call.arguments) | more
    if index is None:
        del fragment["index"]
    return {key: value for key, value in fragment.items() if value is not None}


def named(call: Call) -> tuple[str, str]:
    return call.name, call.arguments


# --- stop reasons -----------------------------------------------------------------------------------------------------


@clients
def test_stop_after_a_call_means_the_call(client: str) -> None:
    held, done, _ = restored(client, CHAT, ROLE, calls(whole_call(A)), STOP, USED, DONE)
    assert (held.calls, held.finish) == ([A], END[client]["tool_calls"])
    assert done == ["stop after a call became tool_calls"]


@clients
def test_tool_calls_without_a_call_is_an_end(client: str) -> None:
    held, done, _ = restored(client, CHAT, ROLE, HI, CALLS, USED, DONE)
    assert (held.text, held.finish) == ("Hi", END[client]["stop"])
    assert done == ["tool_calls without a call became stop"]


@clients
@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("max_tokens", "length"),
        ("model_length", "length"),
        ("end_turn", "stop"),
        ("tool_use", "tool_calls"),
        ("sensitive", "content_filter"),
    ],
)
def test_other_servers_words_for_a_reason(client: str, word: str, meant: str) -> None:
    stated = calls(whole_call(A)) if meant == "tool_calls" else HI
    held, done, _ = restored(client, CHAT, ROLE, stated, chunk({}, word), USED, DONE)
    assert held.finish == END[client][meant]
    assert done == [f"read {word!r} as {meant!r}"]


@clients
@pytest.mark.parametrize("word", ["error", "network_error", "abort", "cancelled", "insufficient_system_resource"])
def test_T22_a_reason_that_means_a_failure_is_no_end(client: str, word: str) -> None:
    """Truncated answers reach the client as clean ones (ollama/ollama#18332): these words were read as ends."""
    held, _, out = restored(client, CHAT, ROLE, calls(whole_call(A)), chunk({}, word), USED, DONE)
    assert held.error is not None
    assert word in held.error["message"]
    assert b"content_block_stop" not in out
    assert b"arguments.done" not in out


@clients
@pytest.mark.parametrize("stated", ['{"f":"', ""])
def test_T22_a_cut_inside_a_call_never_reports_it_as_whole(client: str, stated: str) -> None:
    """The reason states `length` in the middle of the arguments (ollama/ollama#18332), or before them."""
    held, done, out = restored(client, CHAT, ROLE, calls(start_call(0, "call_a", "read", stated)), chunk({}, "length"))
    assert held.finish == END[client]["length"]
    assert b"arguments.done" not in out
    assert done == ["the stream ended without [DONE]"]


@clients
@pytest.mark.parametrize(("first", "second", "noted"), [("stop", "stop", "stop"), ("stop", "length", "length")])
def test_a_second_reason_counts_only_if_it_means_a_cut(client: str, first: str, second: str, noted: str) -> None:
    held, done, _ = restored(client, CHAT, ROLE, HI, chunk({}, first), chunk({}, second), USED, DONE)
    assert held.finish == END[client][noted]
    assert done == ["a second finish_reason"]


# --- calls ------------------------------------------------------------------------------------------------------------


@clients
@pytest.mark.parametrize("apart", [True, False])
def test_T01_calls_that_all_have_the_index_0(client: str, apart: bool) -> None:
    """All parallel calls carry index 0 (ai-dynamo/dynamo#4723): each comes whole, so where one ends is sure."""
    stated = [calls(whole_call(A)), calls(whole_call(B))] if apart else [calls(whole_call(A), whole_call(B))]
    held, done, _ = restored(client, CHAT, ROLE, *stated, CALLS, USED, DONE)
    assert held.calls == [A, B]
    assert done == ["several calls have one index"]


@clients
def test_T01_fragments_of_calls_with_one_index_go_by_their_ids(client: str) -> None:
    """Likewise in fragments: the id alone distinguish them  (ai-dynamo/dynamo#4723)."""
    first = [calls(whole_call(A)), calls(start_call(0, B.id, B.name))]
    rest = [calls(more_call(0, B.arguments[:3]) | {"id": B.id}), calls(more_call(0, B.arguments[3:]) | {"id": B.id})]
    held, done, _ = restored(client, CHAT, ROLE, *first, *rest, CALLS, USED, DONE)
    assert held.calls == [A, B]
    assert done == ["several calls have one index"]


@clients
@pytest.mark.parametrize("name", ["read", "list"])
def test_T01_a_call_that_begins_inside_another_is_an_error(client: str, name: str) -> None:
    """Where the first call ends is not sure then, and half of it would be run (Shelpuk-AI-Technology-Consulting/
    kitty-bridge#116)."""
    frames = [calls(start_call(0, "call_a", "read", '{"f":"a"')), calls(start_call(0, "call_b", name, '{"d":"/"}'))]
    held, _, out = restored(client, CHAT, ROLE, *frames, CALLS, USED, DONE)
    assert held.error is not None
    assert b"content_block_stop" not in out


@clients
def test_T02_a_call_that_is_never_named_ends_in_an_error(client: str) -> None:
    """A delta to a block that never started (Wei-Shaw/sub2api#4294): nothing is made up for it, nor is it lost."""
    held, _, _ = restored(client, CHAT, ROLE, calls(more_call(0, A.arguments)), CALLS, USED, DONE)
    assert held.error is not None
    assert not held.calls


@clients
def test_T05_fragments_without_an_index_go_by_their_place(client: str) -> None:
    """Likewise the same field's absence where calls come side by side (zed-industries/zed#38412)."""
    begun, more = [start_call(0, call.id, call.name) for call in (A, B)], [more_call(0, c.arguments) for c in (A, B)]
    for fragment in begun + more:
        del fragment["index"]
    held, done, _ = restored(client, CHAT, ROLE, calls(*begun), calls(*more), CALLS, USED, DONE)
    assert held.calls == [A, B]
    assert done == ["a call had no index"]


@clients
def test_T05_whole_calls_without_index_and_id(client: str) -> None:
    """Servers that leave `tool_calls[].index` out (zed-industries/zed#38412), and the id as well."""
    stated = [calls(whole_call(call, None, id=None)) for call in (A, B, B._replace(arguments='{"d":"x"}'))]
    held, done, _ = restored(client, CHAT, ROLE, *stated, CALLS, USED, DONE)
    assert [named(call) for call in held.calls] == [named(A), named(B), ("list", '{"d":"x"}')]
    assert len({call.id for call in held.calls}) == 3
    assert done == ["a call had no index", "a call without an id", "several calls have one index"]


@clients
def test_T05_gaps_in_the_indexes_are_closed(client: str) -> None:
    """Strict clients take no gaps, some servers count blocks or from 1 (zed-industries/zed#38412)."""
    stated = [calls(whole_call(A, 2)), calls(whole_call(B, 5)), calls(more_call(2, " "))]
    held, done, _ = restored(client, CHAT, ROLE, *stated, CALLS, USED, DONE)
    assert [call.name for call in held.calls] == ["read", "list"]
    assert done == []


@clients
def test_T17_calls_of_one_id_get_ids_of_their_own(client: str) -> None:
    """Duplicate ids are refused in the next request (microsoft/agent-framework-go#784)."""
    twin = B._replace(id=A.id)
    held, done, _ = restored(client, CHAT, ROLE, calls(whole_call(A)), calls(whole_call(twin, 1)), CALLS, USED, DONE)
    assert [named(call) for call in held.calls] == [named(A), named(B)]
    assert held.calls[0].id == A.id != held.calls[1].id
    assert done == ["a call with the id of another"]


@clients
def test_an_id_that_comes_late_does_not_rename_the_call(client: str) -> None:
    stated = [calls(start_call(0, "", "read")), calls(more_call(0, A.arguments) | {"id": "call_late"})]
    held, done, _ = restored(client, CHAT, ROLE, *stated, CALLS, USED, DONE)
    assert [named(call) for call in held.calls] == [named(A)]
    assert done == ["a call without an id"]


@clients
def test_T04_a_name_in_every_fragment_begins_no_further_call(client: str) -> None:
    """Arguments that were lost or doubled where a fragment looked like a start (BerriAI/litellm#25836)."""
    stated = [calls(start_call(0, A.id, A.name, piece)) for piece in ('{"f"', ":", '"a"}', "")]
    held, done, _ = restored(client, CHAT, ROLE, *stated, CALLS, USED, DONE)
    assert held.calls == [A]
    assert done == ["a call's name was sent again"]


@clients
def test_T04_a_whole_call_that_comes_twice_is_run_once(client: str) -> None:
    """Arguments doubled by a last chunk that repeats the call (BerriAI/litellm#25561)."""
    last = chunk({"tool_calls": [whole_call(A)]}, "tool_calls")
    held, done, _ = restored(client, CHAT, ROLE, calls(whole_call(A)), last, USED, DONE)
    assert held.calls == [A]
    assert done == ["a whole call was sent twice"]


@clients
@pytest.mark.parametrize(("given", "noted"), [({"f": "a"}, '{"f":"a"}'), ({}, "{}"), (None, "{}"), ("", "{}")])
def test_T06_arguments_as_an_object_or_null(client: str, given: Any, noted: str) -> None:
    """`tool_use.input` sent as a string (aradlein/hass-agent-llm#42), and here the reverse."""
    fragment = whole_call(A) | {"function": {"name": "read", "arguments": given}}
    held, done, _ = restored(client, CHAT, ROLE, calls(fragment), CALLS, USED, DONE)
    assert held.parsed_calls() == [("call_a", "read", {"f": "a"} if "f" in noted else {})]
    assert done == (["arguments were an object instead of text"] if isinstance(given, dict) else [])


@clients
def test_a_legacy_function_call_is_a_tool_call(client: str) -> None:
    stated = [{"name": "read", "arguments": ""}, {"arguments": '{"f":'}, {"arguments": '"a"}'}]
    frames = [chunk({"function_call": piece}) for piece in stated]
    held, done, _ = restored(client, CHAT, ROLE, *frames, chunk({}, "function_call"), USED, DONE)
    assert [named(call) for call in held.calls] == [named(A)]
    assert held.finish == END[client]["tool_calls"]
    assert done == ["a legacy function_call was read as a tool call", "a call without an id"]


@clients
def test_the_text_of_a_completion_is_content(client: str) -> None:
    """A server answers in the form of `/v1/completions`. Without its text, the turn would be empty."""
    pieces = [
        {
            "id": "c",
            "object": "text_completion",
            "model": "m",
            "choices": [{"index": 0, "text": text, "finish_reason": end}],
        }
        for text, end in (("Hi ", None), ("there", None), ("", "stop"))
    ]
    held, done, _ = restored(client, CHAT, *[b"data: %b\n\n" % json.dumps(piece).encode() for piece in pieces], DONE)
    assert (held.text, held.finish, held.error) == ("Hi there", END[client]["stop"], None)
    assert done == ["a completion's text was read as content"]
    whole, translation = replied(client, CHAT, pieces[0] | {"choices": [{"text": "Hi there", "finish_reason": "stop"}]})
    assert "Hi there" in json.dumps(whole)
    assert rows(translation) == done


@clients
@pytest.mark.parametrize("key", ["reasoning", "reasoning_content", "reasoning_details", "thinking_blocks"])
def test_reasoning_of_another_type_is_reported(client: str, key: str) -> None:
    delta = {key: {"words": "hm"}}
    translation = translated(direction(client, CHAT))
    stream_through(translation, [ROLE, chunk(delta), HI, STOP, USED, DONE])
    _, whole = replied(
        client, CHAT, {"id": "c", "choices": [{"message": delta | {"content": "Hi"}, "finish_reason": "stop"}]}
    )
    for each in (translation, whole):
        assert LossCode.UNKNOWN_FIELD in {loss.code for loss in each.losses.rows if loss.path.endswith(key)}


@clients
@pytest.mark.parametrize("key", ["thinking_blocks", "reasoning_details"])
def test_a_signed_detail_that_repeats_its_deltas_is_not_shown_again(client: str, key: str) -> None:
    """The signature comes with the whole text, which is shown twice (open-webui/open-webui#29860)."""

    def detail(text: str, **more: str) -> Json:
        return {key: [{"type": "thinking", "thinking": text, "text": text} | more]}

    frames = [chunk({"reasoning_content": text} | detail(text)) for text in ("Well, ", "well.")]
    last = chunk(detail("Well, well.", signature="c2ln"))
    held, done, _ = restored(client, CHAT, ROLE, *frames, last, HI, STOP, USED, DONE)
    assert (held.reasoning, held.text) == ("Well, well.", "Hi")
    assert "a signed detail repeated the text of its deltas" in done
    # Details that come without plain texts are the reasoning itself.
    held, _, _ = restored(client, CHAT, ROLE, last, HI, STOP, USED, DONE)
    assert held.reasoning == "Well, well."


# --- the end ----------------------------------------------------------------------------------------------------------


@clients
def test_T20_an_end_without_done_is_an_end_after_a_reason_only(client: str) -> None:
    """The client waits for an end that never comes (apache/apisix#13583); and a cut must not look like one."""
    held, done, _ = restored(client, CHAT, ROLE, HI, STOP)
    assert (held.error, held.finish) == (None, END[client]["stop"])
    assert done == ["the stream ended without [DONE]"]
    for last in ((), (DONE,)):
        held, done, _ = restored(client, CHAT, ROLE, HI, *last)
        assert held.error is not None
        assert held.finish in (None, "failed")
        assert done == []


@clients
def test_T27_content_and_calls_after_the_reason_are_kept_in_order(client: str) -> None:
    """Content after the finish reason makes the client throw (anomalyco/opencode#43040)."""
    held, done, _ = restored(
        client, CHAT, ROLE, HI, STOP, chunk({"content": " there"}), calls(whole_call(A)), USED, DONE
    )
    assert (held.text.replace("\n", ""), held.calls, held.error) == ("Hi there", [A], None)
    assert held.finish == END[client]["tool_calls"]
    assert done == [
        "content arrived after the finish_reason",
        "a call arrived after the finish_reason",
        "stop after a call became tool_calls",
    ]


@clients
@pytest.mark.parametrize(
    "frames",
    [
        (HI, chunk({}, "stop", usage=USAGE), DONE),
        (chunk({"content": "Hi"}, usage=USAGE), STOP, DONE),
        (HI, USED, STOP, DONE),
        (HI, STOP, chunk({"content": ""}, usage=USAGE), DONE),
        (
            chunk({"content": "H"}, usage={"prompt_tokens": 9, "completion_tokens": 1}),
            chunk({"content": "i"}, usage=USAGE),
            STOP,
        ),
    ],
)
def test_T30_counts_on_the_wrong_chunk_are_found(client: str, frames: tuple[bytes, ...]) -> None:
    """Usage that clients' context meters never see (router-for-me/CLIProxyAPI#1700)."""
    held, done, _ = restored(client, CHAT, ROLE, *frames, profile="compatible")
    assert held.usage is not None
    assert (held.usage["input_tokens"], held.usage["output_tokens"]) == (9, 3)
    assert "the token counts arrived before their place" in done


@clients
def test_T26_counts_behind_done_are_not_waited_for(client: str) -> None:
    """Tools start 76 s late, as the client waits for the socket (earendil-works/pi#5592): `[DONE]` is the end."""
    held, done, _ = restored(client, CHAT, ROLE, HI, STOP, DONE, USED, profile="compatible")
    assert (held.finish, done) == (END[client]["stop"], [])
    machine = translated(direction(client, CHAT)).stream_machine()
    machine.feed(ROLE + HI + STOP + DONE)
    assert machine.done


# --- fields of other servers ------------------------------------------------------------------------------------------


@clients
@pytest.mark.parametrize(
    "field",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": ""}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_T14_reasoning_is_read_in_every_field(client: str, field: Json) -> None:
    """Reasoning lost, or shown as the answer (ggml-org/llama.cpp#18542, diegosouzapw/OmniRoute#5786)."""
    held, done, _ = restored(client, CHAT, ROLE, chunk(field), HI, STOP, USED, DONE)
    assert (held.reasoning, held.text) == ("hm", "Hi")
    assert done == (["content was an array of parts"] if "content" in field else [])
