"""Removal of nulls in tool arguments that the tool's schema does not accept (knob `null_arguments`).

Models send `null` for "no value" if an API made a schema strict, and with it every optional parameter required. Clients
that validate a call against their own schema then reject it. Only top-level parameters are examined, so a stream is
not delayed: one parameter's name is held until its value is known to be `null` or not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from dragoman.canonical.events import TEXTS, BlockEnd, BlockStart, Delta, Event
from dragoman.canonical.parts import ToolCall
from dragoman.canonical.reply import Reply
from dragoman.canonical.request import Tool
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import loads

Nullable = Mapping[str, frozenset[str] | None]
"""Tool name → the parameters that accept null, or None if all do. A tool that is not listed accepts null nowhere."""

_NAME_MAX = 1024
"""Characters held back for one parameter's name; beyond them a call is passed on as it is."""
_PIECE = 4096
"""Characters looked at together: what follows a parameter is copied for each, which is quadratic in a long text."""
_NAME = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*:\s*(?=\S)', re.DOTALL)
_ENDED = re.compile(r"[,}\s]")
_OUTSIDE = re.compile(r'["{}\[\],]')
_INSIDE = re.compile(r'["\\]')
_ALL: frozenset[str] | None = None


def nullable(tools: list[Tool]) -> dict[str, frozenset[str] | None]:
    """Return the tools with parameters whose schema accepts null."""
    known: dict[str, frozenset[str] | None] = {}
    for tool in tools:
        schema = tool.schema
        declared = schema.get("properties") if schema is not None else None
        if type(declared) is not dict or not declared or (tool.namespace is not None and tool.name in known):
            known[tool.name] = _ALL
            continue
        found: list[str] = []
        for name, property_ in declared.items():
            # Nearly all properties look like this, and every tool is examined for each request.
            if type(property_) is dict and type(property_.get("type")) is str and "nullable" not in property_:
                if property_["type"] == "null":
                    found.append(name)
            elif _takes_null(property_):
                found.append(name)
        if found:
            known[tool.name] = frozenset(found)
    return known


def _takes_null(schema: Any) -> bool:
    """True if the schema accepts null, or if that is unknown (a reference, a combination)."""
    if type(schema) is not dict:
        return True
    kind = schema.get("type")
    if type(kind) is str:
        return kind == "null" or schema.get("nullable") is True
    if type(kind) is list:
        return "null" in kind
    if "enum" in schema:
        return type(schema["enum"]) is not list or None in schema["enum"]
    if "const" in schema:
        return schema["const"] is None
    for word in ("anyOf", "oneOf"):
        if type(choices := schema.get(word)) is list:
            return any(map(_takes_null, choices))
    return True


class NullTrimmer:
    """Removes the nulls from the calls of one streamed reply."""

    __slots__ = ("_losses", "_nullable", "_open")

    def __init__(self, known: Nullable, losses: Losses) -> None:
        self._nullable, self._losses = known, losses
        self._open: dict[int, ArgumentTrimmer] = {}

    def feed(self, events: list[Event]) -> list[Event]:
        """Return the events; those of a call have the rest of its arguments."""
        if not self._open:
            for event in events:
                if type(event) is BlockStart:
                    break
            else:
                return events
        out: list[Event] = []
        for event in events:
            self._pass(event, out)
        return out

    def _pass(self, event: Event, out: list[Event]) -> None:
        if isinstance(event, TEXTS):
            trimmer = self._open.get(event.index)
            if trimmer is not None:
                left = trimmer.feed(event.text)
                if left != event.text:
                    if left:
                        out.append(Delta(event.index, left))
                    return
        elif isinstance(event, BlockStart):
            if event.kind == "tool" and not event.custom:
                known = self._nullable.get(event.name, frozenset())
                if known is not None:
                    self._open[event.index] = ArgumentTrimmer(event.name, known, self._losses)
        elif isinstance(event, BlockEnd):
            trimmer = self._open.pop(event.index, None)
            if trimmer is not None and (held := trimmer.finish()):
                out.append(Delta(event.index, held))
        out.append(event)


def trim_reply(reply: Reply, known: Nullable, losses: Losses) -> None:
    """Remove the nulls from the calls of a complete reply, in place."""
    for part in reply.parts:
        if type(part) is ToolCall and not part.custom:
            takes = known.get(part.name, frozenset())
            if takes is not None and "null" in part.arguments:
                trimmer = ArgumentTrimmer(part.name, takes, losses)
                part.arguments = trimmer.feed(part.arguments) + trimmer.finish()


class _At(IntEnum):
    """The place of the next character in the arguments."""

    HEAD = 0
    NAME = 1
    VALUE = 2
    NULL = 3
    AFTER = 4
    REST = 5


