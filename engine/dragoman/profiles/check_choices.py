"""Checks of fields that take one of a few values, by the metadata that documents them."""

from __future__ import annotations

import re
from dataclasses import Field, fields
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints


def add_choices(cls: type) -> None:
    """Add `values` to the metadata of each field of a dataclass: the strings that its type `Literal[…]` allows."""
    types = get_type_hints(cls)
    for spec in fields(cls):
        values = get_args(types[spec.name]) if get_origin(types[spec.name]) is Literal else ()
        spec.metadata = MappingProxyType({"values": values, **spec.metadata})


def check_choices(choices: Any) -> None:
    """Check the fields of a dataclass instance against their metadata.

    `values` are the strings that a field allows, `number` is a kind and a range of numbers that it allows too, `items`
    is the pattern of a list's entries. A field without them allows anything. Raises `ValueError` for the first misfit.
    """
    for spec in fields(choices):
        value = getattr(choices, spec.name)
        if value != spec.default and (wanted := _misfit(value, spec)) is not None:
            raise ValueError(f"{spec.name}: expected {wanted}; got {value!r}")


def _misfit(value: Any, spec: Field[Any]) -> str | None:
    """Describe the expected values, or return None if the value is one of them."""
    known = spec.metadata
    if items := known.get("items"):
        fits = isinstance(value, (list, tuple))
        fits = fits and all(type(item) is str and re.fullmatch(items, item) is not None for item in value)
        return None if fits else f"a list of strings such as {known['form']!r}"
    words = known.get("values") or ()
    if not words or (isinstance(value, str) and value in words):
        return None
    one = f"one of {', '.join(map(repr, words))}"
    if "number" not in known:
        return one
    kind, least, most = known["number"]
    fits = type(value) in (int, kind) and least <= value <= most
    return None if fits else f"{one} or a number from {least:g} to {most:g}"
