"""Calls of one conversation that have one id: each but the first gets its own, and so does its result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import DragomanError, Knobs, LossCode, direction
from support.directions import ask, translated

Json = dict[str, Any]
MESSAGES, RESPONSES, CHAT = "messages", "responses", "chat"


def call(call_id: str, name: str = "read") -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def step(*ids: str, text: str = "done") -> list[Json]:
    """Calls of these ids in one turn, and a result for each in their order."""
    stated: Json = {"role": "assistant", "content": None, "tool_calls": [call(call_id) for call_id in ids]}
    results = [{"role": "tool", "tool_call_id": c, "content": f"{text} {n}"} for n, c in enumerate(ids)]
    return [stated, *results]


def sent(upstream: str, *turns: list[Json], knobs: Knobs | None = None) -> tuple[Json, list[str]]:
    history = [{"role": "user", "content": "Hi"}, *(message for turn in turns for message in turn)]
    translation = translated(direction(CHAT, upstream), ask(CHAT, messages=history), knobs=knobs)
    return json.loads(translation.body), [row.path for row in translation.losses.rows if row.code is LossCode.CALL_ID]


def pairs(upstream: str, body: Json) -> list[tuple[str, str]]:
    """Each result's call id and text; every call must have an id of its own and exactly one result."""
    if upstream == RESPONSES:
        calls = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
        results = [
            (item["call_id"], item["output"]) for item in body["input"] if item.get("type") == "function_call_output"
        ]
    else:
        blocks = [
            part for message in body["messages"] if type(message["content"]) is list for part in message["content"]
        ]
        calls = [part["id"] for part in blocks if part["type"] == "tool_use"]
        results = [(part["tool_use_id"], part["content"]) for part in blocks if part["type"] == "tool_result"]
    assert len(set(calls)) == len(calls)
    assert sorted(calls) == sorted(call_id for call_id, _ in results)
    return results


upstreams = pytest.mark.parametrize("upstream", [MESSAGES, RESPONSES])


@upstreams
def test_a_server_that_counts_its_calls_again_in_every_reply(upstream: str) -> None:
    body, paths = sent(upstream, step("call_0", text="a"), step("call_0", text="b"), step("call_0", "call_1", text="c"))
    results = pairs(upstream, body)
    assert [text for _, text in results] == ["a 0", "b 0", "c 0", "c 1"]
    assert (results[0][0], results[3][0]) == ("call_0", "call_1")
    assert paths == ["messages[3].tool_calls[0]", "messages[5].tool_calls[0]"]


@upstreams
def test_twins_in_one_turn_are_answered_in_their_order(upstream: str) -> None:
    body, paths = sent(upstream, step("call_0", "call_0"))
    assert [text for _, text in pairs(upstream, body)] == ["done 0", "done 1"]
    assert paths == ["messages[1].tool_calls[1]"]


@upstreams
def test_a_call_that_was_never_answered_does_not_take_the_next_ones_result(upstream: str) -> None:
    unanswered = [step("call_0")[0], {"role": "user", "content": "stop"}]
    body, _ = sent(upstream, unanswered, step("call_0", text="b"))
    results = pairs(upstream, body)
    assert results[-1][1] == "b 0"
    assert results[0][0] == "call_0"


@upstreams
def test_a_longer_history_extends_the_shorter_one(upstream: str) -> None:
    turns = [step("call_0"), step("call_0"), step("call_0")]
    key = "input" if upstream == RESPONSES else "messages"
    shorter, longer = (sent(upstream, *turns[:count])[0][key] for count in (2, 3))
    assert longer[: len(shorter)] == shorter


@upstreams
def test_a_history_in_long_form_is_renamed_as_the_short_one(upstream: str) -> None:
    short, _ = sent(upstream, step("call_0"), step("call_0"))
    long = [step("call_0"), step("call_0")]
    for turn in long:
        turn[0]["refusal"] = None  # no step in the compact form any longer
    assert pairs(upstream, sent(upstream, *long)[0]) == pairs(upstream, short)


def test_ids_of_their_own_and_chat_upstreams_are_left_alone() -> None:
    assert sent(MESSAGES, step("call_0"), step("call_1"))[1] == []
    translation = translated(direction(RESPONSES, CHAT), ask(RESPONSES, input=_items()))
    calls = [c["id"] for m in json.loads(translation.body)["messages"] for c in m.get("tool_calls", ())]
    assert calls == ["call_0", "call_0"]


def _items() -> list[Json]:
    made = {"type": "function_call", "call_id": "call_0", "name": "read", "arguments": "{}"}
    given = {"type": "function_call_output", "call_id": "call_0", "output": "x"}
    return [{"role": "user", "content": "Hi"}, made, given, made, given]


def test_strict_clients_learn_which_call() -> None:
    with pytest.raises(DragomanError) as caught:
        sent(MESSAGES, step("call_0"), step("call_0"), knobs=Knobs(on_loss="reject"))
    assert caught.value.failure.param == "messages[3].tool_calls[0]"
