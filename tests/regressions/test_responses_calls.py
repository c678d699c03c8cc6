"""Group A with Responses on either side: tool-call indexes and interleaving."""

from __future__ import annotations

import json

import pytest

from dragoman import DragomanError, direction
from oracles.grammar import Call
from oracles.requests import check
from regressions.dialect_bodies import (
    RESPONSES,
    assistant_turn,
    begins,
    call_part,
    conversation,
    ends,
    finished,
    from_responses,
    interleaved,
    new_directions,
    offered,
    replied,
    starts,
    to_responses,
    writes,
)
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    answer,
    begin,
    calls,
    chunk,
    delta,
    end,
    events_of,
    more_call,
    send,
    start_call,
    stop,
    tool,
    whole,
)
from support import responses_frames as emitted
from support.directions import Json, stream_through, translated
from support.responses_samples import numbered

THREE = [
    Call("call_a", "read", '{"f":"a"}'),
    Call("call_b", "read", '{"f":"b"}'),
    Call("call_c", "list", '{"d":"/"}'),
]
PARTS = [call_part(call) for call in THREE]
FINISH = {CHAT: "tool_calls", MESSAGES: "tool_use", RESPONSES: "completed"}


def items_added(out: bytes) -> list[tuple[int, Json]]:
    """Index and item of every `response.output_item.added`."""
    return [(p["output_index"], p["item"]) for p in events_of(out) if p["type"] == "response.output_item.added"]


@new_directions
def test_T01_interleaved_calls_keep_their_arguments_in_every_new_direction(client: str, upstream: str) -> None:
    """Arguments land in another call (praxis-proxy/ai#266); clients glue the JSON of three calls
    (mcowger/plexus#691)."""
    held, _ = answer(client, upstream, *interleaved(upstream, *PARTS))
    assert held.calls == THREE
    assert held.finish == FINISH[client]


@to_responses
def test_T01_text_and_calls_never_share_an_output_index_or_an_id(upstream: str) -> None:
    """`output_index` 0 is shared by the text and the first call
    (Shelpuk-AI-Technology-Consulting/kitty-bridge#116)."""
    _, out = answer(RESPONSES, upstream, *assistant_turn(upstream, ("text", "Let me look."), *PARTS))
    added = items_added(out)
    assert [index for index, _ in added] == [0, 1, 2, 3]
    assert [item["type"] for _, item in added] == ["message", "function_call", "function_call", "function_call"]
    ids = {index: item["id"] for index, item in added}
    assert len(set(ids.values())) == 4
    reported_of = [(p["output_index"], p["item_id"]) for p in events_of(out) if "item_id" in p]
    assert reported_of
    assert all(ids[index] == item_id for index, item_id in reported_of)


def test_T01_an_output_index_never_becomes_a_call_index() -> None:
    """A Responses upstream makes index 0 of all calls, or its own item's index (mcowger/plexus#691,
    BerriAI/litellm#5231)."""
    _, out = answer(CHAT, RESPONSES, *assistant_turn(RESPONSES, ("reasoning", "Hm"), ("text", "Let me look."), *PARTS))
    fragments = [f for p in events_of(out) for c in p["choices"] for f in c["delta"].get("tool_calls", [])]
    assert [(f["index"], f["id"]) for f in fragments if "id" in f] == [(0, "call_a"), (1, "call_b"), (2, "call_c")]
    formatted = {n: "".join(f["function"].get("arguments", "") for f in fragments if f["index"] == n) for n in range(3)}
    assert formatted == {n: call.arguments for n, call in enumerate(THREE)}


def test_T01_two_calls_in_one_chunk_are_two_items() -> None:
    """Two calls share one block, and a stop comes for a block never opened (icebear0828/codex-proxy#610)."""
    both = calls(start_call(0, "call_a", "read", '{"f":"a"}'), start_call(1, "call_b", "read", '{"f":"b"}'))
    held, _ = answer(RESPONSES, CHAT, ROLE, both, *finished(CHAT, *PARTS[:2]))
    assert held.calls == THREE[:2]


@to_responses
def test_T01_two_calls_of_one_id_are_not_run_as_one(upstream: str) -> None:
    """Two calls in one slot (ai-dynamo/dynamo#4723): an agent pairs results by `call_id`, so twins get their own."""
    twin = ("call", "call_a", "list", "{}")
    held, _ = answer(RESPONSES, upstream, *assistant_turn(upstream, PARTS[0], twin))
    assert [call.name for call in held.calls] == ["read", "list"]
    assert held.calls[0].id == "call_a"
    assert held.calls[1].id not in ("", "call_a")


