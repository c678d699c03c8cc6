"""Law: the upstream takes every translation of a valid request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, Direction, Knobs, builtin_profile, translate
from oracles.requests import check
from support.directions import CROSS, DIALECTS, profiles
from support.requests import Features, conversations

HEADERS = {"anthropic-version": "2023-06-01"}
KNOBS = Knobs()


def sent(row: Direction, body: Any, profile: str | None, knobs: Knobs = KNOBS) -> Any:
    """The parsed body that goes upstream."""
    raw = json.dumps(body).encode()
    written = translate(row, raw, profile=builtin_profile(row.upstream.dialect, profile), knobs=knobs).body
    note(written.decode())
    return json.loads(written)


@pytest.mark.few
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
        body.pop("reasoning", None)
    knobs = Knobs(
        mid_system=data.draw(st.sampled_from(("auto", "hoist", "user"))),
        hosted_tools=data.draw(st.sampled_from(("drop", "map"))),
        auto_cache=data.draw(st.sampled_from(("off", "on"))),
        demote_reasoning=data.draw(st.sampled_from(("off", "on"))),
        json_mode=data.draw(st.sampled_from(("drop", "instruct"))),
        orphans=data.draw(st.sampled_from(("repair", "strip"))),
        derive_phase=data.draw(st.sampled_from(("off", "on"))),
    )
    check(row.upstream.dialect, sent(row, body, profile, knobs), HEADERS)


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@given(data=st.data())
def test_the_generated_requests_are_valid_in_their_own_dialect(dialect: Dialect, data: st.DataObject) -> None:
    body = data.draw(conversations(dialect, Features(marks=False))).body()
    check(dialect, body, HEADERS)
