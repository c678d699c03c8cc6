"""Checks of JSON against the request types of a vendor's SDK: typed dictionaries and pydantic models.

The SDKs themselves send what they are given; their servers do not accept it. So a value fits a type only if the type
has each of its keys, and each value has the type that is written there.
"""

from __future__ import annotations

import collections.abc
import typing
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, NotRequired, Required, TypeVar, Union

import typing_extensions
from pydantic import BaseModel

_WRAPPERS = (Required, NotRequired, typing_extensions.ReadOnly, typing.Annotated)
_LISTS = (
    list,
    tuple,
    collections.abc.Iterable,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Collection,
)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SKIPPED = ("Unset", "Unrecognized", "Unknown")
"""Beginnings of the names of types that stand for no value, or for one that the SDK's version does not know."""


class Misfit(NamedTuple):
    """A part of a request that a type does not have: its path, and the reason."""

    path: str
    reason: str


class _Field(NamedTuple):
    kind: Any
    required: bool


def sdk_type(name: str) -> Any:
    """A type by `module:Name`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def misfits(value: Any, kind: Any, at: str = "") -> Iterator[Misfit]:
    """Yield what does not fit the type."""
    kind = _plain(kind)
    origin = typing.get_origin(kind) or kind
    if kind is Any or kind is object or isinstance(kind, TypeVar):
        return
    if origin in (Union, UnionType):
        yield from _of_union(value, typing.get_args(kind), at)
    elif origin is Literal:
        if not any(value == word and type(value) is type(word) for word in typing.get_args(kind)):
            yield Misfit(at, f"{_short(value)} is none of {', '.join(map(repr, typing.get_args(kind)))}")
    elif fields := _fields(origin):
        yield from _of_object(value, fields, at, _open(origin))
    elif origin in _MAPS:
        if not isinstance(value, dict):
            yield Misfit(at, f"{_short(value)} is no object")
        elif arguments := typing.get_args(kind):
            for key, item in value.items():
                yield from misfits(item, arguments[1], _join(at, key))
    elif origin in _LISTS or getattr(origin, "__name__", "") == "SequenceNotStr":
        if not isinstance(value, list):
            yield Misfit(at, f"{_short(value)} is no array")
        else:
            (item_kind, *_) = typing.get_args(kind) or (Any,)
            for index, item in enumerate(value):
                yield from misfits(item, item_kind, f"{at}[{index}]")
    elif not _is_scalar(value, origin):
        yield Misfit(at, f"{_short(value)} is no {getattr(origin, '__name__', origin)}")


def _plain(kind: Any) -> Any:
    """The type without annotations, aliases and the words for optional keys."""
    while True:
        if typing.get_origin(kind) in _WRAPPERS:
            kind = typing.get_args(kind)[0]
        elif hasattr(kind, "__value__"):  # a generic alias has the value of the alias itself
            arguments = typing.get_args(kind)
            kind = kind.__value__[arguments] if arguments else kind.__value__
        elif hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        elif kind is None:
            return NoneType
        else:
            return kind


def _of_union(value: Any, kinds: tuple[Any, ...], at: str) -> Iterator[Misfit]:
    """Yield what does not fit the best member: one whose tag has the value, else the one with the fewest misfits."""
    best: list[Misfit] | None = None
    rank = (True, 0)
    for kind in _members(kinds):
        if getattr(kind, "__name__", "").startswith(_SKIPPED):
            continue
        found = list(misfits(value, kind, at))
        if not found:
            return
        ranked = (not _tagged(value, kind), len(found))
        if best is None or ranked < rank:
            best, rank = found, ranked
    if best is None:
        yield Misfit(at, "fits no type")
    else:
        yield from best


def _members(kinds: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the members of a union, and those of unions in it."""
    for kind in map(_plain, kinds):
        if typing.get_origin(kind) in (Union, UnionType):
            yield from _members(typing.get_args(kind))
        else:
            yield kind


def _tagged(value: Any, kind: Any) -> bool:
    """True if the value is an object whose `role` or `type` is a word of the type."""
    fields = _fields(typing.get_origin(kind) or kind)
    if not fields or not isinstance(value, dict):
        return typing.get_origin(kind) in _LISTS and isinstance(value, list)
    tags = [tag for tag in ("role", "type") if tag in fields]
    return bool(tags) and all(tag in value and not any(misfits(value[tag], fields[tag].kind)) for tag in tags)


def _of_object(value: Any, fields: dict[str, _Field], at: str, is_open: bool) -> Iterator[Misfit]:
    if not isinstance(value, dict):
        yield Misfit(at, f"{_short(value)} is no object")
        return
    for key, item in value.items():
        if key in fields:
            yield from misfits(item, fields[key].kind, _join(at, key))
        elif not is_open:
            yield Misfit(_join(at, key), "unknown field")
    for key, field in fields.items():
        if field.required and key not in value:
            yield Misfit(_join(at, key), "missing field")


def _is_scalar(value: Any, kind: Any) -> bool:
    if kind is float:
        return type(value) in (int, float)
    if kind in (str, int, bool, NoneType):
        return type(value) is kind
    if isinstance(kind, type) and issubclass(kind, Enum):
        return value in [member.value for member in kind]
    return False


@cache
def _fields(kind: Any) -> dict[str, _Field]:
    """The keys of an object's type; empty for another type."""
    if typing_extensions.is_typeddict(kind):
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        return {key: _Field(hint, _is_required(kind, key, hint)) for key, hint in hints.items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {
            field.alias or name: _Field(field.annotation, field.is_required())
            for name, field in kind.model_fields.items()
        }
    return {}


def _is_required(kind: Any, key: str, hint: Any) -> bool:
    # Annotations are strings, in which Python itself does not find these words.
    while typing.get_origin(hint) in _WRAPPERS:
        if typing.get_origin(hint) in (Required, NotRequired):
            return typing.get_origin(hint) is Required
        hint = typing.get_args(hint)[0]
    return key in kind.__required_keys__


def _open(kind: Any) -> bool:
    """True if an object's type allows further keys."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_config.get("extra") == "allow" or "__pydantic_extra__" in kind.__annotations__
    extra = getattr(kind, "__extra_items__", typing_extensions.NoExtraItems)
    return extra is not typing_extensions.NoExtraItems and extra is not None


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:60]}…"
