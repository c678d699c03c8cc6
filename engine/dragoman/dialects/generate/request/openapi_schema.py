"""Converts JSON schemas to the subset of OpenAPI's that `parameters` and `responseSchema` take (profile `schemas`).

`Schema` in ai.google.dev/api/caching has few keywords, and a request with another one is rejected. What has no place is
left out: the client checks the arguments of a call itself.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object")
_SIZES: Final = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_KEPT: Final = frozenset(("title", "description", "required", "minimum", "maximum", "pattern", "default", *_SIZES))
"""The keywords that mean the same in both."""
_STEPS: Final = {"exclusiveMinimum": ("minimum", 1), "exclusiveMaximum": ("maximum", -1)}
"""Exclusive bounds: the inclusive one, and the step to it for an integer."""
_SILENT: Final = frozenset(("$schema", "$id", "$comment", "$defs", "definitions", "examples", "propertyOrdering"))
"""Keywords without an effect on what is valid."""
_FORMATS: Final = frozenset(("date-time", "enum", "int32", "int64", "float", "double"))
_KINDS: Final = frozenset(("type", "enum", "const", "anyOf", "oneOf", "nullable"))
"""The keywords that `_write_kind` reads."""


def to_openapi(schema: Json, at: Path, losses: Losses) -> Json:
    """Return the schema in OpenAPI's form. A row names the keywords that were left out."""
    dropped: dict[str, None] = {}
    written = _convert(schema, dropped)
    if dropped:
        losses.add(LossCode.SCHEMA_SANITISED, at, f"left out for OpenAPI: {', '.join(dropped)}")
    return written


def _convert(schema: Any, dropped: dict[str, None]) -> Json:
    """Return one schema. `true` and `{}` are any value, for which the form has no word but an empty schema."""
    if type(schema) is not dict:
        return {}
    schema = _merged(schema)
    written: Json = {}
    _write_kind(written, schema, dropped)
    for key, value in schema.items():
        if key in _KEPT or (key == "format" and type(value) is str and value in _FORMATS):
            written[key] = value
        elif key == "properties" and type(value) is dict:
            written[key] = {name: _convert(inner, dropped) for name, inner in value.items()}
        elif key == "items":
            written[key] = _convert(value, dropped)
        elif key in _STEPS and type(value) in (int, float):
            bound, step = _STEPS[key]
            written[bound] = value + step if schema.get("type") == "integer" else value
        elif key not in _KINDS and key not in _SILENT:
            dropped[key] = None
    return written


def _merged(schema: Json) -> Json:
    """Return the schema with the members of its `allOf` in it. Of two values of a keyword, the first counts."""
    if type(members := schema.get("allOf")) is not list:
        return schema
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for member in members:
        for key, value in _merged(member).items() if type(member) is dict else ():
            before = merged.get(key)
            if key == "properties" and type(before) is dict and type(value) is dict:
                merged[key] = {**value, **before}
            elif key == "required" and type(before) is list and type(value) is list:
                merged[key] = [*before, *(name for name in value if name not in before)]
            else:
                merged.setdefault(key, value)
    return merged


def _write_kind(written: Json, schema: Json, dropped: dict[str, None]) -> None:
    """Write what determines the kind of value: `type`, `enum`, `const` and unions."""
    kinds = schema.get("type")
    named = [kind for kind in kinds if kind != "null"] if type(kinds) is list else [kinds]
    if type(kinds) is list and "null" in kinds:
        written["nullable"] = True
    if len(named) == 1 and named[0] in _TYPES:
        written["type"] = named[0].upper()
    elif len(named) > 1:
        written["anyOf"] = [{"type": kind.upper()} for kind in named if kind in _TYPES]
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if type(choices) is list:
        texts = [choice for choice in choices if type(choice) is str]
        if len(texts) == len(choices):  # only strings can be listed
            written |= {"type": "STRING", "enum": texts}
        elif texts or None not in choices:
            dropped["enum"] = None
        if None in choices:
            written["nullable"] = True
    for key in ("anyOf", "oneOf"):
        if type(members := schema.get(key)) is list:
            inner = [member for member in members if member != {"type": "null"}]
            if len(inner) < len(members):
                written["nullable"] = True
            written["anyOf"] = [_convert(member, dropped) for member in inner]