class ArgumentTrimmer:
    """Removes the nulls from one call's arguments. Arguments that are not a JSON object are passed on unchanged."""

    __slots__ = (
        "_at",
        "_continued",
        "_depth",
        "_escaped",
        "_head",
        "_held",
        "_key",
        "_losses",
        "_name",
        "_nullable",
        "_text",
    )

    def __init__(self, name: str, takes_null: frozenset[str], losses: Losses) -> None:
        self._name, self._nullable, self._losses = name, takes_null, losses
        self._at = _At.HEAD
        self._held = ""
        """The parameter's name, or its value as far as it may be null."""
        self._head = ""
        self._key = ""
        self._continued = False
        """True once a parameter was passed on: the next one then needs a comma."""
        self._depth = 0
        self._text = False
        self._escaped = False

    def feed(self, text: str) -> str:
        """Take more of the arguments and return the part that can be passed on."""
        if self._text and not self._escaped and '"' not in text and "\\" not in text:
            return text  # within a long string, as of a file's content
        if len(text) > _PIECE:
            return "".join([self.feed(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE)])
        out: list[str] = []
        while text:
            at = self._at
            if at is _At.VALUE:
                text = self._value(text, out)
            elif at is _At.REST:
                out.append(text)
                break
            elif at is _At.NAME:
                text = self._parameter(text, out)
            elif at is _At.NULL:
                text = self._null(text, out)
            elif at is _At.AFTER:
                text = self._after(text, out)
            else:
                text = self._begin(text, out)
        return "".join(out)

    def finish(self) -> str:
        """Return what was held back of arguments that were cut off."""
        held, self._held = self._held, ""
        if self._at is _At.NAME and held:
            return self._comma() + held
        return self._comma() + self._head + held if self._at is _At.NULL else ""

    def _comma(self) -> str:
        return "," if self._continued else ""

    def _begin(self, text: str, out: list[str]) -> str:
        inside = text.lstrip()
        if not inside:
            out.append(text)
            return ""
        self._at = _At.NAME if inside[0] == "{" else _At.REST
        if self._at is _At.REST:
            return text
        out.append(text[: len(text) - len(inside) + 1])
        return inside[1:]

    def _parameter(self, text: str, out: list[str]) -> str:
        held = self._held + text
        found = _NAME.match(held)
        if found is None:
            begun = held.lstrip()
            if begun and (begun[0] != '"' or len(held) > _NAME_MAX):
                # The end of the object, or no JSON: either way there is nothing left to do.
                return self._give_up(held if begun[0] == "}" else self._comma() + held, out)
            self._held = held
            return ""
        self._held = ""
        self._key, self._head = _key(found[1]), found[0]
        value = held[found.end() :]
        if value[0] == "n" and self._key not in self._nullable:
            self._at = _At.NULL
            return value
        out.append(self._comma() + self._head)
        self._continued = True
        self._at, self._depth = _At.VALUE, 0
        return value

    def _null(self, text: str, out: list[str]) -> str:
        held = self._held + text
        ended = _ENDED.search(held)
        if ended is None and "null".startswith(held):
            self._held = held
            return ""
        self._held = ""
        if ended is None or held[: ended.start()] != "null":
            return self._give_up(self._comma() + self._head + held, out)
        self._losses.add(LossCode.NULL_ARGUMENT, (self._name, self._key), "left out")
        self._at = _At.AFTER
        return held[ended.start() :]

    def _after(self, text: str, out: list[str]) -> str:
        rest = text.lstrip()
        if not rest:
            return ""
        if rest[0] != ",":
            return self._give_up(rest, out)
        self._at = _At.NAME
        return rest[1:]

    def _give_up(self, held: str, out: list[str]) -> str:
        self._at = _At.REST
        out.append(held)
        return ""

    def _value(self, text: str, out: list[str]) -> str:
        """Pass the value on up to its end. Return the text after it."""
        at = 0
        while at < len(text):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_INSIDE if self._text else _OUTSIDE).search(text, at)
            if found is None:
                break
            at, char = found.end(), found[0]
            if char == "\\":
                self._escaped = True
            elif char == '"':
                self._text = not self._text
            elif char in "{[":
                self._depth += 1
            elif self._depth:
                self._depth -= char != ","
            else:
                # A comma is passed on with the parameter behind it, if that one is.
                self._at = _At.NAME if char == "," else _At.REST
                out.append(text[: at - 1] if char == "," else text[:at])
                return text[at:]
        out.append(text)
        return ""


def _key(raw: str) -> str:
    if "\\" not in raw:
        return raw
    try:
        key = loads(f'"{raw}"')
    except ValueError:
        return raw
    return key if type(key) is str else raw
