"""Checks of JSON values, and the error of a broken rule, for all grammars.

A rule never contains a text of the stream: it is logged, and kept in the receipt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final, NoReturn

Json = dict[str, Any]

_LONGEST_INTEGER: Final = 4000
"""Digits. CPython refuses to read longer integers."""


class GrammarError(Exception):
    """A stream breaks a rule of its dialect, which the message describes."""


class Unchecked(Exception):
    """A stream cannot be checked any further, as its values are too large or nested too deeply."""


def key_set(*names: str) -> frozenset[str]:
    """Return a set of names, which may be unpacked from tuples."""
    return frozenset(names)


def require(condition: object, rule: str) -> None:
    """Raise GrammarError unless `condition` is true."""
    if not condition:
        raise GrammarError(rule)


def _no_constant(name: str) -> NoReturn:
    raise GrammarError(f"{name}, which JSON does not have")


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_INTEGER:
        raise Unchecked
    return int(digits)


def _object(members: list[tuple[str, Any]]) -> Json:
    value = dict(members)
    require(len(value) == len(members), "a key twice in one object")
    return value


def parse_object(text: str) -> Json:
    """Return a JSON object: without NaN and Infinity, and no key twice. Raises GrammarError and Unchecked."""
    return _parse(text, _object)


def parse_arguments(text: str) -> Json:
    """Return the arguments of a call, as `parse_object` does. A key may be repeated, as the model has written them.

    Raises GrammarError and Unchecked.
    """
    return _parse(text, dict)


def _parse(text: str, make: Callable[[list[tuple[str, Any]]], Json]) -> Json:
    try:
        value = json.loads(text, object_pairs_hook=make, parse_constant=_no_constant, parse_int=_integer)
    except ValueError:
        raise GrammarError("a frame or arguments that are not JSON") from None
    except RecursionError:
        raise Unchecked from None
    return an_object(value, "a frame or arguments that are not a JSON object")


def an_object(value: Any, rule: str) -> Json:
    """Return a value that must be an object. Raises GrammarError with `rule`."""
    if type(value) is not dict:
        raise GrammarError(rule)
    return value


def an_array(value: Any, where: str) -> list[Any]:
    """Return a value that must be an array. Raises GrammarError."""
    if type(value) is not list:
        raise GrammarError(f"{where} is not an array")
    return value


def members(value: Any, required: frozenset[str], optional: frozenset[str], where: str) -> Json:
    """Return an object that must have all of `required` and nothing beyond `optional`. Raises GrammarError."""
    found = an_object(value, f"{where} is not an object")
    keys = found.keys()
    if not required <= keys:
        raise GrammarError(f"{where} without {', '.join(sorted(required - keys))}")
    if len(found) > len(required) and not keys <= required | optional:
        raise GrammarError(f"{where} with unknown keys")
    return found


def string(value: Any, where: str, *, empty: bool = True) -> str:
    """Return a value that must be a string. Raises GrammarError."""
    if type(value) is not str:
        raise GrammarError(f"{where} is missing or is not a string")
    if not value and not empty:
        raise GrammarError(f"{where} is empty")
    return value


def count(value: Any, where: str) -> int:
    """Return a value that must be an integer of at least 0, and no boolean. Raises GrammarError."""
    if type(value) is not int or value < 0:
        raise GrammarError(f"{where} is missing or is not a count")
    return value


def digest(value: Any) -> bytes:
    """Return a digest of a JSON value, which does not depend on the order of keys."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).digest()


class TextDigest:
    """A digest of a text that comes in pieces, which may cut a character into its UTF-16 halves."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, piece: str) -> None:
        """Add the next piece."""
        self._hash.update(piece.encode("utf-16-le", "surrogatepass"))

    def matches(self, text: object) -> bool:
        """Return whether the pieces together are this text."""
        if type(text) is not str:
            return False
        whole = TextDigest()
        whole.add(text)
        return self.digest() == whole.digest()

    def digest(self) -> bytes:
        """Return the digest of all pieces together."""
        return self._hash.digest()