@from_responses
@pytest.mark.parametrize("name", ["delta", "done"])
def test_T02_arguments_of_an_item_that_never_started_are_an_error(client: str, name: str) -> None:
    """ "Content block not found" (Wei-Shaw/sub2api#4294, router-for-me/CLIProxyAPI#3720)."""
    stray = emitted.at(3, f"function_call_arguments.{name}", delta="{}", arguments="{}")
    held, out = answer(client, RESPONSES, *numbered(emitted.created(), stray, emitted.ended()))
    assert held.error is not None
    assert not held.calls
    assert b"content_block_delta" not in out


def test_T02_a_stray_delta_of_a_messages_upstream_fails_the_response() -> None:
    """Likewise for a Messages upstream: no item is made up for it (Wei-Shaw/sub2api#4294)."""
    held, out = answer(RESPONSES, MESSAGES, begin(), delta(3, "input_json", "{}"), end("tool_use"))
    assert held.error is not None
    assert not items_added(out)


@from_responses
def test_T02_an_end_belongs_to_the_item_that_it_names(client: str) -> None:
    """The handler of `.done` used a running counter and not the map (Wei-Shaw/sub2api#4294)."""
    frames = [*begins(RESPONSES), *starts(RESPONSES, 0, PARTS), *starts(RESPONSES, 1, PARTS)]
    frames += writes(RESPONSES, 0, PARTS, THREE[0].arguments) + ends(RESPONSES, 0, PARTS)
    frames += writes(RESPONSES, 1, PARTS, THREE[1].arguments) + ends(RESPONSES, 1, PARTS)
    held, _ = answer(client, RESPONSES, *frames, *finished(RESPONSES, *PARTS[:2]))
    assert held.calls == THREE[:2]


@new_directions
def test_T03_opening_the_second_call_closes_nothing(client: str, upstream: str) -> None:
    """A later fragment goes to a closed block (headroomlabs-ai/headroom#2890)."""
    frames = [*begins(upstream), *starts(upstream, 0, PARTS), *starts(upstream, 1, PARTS)]
    frames += writes(upstream, 1, PARTS, THREE[1].arguments) + writes(upstream, 0, PARTS, THREE[0].arguments)
    frames += ends(upstream, 0, PARTS) + ends(upstream, 1, PARTS)
    held, _ = answer(client, upstream, *frames, *finished(upstream, *PARTS[:2]))
    assert held.calls == THREE[:2]


@to_responses
def test_T04_arguments_that_come_whole_reach_a_responses_client(upstream: str) -> None:
    """The tool's name arrives, its arguments never do (BerriAI/litellm#25836, BerriAI/litellm#25561)."""
    frames = [ROLE, calls(start_call(0, "call_a", "read", '{"f":"a"}'))]
    if upstream == MESSAGES:
        frames = [begin(), tool(0, "call_a", "read", {"f": "a"}), stop(0)]
    held, out = answer(RESPONSES, upstream, *frames, *finished(upstream, PARTS[0]))
    assert held.calls == THREE[:1]
    assert b"response.function_call_arguments.delta" in out


@from_responses
@pytest.mark.parametrize("where", ["arguments.done", "item.done", "completed"])
def test_T04_arguments_without_a_delta_are_found_wherever_they_stand(client: str, where: str) -> None:
    """Likewise for a Responses upstream: no deltas, the arguments stand in an event at the end
    (BerriAI/litellm#25561)."""
    item = emitted.call(*THREE[0][:3])
    frames = [emitted.created(), emitted.added(0, **item | {"arguments": "", "status": "in_progress"})]
    if where == "arguments.done":
        frames.append(emitted.at(0, "function_call_arguments.done", arguments=item["arguments"]))
    if where == "item.done":
        frames.append(emitted.done(0, **item))
    last = emitted.ended(*([item] if where == "completed" else []))
    held, _ = answer(client, RESPONSES, *numbered(*frames, last))
    assert held.calls == THREE[:1]


@from_responses
def test_T04_a_call_that_only_the_last_event_reports_is_not_lost(client: str) -> None:
    """Servers that send no item events at all (BerriAI/litellm#25836)."""
    held, _ = answer(client, RESPONSES, *numbered(emitted.created(), emitted.ended(emitted.call(*THREE[0][:3]))))
    assert held.calls == THREE[:1]
    assert held.finish == FINISH[client]


@to_responses
def test_T04_a_call_without_arguments_is_an_empty_object(upstream: str) -> None:
    """Agents parse the string, and an empty one is no JSON (BerriAI/litellm#25561)."""
    frames = [*begins(upstream), *starts(upstream, 0, PARTS), *ends(upstream, 0, PARTS)]
    held, _ = answer(RESPONSES, upstream, *frames, *finished(upstream, PARTS[0]))
    assert [call.arguments for call in held.calls] == ["{}"]


