"""A tool's schema whose root is a choice between objects, as one object (mapping §6.1).

OpenAI and Anthropic refuse `anyOf`, `oneOf`, `allOf` and kin there, and a tool declared with one is lost with the whole
request. The object that takes their place allows all that they allowed, and more: the tool's own check says the rest,
and its description says which properties go together.
"""

from __future__ import annotations

from typing import Any, Final

from ..model import Json

ROOT_WORDS: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "enum", "$ref"})
"""What may not stand at the root."""
_SCHEMAS: Final = 500
"""Most choices, with those inside of them, that are put together."""


def one_object(schema: Json) -> Json | None:
    """The object in place of a root with any of `ROOT_WORDS`, or None where one of its choices is no object."""
    return _Flattening(schema).flat(schema)


def resolve(root: Json, reference: Any) -> Json | None:
    """What a `$ref` inside of `root` names; None for anything but a schema in it."""
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

    __slots__ = ("_left", "_root")

    def __init__(self, root: Json) -> None:
        self._root = root
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
            named = self.flat(resolve(self._root, schema["$ref"]))
            if named is None:
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
    wanted = [_list(branch.get("required")) for branch in objects]
    shared = [name for names in wanted for name in names if every or all(name in other for other in wanted)]
    required = list(dict.fromkeys([*_list(flat.get("required")), *shared]))
    if required:
        flat["required"] = required
    if not every:
        if "additionalProperties" not in flat and all(
            branch.get("additionalProperties") is False for branch in objects
        ):
            flat["additionalProperties"] = False
        _tell(flat, wanted)
    for branch in objects if every else ():
        for key, value in branch.items():
            if key not in ("properties", "required"):
                flat.setdefault(key, value)


def _properties(objects: list[Json]) -> dict[str, list[Any]]:
    """Each property's different schemas."""
    found: dict[str, list[Any]] = {}
    for branch in objects:
        for name, schema in _dict(branch.get("properties")).items():
            choices = found.setdefault(name, [])
            if schema not in choices:
                choices.append(schema)
    return found


def _tell(flat: Json, wanted: list[list[str]]) -> None:
    """Say in words which properties went together."""
    sets = list(dict.fromkeys(", ".join(f"`{name}`" for name in names) for names in wanted if names))
    if len(sets) < 2:
        return
    told = f"Give the properties of one of these sets: {'; or '.join(sets)}."
    before = flat.get("description")
    flat["description"] = f"{before}\n\n{told}" if type(before) is str and before else told


def _dict(value: Any) -> Json:
    return value if type(value) is dict else {}


def _list(value: Any) -> list[str]:
    return [name for name in value if type(name) is str] if type(value) is list else []
