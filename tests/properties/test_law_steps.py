"""Law: a history whose turns are read and written in the compact form becomes what it becomes part by part.

The same bytes, the same losses at the same paths, or the same refusal; whatever the upstream takes and the knobs state.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Direction, DragomanError, Knobs, Profile, builtin_profile, translate
from support.directions import CROSS
from support.mutations import mutated_json
from support.requests import Features, conversations
from support.steps import without_steps

PATHS = {"/v1/chat/completions": "chat", "/v1/messages": "messages", "/v1/responses": "responses"}

knobs = st.builds(
    Knobs,
    mid_system=st.sampled_from(("auto", "hoist", "inline", "user")),
    orphans=st.sampled_from(("repair", "strip", "reject")),
    prefill=st.sampled_from(("auto", "reject", "drop", "pass")),
    demote_reasoning=st.sampled_from(("off", "on")),
    derive_phase=st.sampled_from(("off", "on")),
    custom_tool_bridge=st.sampled_from(("auto", "wrap")),
    on_loss=st.sampled_from(("record", "record", "reject")),
)
FLAGS: tuple[dict[str, Any], ...] = (
    {},
    {"reasoning_replay": True, "call_id_max": 12, "tool_name_max": 3},
    {"text_parts": False, "explicit_cache": False, "system_inline": False},
    {"thinking_replay": "own_required", "encrypted_reasoning": False},
    {"namespaces": False, "tool_search": False, "custom_tools": False, "explicit_cache": True},
)


def outcome(row: Direction, raw: bytes, profile: Profile, given_knobs: Knobs) -> Any:
    """All that a translation gives, or how it was refused."""
    try:
        made = translate(row, raw, profile=profile, knobs=given_knobs)
    except DragomanError as error:
        return error.failure
    context = made.context
    return made.body, made.losses.rows, made.losses.counts, context.names, context.tools, context.input_estimate


def alike(row: Direction, raw: bytes, profile: Profile, given_knobs: Knobs) -> None:
    short = outcome(row, raw, profile, given_knobs)
    with without_steps():
        assert short == outcome(row, raw, profile, given_knobs)


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_generated_histories(row: Direction, data: st.DataObject) -> None:
    body = data.draw(conversations(row.client.dialect, Features(orphans=True))).body()
    if data.draw(st.booleans()):
        body = data.draw(mutated_json(body))
    profile = builtin_profile(row.upstream.dialect, data.draw(st.sampled_from((None, "compatible"))))
    alike(row, json.dumps(body).encode(), profile.replace(data.draw(st.sampled_from(FLAGS))), data.draw(knobs))


def _recorded() -> dict[str, list[Any]]:
    """Bodies that agents sent in the middle of a tool loop, by dialect."""
    found: dict[str, list[Any]] = {"chat": [], "messages": [], "responses": []}
    for path in sorted((Path(__file__).parents[1] / "fixtures").glob("*_[23].json")):
        request = json.loads(path.read_text("utf-8"))["request"]
        dialect = PATHS.get(request["path"])
        if dialect is not None and "previous_response_id" not in request["body"]:
            found[dialect].append(request["body"])
    return found


RECORDED = _recorded()


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
def test_recorded_histories_whole_and_shuffled(row: Direction) -> None:
    dice = random.Random(str(row))
    key = "input" if row.client.dialect == "responses" else "messages"
    for body in RECORDED[row.client.dialect]:
        alike(row, json.dumps(body).encode(), builtin_profile(row.upstream.dialect), Knobs())
        history = body[key] * 2
        for flags in FLAGS:
            # Calls of one id twice, results before their calls or without them: a client's session gone wrong.
            shuffled = dice.sample(history, dice.randint(1, len(history)))
            raw = json.dumps({**body, key: shuffled}).encode()
            profile = builtin_profile(row.upstream.dialect).replace(flags)
            alike(row, raw, profile, Knobs(orphans=dice.choice(("repair", "strip", "reject"))))
