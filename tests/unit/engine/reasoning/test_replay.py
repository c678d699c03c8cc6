"""The fate of the reasoning of earlier turns, by the dialect of the upstream and the kind of reasoning."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.parts import Reasoning
from dragoman.canonical.turn import reasoning_fields
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import builtin_profile
from dragoman.reasoning.replay import ReasoningRules

AT = ("messages", 1)
BLOCK = {"type": "reasoning"}
ENVELOPED = Reasoning("t", AT, "elsewhere", "p", native=BLOCK, family="other")
ENCRYPTED = Reasoning("", AT, "elsewhere", "p")
SIGNED = Reasoning("t", AT, "elsewhere", "p")
UNSIGNED = Reasoning("t", AT, "elsewhere")
EMPTY = Reasoning("", AT, "elsewhere")
FOREIGN, PLAIN = LossCode.REASONING_FOREIGN, LossCode.REASONING_UNSIGNED


def decide(dialect: str, part: Reasoning, knobs: Knobs | None = None, **more: Any) -> tuple[str, list[LossCode]]:
    """The decision, and the codes of its losses."""
    losses = Losses()
    rules = ReasoningRules(dialect, builtin_profile(dialect), knobs or Knobs(), losses, **more)
    return rules.decide(reasoning_fields(part)), list(losses.counts)


@pytest.mark.parametrize(
    ("part", "chat", "messages", "responses"),
    [
        (ENVELOPED, [FOREIGN], [FOREIGN], [FOREIGN]),
        (ENCRYPTED, [LossCode.REASONING_ENCRYPTED], [FOREIGN], [FOREIGN]),
        (SIGNED, [FOREIGN], [FOREIGN], [FOREIGN]),
        (UNSIGNED, [FOREIGN], [PLAIN], [PLAIN]),
        (EMPTY, [], [], []),
    ],
)
def test_foreign_reasoning_is_dropped_with_a_code(part: Reasoning, chat: Any, messages: Any, responses: Any) -> None:
    assert decide("chat", part) == ("dropped", chat)
    assert decide("messages", part) == ("dropped", messages)
    assert decide("responses", part) == ("dropped", responses)


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
def test_own_reasoning_goes_back(dialect: str) -> None:
    family = builtin_profile(dialect).family or dialect
    assert decide(dialect, Reasoning("t", AT, dialect, native=BLOCK)) == ("own", [])
    assert decide(dialect, Reasoning("t", AT, dialect, native=BLOCK, family=family)) == ("own", [])
    assert decide(dialect, Reasoning("t", AT, dialect, native=BLOCK, family="other")) == ("dropped", [FOREIGN])


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
def test_a_text_becomes_plain_text_if_the_knob_is_on(dialect: str) -> None:
    knobs = Knobs(demote_reasoning="on")
    assert decide(dialect, SIGNED, knobs) == ("plain", [FOREIGN])
    assert decide(dialect, ENCRYPTED, knobs)[0] == "dropped"
    blank = Reasoning(" ", AT, "elsewhere", "p")
    assert decide(dialect, blank, knobs)[0] == ("dropped" if dialect == "messages" else "plain")


def test_a_text_is_sent_as_reasoning_to_upstreams_that_want_it() -> None:
    assert decide("chat", UNSIGNED, replays=True) == ("text", [])
    assert decide("chat", SIGNED, replays=True) == ("text", [LossCode.REASONING_SIGNATURE])
    assert decide("messages", SIGNED, replays=True) == ("text", [])
    assert decide("chat", ENVELOPED, replays=True) == ("dropped", [FOREIGN])
