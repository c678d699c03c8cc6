"""The `repr` of public objects: one short line without texts, keys, headers or bodies.

A `repr` gets into logs, tracebacks and error reports, where none of these may be.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import MISSING, fields
from typing import Any, Final

_LENGTH: Final = 160
"""Longest `repr`, in characters."""


def short_repr(value: object, *parts: object) -> str:
    """Return `<Class part part>` in one line of at most 160 characters. Empty parts and None are left out."""
    text = " ".join([type(value).__name__, *(str(part) for part in parts if part not in ("", None))])
    if len(text) > _LENGTH - 2:
        text = f"{text[: _LENGTH - 3]}…"
    return f"<{''.join(char if char.isprintable() else '?' for char in text)}>"


def changed_fields(value: Any) -> str:
    """Return the `short_repr` of a dataclass of settings: its fields that have no default, or another value.

    Of a collection the size is shown, of another object the class. Fields with `repr=False` are left out.
    """
    parts = []
    for field in fields(value):
        found = getattr(value, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if field.repr and (default is MISSING or found != default):
            parts.append(f"{field.name}={_shown(found)}")
    return short_repr(value, *parts)


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool | int | float | str):
        return str(value)
    return f"{len(value)} items" if isinstance(value, Sized) else type(value).__name__