def test_T05_a_fragment_without_an_index_reaches_a_responses_client() -> None:
    """The server left `tool_calls[].index` out (zed-industries/zed#38412)."""
    first, more = start_call(0, "call_a", "read"), more_call(0, '{"f":"a"}')
    del first["index"], more["index"]
    held, _ = answer(RESPONSES, CHAT, ROLE, calls(first), calls(more), chunk({}, "tool_calls"), DONE)
    assert held.calls == THREE[:1]


@from_responses
def test_T05_events_without_an_output_index_are_understood(client: str) -> None:
    """Likewise the same field's absence in Responses: servers that name the item only (zed-industries/zed#38412)."""
    events = [json.loads(frame.split(b"data: ")[1]) for frame in assistant_turn(RESPONSES, *PARTS[:2])]
    for event in events:
        event.pop("output_index", None)
    held, _ = answer(client, RESPONSES, *numbered(*events))
    assert held.calls == THREE[:2]


def test_T05_the_index_is_written_on_every_fragment_of_a_responses_upstream() -> None:
    """Translated items always have it (zed-industries/zed#38412)."""
    out = stream_through(translated(direction(CHAT, RESPONSES)), interleaved(RESPONSES, *PARTS))
    fragments = [f for p in events_of(out) for c in p["choices"] for f in c["delta"].get("tool_calls", [])]
    assert len(fragments) > 6
    assert all(type(fragment["index"]) is int for fragment in fragments)


@to_responses
@pytest.mark.parametrize(
    "part",
    [
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
        {"type": "function", "function": {"name": "read", "arguments": "{}"}},
    ],
)
def test_T06_blocks_of_other_dialects_inside_an_item_are_refused_by_name(upstream: str, part: Json) -> None:
    """Raw `tool_use` inside content of another dialect: a 422 and a hung thread (zed-industries/zed#54958)."""
    with pytest.raises(DragomanError) as caught:
        send(RESPONSES, upstream, input=[{"role": "user", "content": [part]}])
    assert caught.value.failure.status == 400
    assert (caught.value.failure.param or "").startswith("input[0].content[0]")
    # In the history a 400 would come again with each request.
    items = [{"role": "assistant", "content": [part]}, {"role": "user", "content": "x"}]
    body, translation = send(RESPONSES, upstream, input=items)
    assert part.get("text", f"[{part['type']}]") in json.dumps(body)
    assert [row.path for row in translation.losses.rows if row.code == "item_shape"] == ["input[0].content[0]"]


@new_directions
def test_T06_arguments_have_the_form_of_their_dialect(client: str, upstream: str) -> None:
    """`tool_use.input` sent as a string (aradlein/hass-agent-llm#42): an object in Messages, a string elsewhere."""
    got = whole(client, upstream, replied(upstream, PARTS[0]))
    if client == MESSAGES:
        assert got["content"][0]["input"] == {"f": "a"}
    elif client == CHAT:
        assert got["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"f":"a"}'
    else:
        assert got["output"][0]["arguments"] == '{"f":"a"}'
    fields = conversation(client, "x", [PARTS[0]], ("result", "call_a", "y"))
    body, _ = send(client, upstream, **fields, tools=offered(client, "read"))
    check(upstream, body, {"anthropic-version": "2023-06-01"})
    if upstream == MESSAGES:
        assert body["messages"][1]["content"][0]["input"] == {"f": "a"}
    elif upstream == CHAT:
        assert json.loads(body["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"f": "a"}
    else:
        assert json.loads(body["input"][1]["arguments"]) == {"f": "a"}


@to_responses
def test_T06_arguments_given_as_an_object_are_sent_in_the_form_of_the_dialect(upstream: str) -> None:
    """The reverse mistake in a Responses history (aradlein/hass-agent-llm#42) would end the session with a 400."""
    items = [
        {"type": "function_call", "call_id": "call_a", "name": "read", "arguments": {"f": "a"}},
        {"type": "function_call_output", "call_id": "call_a", "output": "y"},
    ]
    body, _ = send(RESPONSES, upstream, input=items)
    stated = body["messages"][0]
    if upstream == MESSAGES:
        assert stated["content"][0]["input"] == {"f": "a"}
    else:
        assert stated["tool_calls"][0]["function"]["arguments"] == '{"f":"a"}'


@pytest.mark.parametrize("arguments", ['"f"', '{"f":"a'])
def test_T06_arguments_that_are_no_object_reach_a_messages_upstream_as_one(arguments: str) -> None:
    """Its `input` must be an object (aradlein/hass-agent-llm#42), and a 400 would come again with each request."""
    items = [
        {"type": "function_call", "call_id": "call_a", "name": "read", "arguments": arguments},
        {"type": "function_call_output", "call_id": "call_a", "output": "y"},
    ]
    body, _ = send(RESPONSES, MESSAGES, input=items)
    assert body["messages"][0]["content"][0]["input"] == {"invalid_arguments": arguments}
