"""Checks of values of the configuration, and the messages about wrong ones.

A message shows the value, but of what may be a secret only its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import Field
from datetime import date, datetime
from importlib.util import find_spec
from typing import Any

from dragoman.gateway import EFFORTS, tidy

KINDS: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    list: "an array",
    tuple: "an array",
    dict: "a table",
    datetime: "a date or a time",
    date: "a date",
}
"""Types by their names in TOML."""


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is absent
        return False


def kind_of(value: Any) -> str:
    """Return the TOML type of a value, for messages: `a string`, `an array`."""
    return KINDS.get(type(value), f"a {type(value).__name__}")


def closest(word: str, words: Iterable[str]) -> str:
    """Return ` (did you mean "…"?)` with the closest of `words`, or an empty string."""
    from difflib import get_close_matches  # 0.5 MB of memory, needed only for errors

    found = get_close_matches(word, [str(known) for known in words], 1)
    return f' (did you mean "{found[0]}"?)' if found else ""


def wrong_type(expected: str, value: Any, *, secret: bool = False) -> str:
    """Return a message on a value of a wrong type. Of an array, a table and what may be a secret it shows the type.

    In place of a table there may be a secret, such as a header in one string.
    """
    if secret or expected == KINDS[dict] or isinstance(value, dict | list):
        return f"expected {expected}, got {kind_of(value)}"
    return f"expected {expected}; got {tidy(as_toml(value))}"


def as_toml(value: Any) -> str:
    """Return a value as TOML has it, for messages."""
    return str(value).lower() if type(value) is bool else f'"{value}"' if isinstance(value, str) else str(value)


def unknown(what: str, word: str, words: Iterable[str]) -> str:
    """Return a message such as `unknown provider "locla"; there are: local (did you mean "local"?)`."""
    known = [str(known) for known in words]
    there = f"there are: {', '.join(known)}" if known else f"there is no {what}"
    return f'unknown {what} "{word}"; {there}{closest(word, known)}'


def choice_problem(value: Any, words: Iterable[str], *forms: str) -> str | None:
    """Return a message if `value` is not one of `words`, else None. `forms` describe other values that are allowed."""
    allowed = [str(word) for word in words]
    if isinstance(value, str) and value in allowed:
        return None
    meant = {True: "on", False: "off"}.get(value, "") if type(value) is bool else str(value)
    return f"expected one of {', '.join((*allowed, *forms))}; got {as_toml(value)}{closest(meant, allowed)}"


def parse_word(spec: Field[Any], word: str) -> Any:
    """Return the value of a field given as a word on the command line: a comma-separated list, a number or a string."""
    if type(spec.default) is tuple:
        return tuple(word.split(",")) if word else ()
    if "number" in spec.metadata:
        for kind in (int, float):
            try:
                return kind(word)
            except ValueError:
                continue
    return word


def value_problem(spec: Field[Any], value: Any) -> str | None:
    """Return a message if `value` does not suit the field, else None.

    The allowed values are in the field's metadata; the type is that of its default.
    """
    kind: type = type(spec.default)
    if "number" in spec.metadata:
        return _number_problem(spec, value)
    if spec.metadata.get("values"):
        return choice_problem(value, spec.metadata["values"])
    if kind is tuple:
        if type(value) not in (list, tuple):
            return wrong_type(KINDS[list], value)
        if items := spec.metadata.get("items"):
            return _items_problem(value, items, spec.metadata["form"])
        # The only other lists are effort levels, in rising order (mapping §5.5).
        for level in value:
            if wrong := choice_problem(level, EFFORTS):
                return wrong
        if [level for level in EFFORTS if level in value] != list(value):
            return f"expected rising order without repetition: {', '.join(EFFORTS)}"
        return None
    if type(value) is not kind and not (kind is float and type(value) is int):
        return wrong_type(KINDS[kind], value)
    number: Any = value
    if kind in (int, float) and not number >= 0:  # written this way, NaN is rejected too
        return f"expected 0 or more; got {value}"
    return None


def _number_problem(spec: Field[Any], value: Any) -> str | None:
    """Return a message for a field that accepts words and numbers."""
    kind, least, most = spec.metadata["number"]
    if type(value) is kind or (kind is float and type(value) is int):
        return None if least <= value <= most else f"expected {least:g} to {most:g}; got {value:g}"
    return choice_problem(value, spec.metadata["values"], f"{KINDS[kind]} from {least:g} to {most:g}")


def _items_problem(values: Sequence[Any], pattern: str, form: str) -> str | None:
    for value in values:
        if type(value) is not str:
            return wrong_type("strings", value)
        if not re.fullmatch(pattern, value):
            return f"expected strings like {form}; got {as_toml(value)}"
    return None
