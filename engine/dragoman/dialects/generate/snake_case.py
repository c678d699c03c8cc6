"""Replies whose keys are in snake_case (`finish_reason`), which some relays send; the API has them in camelCase.

The names in snake_case are those of Google's protocol buffers, which JSON printers keep with
`preserving_proto_field_names`, and those of the types in Google's Python SDK.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.losses import LossCode, Losses

_LETTER: Final = re.compile(r"(?<=[a-z0-9])_([a-z])")
_DATA: Final = frozenset(("args", "response"))
"""Members of calls and results, whose keys are those of a tool."""


def in_camel_case(value: Json, known: frozenset[str], losses: Losses) -> Json:
    """Return an object of a reply with its keys in camelCase, on all levels.

    It is returned as it is, unless one of its keys is a `known` one in snake_case.
    """
    if all("_" not in key or _camel(key) not in known for key in value):
        return value
    losses.add_once(LossCode.REPLY_REPAIRED, "", "the keys of the reply were in snake_case")
    return {name: _converted(name, member) for name, member in _renamed(value)}


def _renamed(value: Json) -> list[tuple[str, Any]]:
    """Return the members of an object under their names. Of two with one name, the one in camelCase is kept."""
    return [(name, member) for key, member in value.items() if (name := _camel(key)) == key or name not in value]


def _converted(name: str, value: Any) -> Any:
    if name in _DATA:
        return value
    if type(value) is list:
        return [_converted("", each) for each in value]
    if type(value) is dict:
        return {inner: _converted(inner, member) for inner, member in _renamed(value)}
    return value


def _camel(key: str) -> str:
    return _LETTER.sub(lambda match: match[1].upper(), key)
