"""Rewrites a JSON schema: drops or describes keywords, expands references, closes objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.errors import Path, Unsupported
from dragoman.policies.schema_union import SizeBudget, add_description, resolve, strings
from dragoman.wire.json_codec import dumps

_OF_NAMES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value has schemas by names, which are no keywords."""
_OF_MANY: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_OF_ONE: Final = frozenset({
    "items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_TAKEN: Final[dict[str, frozenset[Any]]] = {
    "minItems": frozenset({0, 1}),
    "format": frozenset({
        "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
    }),
}  # fmt: skip
"""Values of a refused keyword that strict schemas may have all the same (as the vendor's own SDK has it)."""

NODES: Final = 20_000
"""Most schemas in one, once its references are written out."""


class SchemaTree:
    """Rewrites one schema; `changes` counts the changes, by their description.

    `refused` keywords are dropped; those of a `strict` schema are put into the description. Without `refs` each `$ref`
    is replaced by its target, up to the size budget `room`. With `closed` no object takes further properties. Raises
    `Unsupported` if the schema grows too large.
    """

    def __init__(
        self,
        root: Json,
        at: Path,
        room: SizeBudget,
        *,
        refused: Collection[str],
        strict: bool,
        refs: bool,
        closed: bool,
    ) -> None:
        self._root, self._at, self._room = root, at, room
        self._refused, self._strict, self._refs, self._closed = refused, strict, refs, closed
        self._left = NODES
        self.changes: Counter[str] = Counter()

    def rewritten(self) -> Json:
        """The schema to send; the one given stays as it is."""
        written: Json = self._schema(self._root, ())
        return written

    def _schema(self, schema: Any, inside: tuple[str, ...]) -> Any:
        if type(schema) is not dict:
            return schema
        self._left -= 1
        if self._left < 0:
            raise Unsupported(
                self._at, f"its schema has over {NODES} parts with its references written out; make it smaller"
            )
        reference = schema.get("$ref")
        if reference is not None and not self._refs:
            return self._named(schema, reference, inside)
        out: Json = {}
        described: list[str] = []
        for key, value in schema.items():
            if key in self._refused and not (self._strict and _is_taken(key, value)):
                if key == "oneOf" and "anyOf" not in schema:
                    self.changes["oneOf became anyOf"] += 1
                    out["anyOf"] = [self._schema(one, inside) for one in value] if type(value) is list else value
                    continue
                self.changes[f"left out {key}"] += 1
                if self._strict:
                    described.append(f"{key}: {_word(value)}")
            elif not self._refs and key in _DEFINITIONS:
                continue  # all references were expanded
            else:
                out[key] = self._value(key, value, inside)
        if described:
            add_description(out, "{" + ", ".join(described) + "}")
        if self._closed and _is_open(out):
            out["additionalProperties"] = False
            self.changes["closed an object"] += 1
        return out

    def _value(self, key: str, value: Any, inside: tuple[str, ...]) -> Any:
        if type(value) is dict:
            if key in _OF_NAMES:
                return {name: self._schema(schema, inside) for name, schema in value.items()}
            if key in _OF_ONE:
                return self._schema(value, inside)
        elif type(value) is list and key in _OF_MANY:
            return [self._schema(schema, inside) for schema in value]
        return value

    def _named(self, schema: Json, reference: Any, inside: tuple[str, ...]) -> Any:
        """Return the target of a reference with its sibling keywords; an open object if the reference is recursive."""
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        named = resolve(self._root, reference)
        if named is not None and not self._room.takes(named):
            raise Unsupported(
                self._at, "the schemas of this request grow too large with their references written out; use fewer"
            )
        if named is None or reference in inside:
            self.changes["a $ref to itself became any object" if named else "left out a $ref without its target"] += 1
            return self._schema({"type": "object", **siblings} if named else siblings, inside)
        self.changes["wrote out a $ref"] += 1
        return self._schema({**named, **siblings}, (*inside, reference))


def is_complete(schema: Any) -> bool:
    """True if every object is closed and every property required, as OpenAI requires of strict schemas."""
    if type(schema) is not dict:
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties")
        if schema.get("additionalProperties") is not False:
            return False
        if type(properties) is dict and set(properties) != set(strings(schema.get("required"))):
            return False
    for key, value in schema.items():
        if type(value) is dict and key in _OF_NAMES:
            inner = list(value.values())
        elif type(value) is dict and key in _OF_ONE:
            inner = [value]
        elif type(value) is list and key in _OF_MANY:
            inner = value
        else:
            continue
        if not all(map(is_complete, inner)):
            return False
    return True


def _is_open(schema: Json) -> bool:
    return (schema.get("type") == "object" or "properties" in schema) and schema.get(
        "additionalProperties"
    ) is not False


def _is_taken(key: str, value: Any) -> bool:
    taken = _TAKEN.get(key)
    return taken is not None and type(value) in (int, str) and value in taken


def _word(value: Any) -> str:
    return value if type(value) is str else dumps(value).decode()
