"""Laws of all policies together: doing it twice changes nothing more, and a longer history extends the shorter one."""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, Direction, Knobs, builtin_profile, translate
from dragoman.dialects.all_codecs import CODECS
from dragoman.losses import LossCode, Losses
from dragoman.policies import apply
from dragoman.profiles.profile import Profile
from oracles.requests import check
from support.directions import CROSS, DIALECTS
from support.requests import Features, conversations

HISTORY = {dialect: dialect.facts.conversation for dialect in Dialect}
HEADERS = {"anthropic-version": "2023-06-01"}

flags = st.fixed_dictionaries(
    {
        "strict_alternation": st.booleans(),
        "results_first": st.booleans(),
        "schema_root_union": st.booleans(),
        "schema_refs": st.booleans(),
        "schema_refused": st.sampled_from(((), ("required", "anyOf"))),
        "strict_schemas": st.sampled_from(("any", "closed", "complete")),
        "strict_refused": st.sampled_from(((), ("anyOf", "type"))),
    }
)
knobs = st.builds(
    Knobs,
    evict_images=st.sampled_from(("off", 1, 2)),
    pad_first_user=st.sampled_from(("off", "on")),
    orphans=st.sampled_from(("repair", "strip")),
    demote_reasoning=st.sampled_from(("off", "on")),
    tool_prefixes=st.sampled_from(((), ("get_=got_", "mcp__=x_", "R=r"))),
)


def seen(request: Any) -> Any:
    """All that a request holds, to be compared."""
    turns = [(turn.role, turn.parts, turn.at, turn.name) for turn in request.turns]
    return copy.deepcopy((turns, request.tools, request.format))


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@given(data=st.data())
def test_policies_done_twice_do_no_more(dialect: Dialect, data: st.DataObject) -> None:
    body = data.draw(conversations(dialect, Features(orphans=True))).body()
    upstream = data.draw(st.sampled_from(DIALECTS))
    profile, chosen = builtin_profile(upstream).replace(data.draw(flags)), data.draw(knobs)
    request = CODECS[dialect].read_request(body, Losses(), chosen)
    apply(request, dialect=upstream, profile=profile, knobs=chosen, losses=Losses())
    once, again = seen(request), Losses()
    apply(request, dialect=upstream, profile=profile, knobs=chosen, losses=again)
    assert seen(request) == once
    assert again.rows == []


def sent(row: Direction, body: Any, profile: Profile, chosen: Knobs) -> tuple[Any, Losses]:
    translation = translate(row, json.dumps(body).encode(), profile=profile, knobs=chosen)
    note(translation.body.decode())
    return json.loads(translation.body), translation.losses


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_a_longer_history_extends_the_shorter_one_under_every_policy_but_eviction_and_strip(
    row: Direction, data: st.DataObject
) -> None:
    orphans = data.draw(st.booleans())
    conversation = data.draw(conversations(row.client.dialect, Features(marks=False, orphans=orphans)))
    profile = builtin_profile(row.upstream.dialect).replace(data.draw(flags))
    # Where nothing of a stripped turn is left, what the user stated before and after it may become one message.
    chosen = replace(data.draw(knobs), evict_images="off", orphans="repair")
    steps = range(1, len(conversation.steps) + 1)
    key = HISTORY[row.upstream.dialect]
    requests = [sent(row, conversation.body(step), profile, chosen) for step in steps]
    # A final assistant turn is quoted in a user message. In the next request it is history, as it was.
    histories = [
        [json.dumps(item) for item in body[key]]
        for body, losses in requests
        if not losses.counts.get(LossCode.CONTINUATION, 0)
    ]
    for before, after in itertools.pairwise(histories):
        assert after[: len(before) - 1] == before[:-1]
        if before and after[len(before) - 1] != before[-1]:
            # Of the assistant's turn after it nothing was left (an empty reasoning), so two user messages became one.
            last, joined = json.loads(before[-1]), json.loads(after[len(before) - 1])
            # Or a result without a call was left out, so two turns of the assistant became one (`strict_alternation`).
            assert last["role"] == joined["role"]
            assert last["role"] == "user" or (orphans and profile.strict_alternation)
            assert parts(joined)[: len(parts(last))] == parts(last)


def parts(message: dict[str, Any]) -> list[Any]:
    """The parts of a message, a text as its text."""
    content = message.get("parts") or message.get("content") or []
    return [content] if isinstance(content, str) else [part.get("text", part) for part in content]


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_the_upstream_takes_what_the_policies_leave(row: Direction, data: st.DataObject) -> None:
    body = data.draw(conversations(row.client.dialect, Features(orphans=True))).body()
    profile = builtin_profile(row.upstream.dialect).replace(
        {"strict_alternation": data.draw(st.booleans()), "results_first": data.draw(st.booleans())}
    )
    written, _ = sent(row, body, profile, data.draw(knobs))
    check(row.upstream.dialect, written, HEADERS)
