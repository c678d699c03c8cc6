"""Laws of requests: the upstream takes every translation, equal bodies make equal bytes, a longer history extends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Direction, Knobs, shipped, translate
from dragoman_server.simulator.checks import check
from support.directions import ALL, CROSS, profiles
from support.requests import Features, conversations

HEADERS = {"anthropic-version": "2023-06-01"}
KNOBS = Knobs()


def sent(row: Direction, body: Any, profile: str | None, knobs: Knobs = KNOBS) -> Any:
    """The parsed body that goes upstream."""
    raw = json.dumps(body).encode()
    written = translate(row, raw, profile=shipped(row.upstream.dialect, profile), knobs=knobs).body
    note(written.decode())
    return json.loads(written)


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_the_upstream_takes_every_translation_of_a_valid_request(row: Direction, data: st.DataObject) -> None:
    profile = data.draw(profiles)
    features = Features(pdf=profile is None, orphans=data.draw(st.booleans()))
    body = data.draw(conversations(row.client.dialect, features)).body()
    if profile == "compatible":
        # The simulator is Anthropic's own API: a tool loop under a thinking budget must have begun with thinking.
        # Third parties do not ask for that, and their profile replays none.
        body.pop("reasoning_effort", None)
    knobs = Knobs(
        mid_system=data.draw(st.sampled_from(("auto", "hoist", "user"))),
        hosted_tools=data.draw(st.sampled_from(("drop", "map"))),
        auto_cache=data.draw(st.sampled_from(("off", "on"))),
        demote_reasoning=data.draw(st.sampled_from(("off", "on"))),
        json_mode=data.draw(st.sampled_from(("drop", "instruct"))),
        orphans=data.draw(st.sampled_from(("repair", "strip"))),
    )
    check(row.upstream.dialect, sent(row, body, profile, knobs), HEADERS)


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_the_generated_requests_are_valid_in_their_own_dialect(row: Direction, data: st.DataObject) -> None:
    body = data.draw(conversations(row.client.dialect, Features(marks=False))).body()
    check(row.client.dialect, body, HEADERS)


@pytest.mark.parametrize("row", ALL, ids=str)
@given(data=st.data())
def test_the_same_body_makes_the_same_bytes_and_losses(row: Direction, data: st.DataObject) -> None:
    raw = json.dumps(data.draw(conversations(row.client.dialect, Features(orphans=True))).body()).encode()
    profile = shipped(row.upstream.dialect)
    first, second = (translate(row, raw, profile=profile) for _ in range(2))
    assert first.body == second.body
    assert first.losses.rows == second.losses.rows


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_a_longer_history_extends_the_translation_of_the_shorter_one(row: Direction, data: st.DataObject) -> None:
    # Marks are the client's to move: only the last four of them are sent, so a new one may take an old one's place.
    profile = data.draw(profiles)
    features = Features(marks=False, orphans=data.draw(st.booleans()), pdf=profile is None)
    conversation = data.draw(conversations(row.client.dialect, features))
    before: Any = None
    for step in range(1, len(conversation.steps) + 1):
        after = sent(row, conversation.body(step), profile)
        if before is not None:
            assert [json.dumps(m) for m in after["messages"][: len(before["messages"])]] == [
                json.dumps(m) for m in before["messages"]
            ]
            assert json.dumps(after.get("tools")) == json.dumps(before.get("tools"))
            if profile is None:  # an upstream without instructions in mid-conversation gets them in front
                assert json.dumps(after.get("system")) == json.dumps(before.get("system"))
        before = after
