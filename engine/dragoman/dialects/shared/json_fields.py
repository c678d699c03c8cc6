"""Typed access to the fields of JSON bodies.

The functions that read a client's fields raise ClientRequestError, which names the field and the expected type.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any, Final, TypeVar

from dragoman.canonical.request import Json
from dragoman.dialects import CLIENT_DIALECTS
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.lazy_mapping import LazyMapping
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import dumps, loads

T = TypeVar("T")


def _fields_of(dialect: str) -> frozenset[str]:
    # By name, since the readers import this module.
    fields: frozenset[str] = import_module(f"dragoman.dialects.{dialect}.request.read").FIELDS
    return fields


REQUEST_FIELDS: Final = LazyMapping(CLIENT_DIALECTS, _fields_of)
"""The top-level fields of the requests of each client dialect."""

_NAMES: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    list: "an array",
    dict: "an object",
}


def kind_of(value: Any) -> str:
    """Return the type of a JSON value in words, for messages."""
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)


def typed(value: Any, kind: type[T], path: Path) -> T:
    """Return `value` if it is of `kind`. Integers count as numbers, booleans never as integers."""
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return value  # type: ignore[return-value]
    raise ClientRequestError(path, f"expected {_NAMES[kind]}, got {kind_of(value)}")


def required(body: Json, key: str, kind: type[T], path: Path = ()) -> T:
    """Return `body[key]`, which must exist and be of `kind`."""
    value = body.get(key)
    if type(value) is kind:
        return value
    if key not in body:
        raise ClientRequestError((*path, key), f"is required ({_NAMES[kind]})")
    return typed(value, kind, (*path, key))


def required_text(body: Json, key: str, path: Path = ()) -> str:
    """Return `body[key]`, which must be a string that is not empty."""
    text = required(body, key, str, path)
    if not text:
        raise ClientRequestError((*path, key), "must not be empty")
    return text


def optional(body: Json, key: str, kind: type[T], path: Path = ()) -> T | None:
    """Return `body[key]`, which must be of `kind`, or None if it is absent or null."""
    value = body.get(key)
    if value is None or type(value) is kind:  # the path is for what went wrong
        return value
    return typed(value, kind, (*path, key))


def one_of(body: Json, key: str, allowed: Collection[str], path: Path = ()) -> str | None:
    """Return `body[key]`, which must be one of the allowed words, or None if it is absent or null."""
    value = optional(body, key, str, path)
    if value is None or value in allowed:
        return value
    raise ClientRequestError((*path, key), f"expected one of {', '.join(allowed)}; got {value!r}")


def reject_if_set(body: Json, key: str, why: str, path: Path = (), *, code: str | None = None) -> None:
    """Raise Unsupported if the field is set."""
    if body.get(key) is not None:
        raise Unsupported((*path, key), why, code=code)


def drop_if_set(body: Json, key: str, code: LossCode, losses: Losses, path: Path = ()) -> None:
    """Record a loss if the field is set, which is not sent."""
    if body.get(key) is not None:
        losses.add(code, (*path, key))


def drop_unknown(body: Json, known: frozenset[str], losses: Losses, path: Path = ()) -> None:
    """Record a loss for every key that the dialect does not define; only known fields are sent (an allow-list).

    At the top level the fields of other dialects have their own code.
    """
    if known.issuperset(body):
        return
    for key in body:
        if key in known:
            continue
        if not path and (dialects := [dialect for dialect, fields in REQUEST_FIELDS.items() if key in fields]):
            losses.add(LossCode.LEAKED_FIELD, (key,), f"a field of {' and '.join(dialects)}; dropped")
        else:
            losses.add(LossCode.UNKNOWN_FIELD, (*path, key))


def note_unknown(body: Json, known: frozenset[str], at: Path, losses: Losses) -> None:
    """Record a loss for each key of the object at `at` that is not in `known`, unless its value is empty.

    Clients replay replies unchanged, with `audio: null`, `annotations: []` and similar: dropping those loses nothing.
    """
    if known.issuperset(body):
        return
    for key, value in body.items():
        if key not in known and value is not None and value != [] and value != "" and value != {}:
            losses.add(LossCode.UNKNOWN_FIELD, (*at, key))


INVALID_ARGUMENTS: Final = "invalid_arguments"
"""The only argument of a call in the history whose arguments are no JSON object, where the dialect takes objects."""


def arguments_text(value: Any) -> str:
    """Return the arguments of a call in the history as text. Clients repeat them as the model sent them, or parsed."""
    if type(value) is str:
        return value
    return "" if value is None else dumps(value).decode()


def is_empty(value: Any) -> bool:
    """True for a value of a reply that has no content: null, "", and an object or array of such values.

    Servers fill in all members of their types. False and 0 are content.
    """
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return value is None or value == ""
    for item in value:  # noqa: SIM110 - a generator costs three times as much
        if item or item == 0:
            return False
    return True


def record_unknown(body: Json, known: frozenset[str], at: Path, losses: Losses) -> None:
    """Record each key of an object of a reply that is not in `known`, unless its value is empty, zero or false.

    `at` is the path of the object. A path is recorded once for each reply: keys of a stream's frames may repeat.
    """
    for key, value in body.items():
        if value and key not in known:
            losses.add_unknown((*at, quote_word(key)))


def parse_object(text: str) -> Json | None:
    """Return the JSON object that a text is, such as a call's arguments; None if it is no valid JSON or no object."""
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if type(value) is dict else None


COUNT_MAX: Final = 10**10
"""Largest count of a reply that is read. No reply has as many tokens, and stores compute with 53 or 64 bits."""


_OTHERS: Final = frozenset(("user", "system", "developer", "tool", "function"))
"""Roles of a conversation that are not the model's."""


def is_others_role(role: Any) -> bool:
    """True for the `role` of a reply that is not the model's, under whatever name (`assistant`, `model`, `ai`)."""
    return bool(role) and (type(role) is not str or role.lower() in _OTHERS)


_DIGITS: Final = len(str(COUNT_MAX))


def count_of(value: Any) -> int | None:
    """Return a value in an upstream's reply if it is a count up to `COUNT_MAX`, else None.

    Some servers write counts as `9.0` or as text, as 64-bit numbers are in the JSON of protocol buffers.
    """
    if type(value) is not int:
        if type(value) is float:
            whole = value.is_integer()
        else:
            whole = type(value) is str and len(value) <= _DIGITS and value.isascii() and value.isdigit()
        if not whole:
            return None
        value = int(value)
    return value if 0 <= value <= COUNT_MAX else None


def read_count(body: Any, key: str) -> int | None:
    """Return a count in an upstream's reply, or None if it is absent or is not a count up to `COUNT_MAX`."""
    return count_of(body.get(key)) if type(body) is dict else None


def read_counts(body: Json, keys: tuple[str, ...]) -> list[int | None]:
    """Return several counts, each as `read_count` does."""
    get = body.get
    return [
        value
        if type(value := get(key)) is int and 0 <= value <= COUNT_MAX
        else None
        if value is None
        else count_of(value)
        for key in keys
    ]


def read_timestamp(value: Any) -> int | None:
    """Return Unix time in whole seconds, or None if the value is no time. Some servers send fractions."""
    if type(value) is not int and type(value) is not float:
        return None
    return int(value) if 0 <= value < 2**53 else None
