"""Knobs: each is documented, and only values that it allows are accepted."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from dragoman.knobs import DEFAULT_KNOBS, KNOBS, Knobs
from dragoman_server.config.field_texts import field_texts


@pytest.mark.parametrize("name", KNOBS)
def test_each_knob_has_a_description_and_a_default_that_it_allows(name: str) -> None:
    assert field_texts(Knobs)[name]
    assert replace(Knobs(), **{name: getattr(DEFAULT_KNOBS, name)}) == DEFAULT_KNOBS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("on_loss", "ignore"),
        ("evict_images", 0),
        ("evict_images", "on"),
        ("token_budget", 1.5),
        ("tool_prefixes", ("a b=c",)),
    ],
)
def test_other_values_are_errors(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected"):
        Knobs(**{name: value})


def test_knobs_cannot_be_changed() -> None:
    knobs: Any = DEFAULT_KNOBS
    with pytest.raises(FrozenInstanceError):
        knobs.on_loss = "reject"
