"""Indexes of blocks and items that are missing, no integers, or the same for all: the events are in order, so each
belongs to what is open.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from oracles.grammar import Call
from regressions import wire
from regressions.repaired import restored
from regressions.test_responses_without_ends import CALL, HELLO, accumulate, play
from regressions.wire import CHAT, MESSAGES, events_of
from support import responses_frames as emitted
from support.directions import Json
from support.responses_samples import numbered

RESPONSES = "responses"
every = pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
cross = pytest.mark.parametrize("client", [CHAT, MESSAGES])
ITEMS = [HELLO, CALL]


@every
@pytest.mark.parametrize("kind", [str, float])
def test_an_index_of_a_block_that_is_no_integer(client: str, kind: Any) -> None:
    """Chat's calls are read with one; a block ended the turn."""
    blocks = [wire.block(0, type="text", text=""), wire.delta(0, "text", "Hi"), wire.stop(0)]
    blocks += [wire.tool(1, "call_a", "read"), wire.delta(1, "input_json", '{"f":"a"}'), wire.stop(1)]
    frames = []
    for event in events_of(b"".join(blocks)):
        fields = {key: value for key, value in event.items() if key not in ("type", "index")}
        frames.append(wire.event(event["type"], index=kind(event["index"]), **fields))
    held, done, _ = restored(client, MESSAGES, wire.begin(), *frames, wire.end("tool_use"))
    assert held.error is None
    assert held.text == "Hi"
    assert held.calls == [Call("call_a", "read", '{"f":"a"}')]
    assert done == ["the index of a block was not an integer"]


def _events(change: Any) -> list[Json]:
    """A stream with a text and a call, whose `output_index` is changed."""
    call_id = CALL["id"]
    call = [
        emitted.added(1, **{**CALL, "arguments": "", "status": "in_progress"}),
        emitted.at(1, "function_call_arguments.delta", delta='{"f":"a"}') | {"item_id": call_id},
        emitted.at(1, "function_call_arguments.done", arguments='{"f":"a"}') | {"item_id": call_id},
        emitted.done(1, **CALL),
    ]
    text = [*emitted.opens(0), *emitted.writes(0, "Hel", "lo"), *emitted.closes(0, "Hello")]
    for event in (*text, *call):
        if event.get("item_id") == "i0":
            event["item_id"] = HELLO["id"]
        if (index := change(event.pop("output_index"))) is not None:
            event["output_index"] = index
    return [emitted.created(), *text, *call, emitted.ended(*ITEMS)]


indexes = pytest.mark.parametrize("change", [lambda _: None, str, lambda _: 0], ids=["missing", "text", "same"])


@cross
@indexes
def test_items_whose_index_is_missing_no_integer_or_the_same(client: str, change: Any) -> None:
    """The second item ended the turn: "started item 0 twice"."""
    held, _, _ = restored(client, RESPONSES, *numbered(*_events(change)))
    assert held.error is None
    assert held.text == "Hello"
    assert [(call.name, json.loads(call.arguments)) for call in held.calls] == [("f", {"f": "a"})]


@indexes
@pytest.mark.parametrize("size", [0, 1, 11])
def test_a_responses_client_gets_such_items_once(change: Any, size: int) -> None:
    """An item without an index was sent again before the last event, so that Codex ran its call twice; the SDK raised
    an error."""
    events, machine = play(*_events(change), size=size)
    assert machine.failure is None
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert [(event["output_index"], event["item"]["type"]) for event in done] == [(0, "message"), (1, "function_call")]
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    assert [event["type"] for event in events].count("response.created") == 1
    final = accumulate(events)._completed_response
    assert [item.type for item in final.output] == ["message", "function_call"]
    assert final.output[1].arguments == '{"f":"a"}'


def test_an_item_that_begins_again_after_its_end_is_an_error() -> None:
    begun = emitted.added(0, **{**CALL, "arguments": "", "status": "in_progress"})
    events = [emitted.created(), begun, emitted.done(0, **CALL), begun, emitted.ended(CALL)]
    held, _, _ = restored(CHAT, RESPONSES, *numbered(*events))
    assert held.error is not None
