"""Merges a tool schema whose root is a union of objects into one object (mapping §6.1).

OpenAI and Anthropic reject `anyOf`, `oneOf`, `allOf` and similar keywords at the root, and with them the whole request.
The merged object allows everything that the union allowed, and more: the tool's own check finds the rest. Its
description lists the properties that go together.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.wire.json_codec import canonical_json

ROOT_WORDS: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "enum", "$ref"})
"""Keywords that vendors reject at the root."""
_SCHEMAS: Final = 500
"""Maximum of alternatives, nested ones included, that are merged."""


WRITTEN_OUT: Final = 400_000
"""Maximum size that expanded references may add to one request, in JSON values and pieces of 16 characters. A few
hundred bytes of schemas that refer to each other can expand to gigabytes."""


class SizeBudget:
    """The size that expanded references may still add to the schemas of one request."""

    def __init__(self) -> None:
        self.left = WRITTEN_OUT
        self._known: dict[int, tuple[Any, int]] = {}
        """Identity of a value → the value, which must live as long as its identity is known here, and its size."""

    def takes(self, named: Json) -> bool:
        """Take room for what a reference names. False if there is not enough."""
        self.left -= self._size(named)
        return self.left >= 0

    def _size(self, value: Any) -> int:
        if type(value) is str:
            return 1 + len(value) // 16
        if type(value) is not dict and type(value) is not list:
            return 1
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        size = 1 + sum(map(self._size, value))
        if type(value) is dict:
            size += sum(map(self._size, value.values()))
        self._known[id(value)] = value, size
        return size


def one_object(schema: Json, room: SizeBudget) -> Json | None:
    """The object in place of a root with any of `ROOT_WORDS`, or None where one of its choices is no object or what
    its references name is too large."""
    return _Flattening(schema, room).flat(schema)


def resolve(root: Json, reference: Any) -> Json | None:
    """Return the schema that a `$ref` inside `root` points to; None if it is not a schema there."""
    if type(reference) is not str or not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if type(found) is not dict or step not in found:
            return None
        found = found[step]
    return found if type(found) is dict else None


class _Flattening:
    """The one schema that is made an object; `left` bounds how much of it is followed."""

    def __init__(self, root: Json, room: SizeBudget) -> None:
        self._root, self._room = root, room
        self._left = _SCHEMAS

    def flat(self, schema: Any) -> Json | None:
        """`schema` as an object without any of the words at its root."""
        self._left -= 1
        if type(schema) is not dict or schema.get("type", "object") != "object" or self._left < 0:
            return None
        if ROOT_WORDS.isdisjoint(schema):
            return {"type": "object", **schema}
        flat: Json = {"type": "object"}
        for key, value in schema.items():
            if key not in ROOT_WORDS:
                flat[key] = value
        flat["properties"] = dict(_dict(schema.get("properties")))
        if "$ref" in schema:
            target = resolve(self._root, schema["$ref"])
            if target is None or not self._room.takes(target) or (named := self.flat(target)) is None:
                return None
            _join(flat, [named], every=True)
        for word in ("allOf", "anyOf", "oneOf"):
            if word not in schema:
                continue
            objects = self._branches(schema[word])
            if objects is None:
                return None
            _join(flat, objects, every=word == "allOf")
        return flat

    def _branches(self, branches: Any) -> list[Json] | None:
        if type(branches) is not list or not branches:
            return None
        objects: list[Json] = []
        for branch in branches:
            if (flat := self.flat(branch)) is None:
                return None
            objects.append(flat)
        return objects


def _join(flat: Json, objects: list[Json], *, every: bool) -> None:
    """Add to `flat` what `every` one of `objects` demands, or what any of them allows."""
    properties = flat["properties"]
    for name, choices in _properties(objects).items():
        if name in properties:
            # The root's own word holds for every choice.
            choices = [properties[name], *(choice for choice in choices if choice != properties[name])]
            properties[name] = choices[0] if len(choices) == 1 else {"allOf": choices} if every else choices[0]
        else:
            properties[name] = choices[0] if len(choices) == 1 else {"allOf" if every else "anyOf": choices}
    wanted = [strings(branch.get("required")) for branch in objects]
    common = None if every else frozenset(wanted[0]).intersection(*wanted[1:])
    shared = [name for names in wanted for name in names if common is None or name in common]
    required = list(dict.fromkeys([*strings(flat.get("required")), *shared]))
    if required:
        flat["required"] = required
    if not every:
        if "additionalProperties" not in flat and all(
            branch.get("additionalProperties") is False for branch in objects
        ):
            flat["additionalProperties"] = False
        _note(flat, wanted)
    for branch in objects if every else ():
        for key, value in branch.items():
            if key not in ("properties", "required"):
                flat.setdefault(key, value)


def _properties(objects: list[Json]) -> dict[str, list[Any]]:
    """Each property's different schemas."""
    found: dict[str, dict[bytes, Any]] = {}
    for branch in objects:
        for name, schema in _dict(branch.get("properties")).items():
            found.setdefault(name, {}).setdefault(canonical_json(schema), schema)
    return {name: list(choices.values()) for name, choices in found.items()}


def _note(flat: Json, wanted: list[list[str]]) -> None:
    """Describe the sets of properties that went together."""
    sets = list(dict.fromkeys(", ".join(f"`{name}`" for name in names) for names in wanted if names))
    if len(sets) < 2:
        return
    add_description(flat, f"Give the properties of one of these sets: {'; or '.join(sets)}.")


def _dict(value: Any) -> Json:
    return value if type(value) is dict else {}


def strings(value: Any) -> list[str]:
    """Return the strings of a list; none of any other value."""
    return [name for name in value if type(name) is str] if type(value) is list else []


def add_description(schema: Json, text: str) -> None:
    before = schema.get("description")
    schema["description"] = f"{before}\n\n{text}" if type(before) is str and before else text
