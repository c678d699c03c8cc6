"""JSON as the wire has it: orjson, with the standard library where orjson is stricter than the model servers are.

Servers that cut text on UTF-16 units send half a surrogate pair in one delta and the other half in the next. orjson
refuses such a text in both ways; the standard library carries it through as the same escapes. The arguments of a call
are a text that is JSON itself: there a half may stand as it is.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson


def loads(data: bytes | str) -> Any:
    """Parse JSON. Raises ValueError (of which orjson's and json's errors are kinds)."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if not (b"\\u" in data if isinstance(data, bytes) else "\\u" in data or _HALF.search(data)):
            raise
    text = data.decode() if isinstance(data, bytes) else data
    if _depth(text) > _DEEPEST:
        raise ValueError("nested too deeply")
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_refuse)
    except RecursionError:  # the interpreter's limit counts the callers too
        raise ValueError("nested too deeply") from None


def loads_exact(data: bytes) -> Any:
    """Parse JSON with integers of any length as they are: orjson rounds those beyond 64 bits to floats.

    It costs a search of all the bytes, so it is for whole replies, in which a call may hold an amount or an id.
    """
    value = loads(data)
    # A tenth of the time that a regular expression takes, which was 5 % of a whole reply's instructions.
    if data.translate(_ZEROS).find(_LONG) < 0:  # `in` raises and catches an error first
        return value
    try:
        return json.loads(data, parse_float=_finite, parse_constant=_refuse)
    except RecursionError:
        return value


_DEEPEST = 1000
"""Levels of nesting; orjson refuses 1024 and more, and what is deeper could not be written again."""
_HALF = re.compile(r"[\ud800-\udfff]")
_LONG = b"0" * 19
"""Digits of the shortest integer that may be beyond 64 bits, after `_ZEROS`."""
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
"""Makes every digit a 0."""
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?')
_BRACKETS = {"[": 1, "{": 1, "]": -1, "}": -1}


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in _STRING.sub("", text):
        depth += _BRACKETS.get(char, 0)
        deepest = max(deepest, depth)
    return deepest


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if value in (math.inf, -math.inf):
        raise ValueError(f"{number} is beyond the numbers that there are")
    return value


def dumps(value: Any) -> bytes:
    """Compact JSON, key order kept, non-ASCII kept."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), default=_embedded).encode()


def canonical_json(value: Any) -> bytes:
    """Encode a JSON value so that equal values give equal bytes, whatever the order of their keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def embed(text: str) -> orjson.Fragment:
    """Returns JSON text as a value to embed in another, unchanged but for halves of surrogate pairs (escaped)."""
    return orjson.Fragment(text if text.isascii() else _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text))


def _embedded(value: Any) -> Any:
    """Returns the value of an `orjson.Fragment`, for the standard library. Raises TypeError for any other object."""
    return json.loads(orjson.dumps(value))


def dump_str(value: str) -> bytes:
    """A JSON string literal, quotes included."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()
