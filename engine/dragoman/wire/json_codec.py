"""JSON as the wire has it: orjson, with the standard library where orjson is stricter than the model servers are.

Servers that cut text on UTF-16 units send half a surrogate pair in one delta and the other half in the next. orjson
refuses such a text in both ways; the standard library carries it through as the same escapes. The arguments of a call
are a text that is JSON itself: there a half may stand as it is.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
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
    """Parse JSON with numbers as they are: an amount or an id in a call must not change.

    An integer may have any length, and a float of more than 17 digits is an `orjson.Fragment` of its own text.
    """
    value = loads(data)
    return parse_exactly(data, value) if has_long_number(data) else value


def parse_exactly(data: bytes, value: Any) -> Any:
    """Parse JSON that has a long number as `loads_exact` does. `value` is what `loads` returned for it."""
    try:
        return json.loads(data, parse_float=_exact_float, parse_constant=_refuse)
    except (RecursionError, ValueError):  # CPython refuses integers of some thousand digits
        return value


def with_exact(data: bytes, key: bytes, value: Any) -> Any:
    """Return `value`, the parsed `data` of a stream's frame, with exact numbers if an object is a value of `key`."""
    if (data.find(b'"%b":{' % key) >= 0 or data.find(b'"%b": {' % key) >= 0) and has_long_number(data):
        return parse_exactly(data, value)
    return value


MAY_BE_ROUNDED = frozenset({float, dict, list})
"""Types of values that are, or may hold, a float: all that orjson rounds are floats."""


def has_float(value: Any) -> bool:
    """True if there is a float in a parsed object or array. Whatever orjson has rounded is one."""
    inner: list[Any] = [value]
    for holder in inner:  # grows
        for item in holder.values() if type(holder) is dict else holder:
            kind = type(item)
            if kind is str:
                continue
            if kind is float:
                return True
            if kind is dict or kind is list:
                inner.append(item)
    return False


def has_long_number(data: bytes) -> bool:
    """True if there may be a number that orjson would change: 19 digits and points in a row, perhaps in a string."""
    if len(data) < _SHORT:
        return data.translate(_ZEROS).find(_LONG) >= 0  # `in` raises and catches an error first
    # Every sixth byte is searched first, as a long document has few long numbers: a third of the instructions.
    samples = data[::_STEP].translate(_ZEROS)
    found = samples.find(b"000")
    while found >= 0:
        start, after = max(0, (found - 1) * _STEP + 1), found + _AHEAD
        if data[start : after * _STEP + _LONGEST].translate(_ZEROS).find(_LONG) >= 0:
            return True
        found = samples.find(b"000", after)
    return False


def _exact_float(number: str) -> Any:
    value = _finite(number)
    digits = number.lower().partition("e")[0].replace(".", "").lstrip("-0")
    return value if len(digits) <= _EXACT_DIGITS else orjson.Fragment(number)


_DEEPEST = 1000
"""Levels of nesting; orjson refuses 1024 and more, and what is deeper could not be written again."""
_HALF = re.compile(r"[\ud800-\udfff]")
_LONGEST = 19
_LONG = b"0" * _LONGEST
"""The shortest number that orjson may change, after `_ZEROS`: an integer of 19 digits, or 18 digits and a point."""
_ZEROS = bytes.maketrans(b"123456789.", b"0" * 10)
"""Makes every digit and point a 0."""
_STEP = 6
"""Of 19 bytes in a row, three are multiples of six."""
_AHEAD = 16
"""Samples whose bytes are all searched where three are digits, as in an id: it is searched in one step."""
_SHORT = 1024
"""Bytes of a document below which one search of all takes fewer instructions than a few steps."""
_EXACT_DIGITS = 17
"""Digits with which every double is written."""
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
    except TypeError as error:
        long_integer = "Integer" in str(error)  # else the nesting is too deep for orjson
    if long_integer:
        with suppress(TypeError, RecursionError):
            return orjson.dumps(_with_long_integers(value))
    return json.dumps(value, separators=(",", ":"), default=_embedded).encode()


def _with_long_integers(value: Any) -> Any:
    """Return the value with integers beyond 64 bits as `orjson.Fragment`s."""
    if type(value) is dict:
        return {key: _with_long_integers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_long_integers(inner) for inner in value]
    return orjson.Fragment(str(value)) if type(value) is int and not -(2**63) <= value < 2**64 else value


def canonical_json(value: Any) -> bytes:
    """Encode a JSON value so that equal values give equal bytes, whatever the order of their keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def embed(text: str) -> orjson.Fragment:
    """Return JSON text as a value to embed in another, unchanged but for halves of surrogate pairs (escaped)."""
    return orjson.Fragment(text if text.isascii() else _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text))


def _embedded(value: Any) -> Any:
    """Return the value of an `orjson.Fragment`, for the standard library. Raises TypeError for any other object."""
    return json.loads(orjson.dumps(value))


def dump_str(value: str) -> bytes:
    """A JSON string literal, quotes included."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()
