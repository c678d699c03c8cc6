"""Instructions between the turns of a Messages request (mapping §4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Knobs, Translation, direction, translate
from dragoman.losses import LossCode
from dragoman.profiles.profile import builtin_profile

Json = dict[str, Any]
LATE: list[Json] = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Go on"},
    {"role": "system", "content": "Be brief."},
]


def sent(
    client: str, upstream: str, profile: str, flags: Json | None = None, **fields: Any
) -> tuple[Json, Translation]:
    """The request that reaches the upstream."""
    body = {"model": "m", "max_output_tokens" if client == "responses" else "max_tokens": 9000, **fields}
    chosen = builtin_profile(upstream, profile).replace(flags or {})
    made = translate(
        direction(client, upstream), json.dumps(body).encode(), upstream_model=body["model"], profile=chosen
    )
    return json.loads(made.body), made


@pytest.mark.parametrize(
    "model",
    [
        "claude-opus-4-8",
        "claude-opus-5",
        "claude-opus-5-5",
        "claude-sonnet-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
        "claude-fable-5-1",
        "claude-mythos-5-2",
        "us.anthropic.claude-opus-4-8-v1:0",
        "claude-opus-5@20260701",
        "claude-opus-4.8",
    ],
)
def test_late_instructions_stay_in_place_for_models_that_take_them(model: str) -> None:
    body, made = sent("chat", "messages", "anthropic", model=model, messages=LATE)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "system"]
    assert "system" not in body
    assert made.losses.counts == {}


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-4-5",
        "claude-haiku-4-5-20251001",
        "claude-opus-4-7",
        "claude-opus-4-5-20251101",
        "claude-sonnet-4-6",
        "claude-3-5-haiku-20241022",
        "claude-sonnet-4-20250514",
        "claude-mythos-preview",
        "somebody's-own",
        "x" * 10_000,
    ],
)
def test_they_move_to_the_front_for_all_others(model: str) -> None:
    """Models before Opus 4.8 answer 400 (messages §5)."""
    body, made = sent("chat", "messages", "anthropic", model=model, messages=LATE)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert json.dumps(body["system"]).count("Be brief.") == 1
    assert made.losses.counts == {LossCode.SYSTEM_MOVED: 1}


def test_the_operator_may_list_other_models() -> None:
    lists: tuple[Json, ...] = ({"mid_system_models": ["own-*"]}, {"mid_system_models": []})
    for flags in lists:
        body, _ = sent("chat", "messages", "anthropic", flags, model="own-1", messages=LATE)
        assert body["messages"][-1]["role"] == "system"
    body, _ = sent("chat", "messages", "anthropic", {"system_inline": False}, model="claude-opus-5", messages=LATE)
    assert body["messages"][-1]["role"] == "user"
    made = translate(
        direction("chat", "messages"),
        json.dumps({"model": "claude-sonnet-4-5", "messages": LATE}).encode(),
        knobs=Knobs(mid_system="inline"),
    )
    assert json.loads(made.body)["messages"][-1]["role"] == "system"
