"""Law: equal bodies make equal bytes, and a longer history extends the translation of the shorter one.

Prompt caches and reasoning that is bound to what stands before it punish anything else (mapping §1.1 and §1.2).
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, Direction, LossCode, Translation, builtin_profile, translate
from support.directions import ALL, CROSS, profiles
from support.requests import Conversation, Features, conversations

HISTORY = {dialect: dialect.facts.conversation for dialect in Dialect}
INSTRUCTIONS = ("system", "instructions")


def sent(row: Direction, body: Any, profile: str | None = None) -> Translation:
    # A model that takes instructions in mid-conversation: for others they move to the front.
    made = builtin_profile(row.upstream.dialect, profile)
    translation = translate(row, json.dumps(body).encode(), profile=made, upstream_model="claude-opus-5-5")
    note(translation.body.decode())
    return translation


def declared(body: Any) -> list[Any]:
    """The tools of a request. Gemini's functions are all in one of its tools."""
    tools = body.get("tools") or []
    return [each for tool in tools for each in tool.get("functionDeclarations", [tool])]


def formatted(items: list[Any] | None) -> list[str]:
    """Each item as it is on the wire, keys in their order: the cache is a cache of bytes."""
    return [json.dumps(item) for item in items or []]


@pytest.mark.few
@pytest.mark.parametrize("row", ALL, ids=str)
@given(data=st.data())
def test_the_same_body_makes_the_same_bytes_and_losses(row: Direction, data: st.DataObject) -> None:
    body = data.draw(conversations(row.client.dialect, Features(orphans=True))).body()
    first, second = sent(row, body), sent(row, body)
    assert first.body == second.body
    assert first.losses.rows == second.losses.rows
    assert (first.context.names, first.context.tools) == (second.context.names, second.context.tools)
    assert list(first.context.tools) == list(second.context.tools)


def grown(data: st.DataObject, row: Direction, profile: str | None) -> tuple[Conversation, list[Any]]:
    """A conversation, and its translation after each of its steps."""
    # Marks are the client's to move: only the last four of them are sent, so a new one may take an old one's place.
    features = Features(marks=False, orphans=data.draw(st.booleans()), pdf=profile is None)
    conversation = data.draw(conversations(row.client.dialect, features))
    steps = range(1, len(conversation.steps) + 1)
    translations = [sent(row, conversation.body(step), profile) for step in steps]
    # A final assistant turn is quoted in a user message. In the next request it is history, as it was.
    kept = [each for each in translations if LossCode.CONTINUATION not in each.losses.counts]
    return conversation, [json.loads(each.body) for each in kept]


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_a_longer_history_extends_the_translation_of_the_shorter_one(row: Direction, data: st.DataObject) -> None:
    profile = data.draw(profiles)
    conversation, bodies = grown(data, row, profile)
    key = HISTORY[row.upstream.dialect]
    for before, after in itertools.pairwise(bodies):
        history, later = formatted(before[key]), formatted(after[key])
        if row.upstream.dialect is Dialect.GENERATE and history and later[len(history) - 1] != history[-1]:
            # Nothing was left of the assistant's turn after it, so that two turns of the user became one.
            last, joined = before[key][-1], after[key][len(history) - 1]
            assert (last["role"], joined["role"]) == ("user", "user")
            assert joined["parts"][: len(last["parts"])] == last["parts"]
            history.pop()
        assert later[: len(history)] == history
        # Tools that a search finds join the others behind them, so that those stay as they are.
        tools, found = (formatted(declared(body)) for body in (before, after))
        assert (found[: len(tools)] if conversation.finds_tools else found) == tools
        if profile is None:  # an upstream without instructions in mid-conversation gets them in front
            for name in INSTRUCTIONS:
                assert json.dumps(after.get(name)) == json.dumps(before.get(name))


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_what_is_not_the_history_does_not_depend_on_it(row: Direction, data: st.DataObject) -> None:
    conversation, bodies = grown(data, row, None)
    moving = {HISTORY[row.upstream.dialect], *(("tools", "tool_choice") if conversation.finds_tools else ())}
    # A thinking budget needs a turn that began with thinking, which the history has or has not (mapping §5.4).
    moving |= {"thinking", "output_config", "temperature", "top_p"}
    if row.upstream.dialect is Dialect.GENERATE:  # which has no instructions in mid-conversation
        moving |= {"systemInstruction"}
    for before, after in itertools.pairwise(bodies):
        one, other = ({k: v for k, v in body.items() if k not in moving} for body in (before, after))
        assert json.dumps(other) == json.dumps(one)
