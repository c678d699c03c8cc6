"""Closed sets of values are checked where they are given, and the error names the choices."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from dragoman import direction
from dragoman.knobs import Knobs
from dragoman.profiles.profile import Profile, builtin_profile

WRONG: Any = "bogus"


def make(name: str, value: Any) -> Knobs:
    """Knobs of which one has this value."""
    given: dict[str, Any] = {name: value}
    return Knobs(**given)


@pytest.mark.parametrize("spec", fields(Knobs), ids=lambda spec: str(spec.name))
def test_a_knob_takes_only_its_values(spec: Any) -> None:
    value: Any
    for value in (WRONG, None, -1, True, [1]):
        with pytest.raises(ValueError, match=f"^{spec.name}: expected .*; got "):
            make(spec.name, value)
    for value in spec.metadata["values"]:
        if spec.metadata["values"]:
            assert getattr(make(spec.name, value), spec.name) == value


def test_the_error_names_the_choices() -> None:
    with pytest.raises(ValueError, match=r"^on_loss: expected one of 'record', 'reject'; got 'bogus'$"):
        Knobs(on_loss=WRONG)
    with pytest.raises(ValueError, match=r"^mid_system: expected one of 'auto', 'hoist', 'inline'"):
        replace(Knobs(), mid_system=WRONG)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("evict_images", [1, 1000], [0, 1001, 2.5, "1"]), ("token_budget", [0.05, 1, 0.8, "on"], [0, 1.1, "0.8"])],
)
def test_numbers_have_their_range(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(make(name, value), name) == value
    for value in bad:
        with pytest.raises(ValueError, match=f"^{name}: expected one of .* or a number from"):
            make(name, value)


def test_the_types_agree_with_the_documentation() -> None:
    hints = get_type_hints(Knobs)
    words = {spec.name: spec.metadata["values"] for spec in fields(Knobs) if get_origin(hints[spec.name]) is Literal}
    assert {name: get_args(hints[name]) for name in words} == words
    assert len(words) > 20


def test_a_profile_takes_only_its_values() -> None:
    for spec in fields(Profile):
        if spec.metadata["values"]:
            with pytest.raises(ValueError, match=f"^{spec.name}: expected one of "):
                replace(Profile(), **{spec.name: WRONG})
    with pytest.raises(ValueError, match=r"^thinking: expected one of 'adaptive'"):
        builtin_profile("chat").replace({"thinking": "hard"})


def test_a_profile_that_does_not_exist() -> None:
    with pytest.raises(
        ValueError, match=r"^no profile 'nope' for the dialect 'chat'; there are .*compatible.*, openai"
    ):
        builtin_profile("chat", "nope")
    with pytest.raises(ValueError, match=r"^no dialect 'nope'; there are chat, messages, responses, generate$"):
        builtin_profile("nope")


def test_a_direction_that_does_not_exist() -> None:
    for pair in (("openai", "anthropic"), ("chat", "openai")):
        with pytest.raises(
            ValueError, match=r"^no dialect 'openai'; there are chat, messages, responses(, generate)?$"
        ):
            direction(*pair)
