from __future__ import annotations

from typing import Any

import pytest

from dragoman import Knobs, Profile
from dragoman.losses import LossCode
from support.generate import GEMINI, OLDER, send

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}


def config(client: str, body: dict[str, Any], profile: Profile = GEMINI, **knobs: Any) -> tuple[Any, list[str]]:
    base = {"input": "x"} if client == "responses" else ASK
    sent = send(client, {**base, **body}, profile, Knobs(**knobs))
    return sent.config.get("thinkingConfig"), sent.codes


@pytest.mark.parametrize(
    ("effort", "level", "code"),
    [
        ("low", "LOW", None),
        ("medium", "MEDIUM", None),
        ("high", "HIGH", None),
        ("xhigh", "HIGH", "effort_rounded"),
        ("minimal", "LOW", "effort_rounded"),
        ("none", "LOW", "effort_floor"),
    ],
)
def test_a_level(effort: str, level: str, code: str | None) -> None:
    written, codes = config("chat", {"reasoning_effort": effort})
    assert written == {"thinkingLevel": level} | ({} if effort == "none" else {"includeThoughts": True})
    assert codes == ([code] if code else [])


@pytest.mark.parametrize(
    ("effort", "budget"), [("low", 1024), ("medium", 4096), ("high", 16384), ("xhigh", 24576), ("none", 0)]
)
def test_a_budget(effort: str, budget: int) -> None:
    written, codes = config("chat", {"reasoning_effort": effort}, OLDER)
    assert written["thinkingBudget"] == budget
    assert "thinkingLevel" not in written
    assert codes == []


@pytest.mark.parametrize(("asked", "sent"), [(4096, 4096), (60000, 24576), (1024, 1024)])
def test_the_budget_of_a_messages_client(asked: int, sent: int) -> None:
    body = {"max_tokens": 64000, "thinking": {"type": "enabled", "budget_tokens": asked}}
    written, codes = config("messages", body, OLDER)
    assert written == {"thinkingBudget": sent, "includeThoughts": True}
    assert codes == ([] if asked == sent else [LossCode.EFFORT_ROUNDED])


def test_models_that_always_think() -> None:
    always = OLDER.replace({"thinking_off": False})
    assert config("messages", {"thinking": {"type": "disabled"}}, always) == ({"thinkingBudget": 512}, ["effort_floor"])


@pytest.mark.parametrize(
    ("client", "body", "shown"),
    [
        ("messages", {"thinking": {"type": "adaptive"}}, True),
        ("messages", {"thinking": {"type": "adaptive", "display": "omitted"}}, False),
        ("responses", {"reasoning": {"effort": "low"}}, False),
        ("responses", {"reasoning": {"summary": "auto"}}, True),
        ("chat", {"reasoning_effort": "low"}, True),
    ],
)
def test_reasoning_is_requested_for_clients_that_get_them(client: str, body: dict[str, Any], shown: bool) -> None:
    assert bool((config(client, body)[0] or {}).get("includeThoughts")) == shown
    assert not (config("chat", {"reasoning_effort": "low"}, reasoning_field="off")[0] or {}).get("includeThoughts")


def test_a_model_without_thinking() -> None:
    plain = GEMINI.replace({"thinking": "none"})
    assert config("chat", {"reasoning_effort": "high"}, plain) == (None, ["reasoning_mode"])
    assert config("chat", {"reasoning_effort": "none"}, plain) == (None, [])
    assert config("chat", {}) == (None, [])
