"""Common rules of the OpenAI dialects: names, schemas, numbers and strings within bounds.

Each function raises RequestRejected for a value that does not satisfy its rule.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json

EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
VERBOSITIES = frozenset({"low", "medium", "high"})
_NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")
_COMBINERS = ("oneOf", "anyOf", "allOf", "enum", "not")


def words(text: str) -> frozenset[str]:
    """Return the set of words of a text."""
    return frozenset(text.split())


def known_keys(value: Json, known: frozenset[str], at: str = "") -> None:
    """Reject keys that the API does not define."""
    for key in value:
        if key not in known:
            path = f"{at}.{key}" if at else key
            raise RequestRejected(f"Unknown parameter: '{path}'.", path, "unknown_parameter")


def string(value: Any, at: str, longest: int | None = None) -> str:
    """Return the value if it is a string of at most `longest` characters."""
    if not isinstance(value, str):
        raise RequestRejected(f"Invalid type for '{at}': expected a string.", at, "invalid_type")
    if longest is not None and len(value) > longest:
        why = f"Invalid '{at}': string too long. Expected a string with maximum length {longest}."
        raise RequestRejected(why, at, "string_above_max_length")
    return value


def array(value: Any, at: str, *, least: int = 0) -> list[Any]:
    """Return the value if it is an array of at least `least` members."""
    if not isinstance(value, list):
        raise RequestRejected(f"Invalid type for '{at}': expected an array.", at, "invalid_type")
    if len(value) < least:
        raise RequestRejected(
            f"Invalid '{at}': empty array. Expected an array with minimum length 1.", at, "empty_array"
        )
    return value


def object_(value: Any, at: str) -> Json:
    """Return the value if it is an object."""
    if not isinstance(value, dict):
        raise RequestRejected(f"Invalid type for '{at}': expected an object.", at, "invalid_type")
    return value


def required(holder: Json, key: str, at: str = "") -> Any:
    """Return the value of a required key."""
    path = f"{at}.{key}" if at else key
    if key not in holder:
        raise RequestRejected(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
    return holder[key]


def word(value: Any, allowed: frozenset[str], at: str) -> None:
    """Accept one of the allowed words, or null."""
    if value is not None and (not isinstance(value, str) or value not in allowed):
        why = f"Invalid value: '{value}'. Supported values are: {', '.join(sorted(allowed))}."
        raise RequestRejected(why, at, "invalid_value")


def number(body: Json, key: str, low: float, high: float | None = None, *, whole: bool = False) -> None:
    """Accept a number within bounds, or null."""
    value = body.get(key)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise RequestRejected(f"Invalid type for '{key}': expected a number.", key, "invalid_type")
    if value < low:
        why = f"Invalid '{key}': integer below minimum value. Expected a value >= {low}, but got {value} instead."
        raise RequestRejected(why, key, "integer_below_min_value" if whole else "decimal_below_min_value")
    if high is not None and value > high:
        why = f"Invalid '{key}': above maximum value. Expected a value <= {high}, but got {value} instead."
        raise RequestRejected(why, key, "integer_above_max_value" if whole else "decimal_above_max_value")


def flag(body: Json, key: str) -> None:
    """Accept a boolean, or null."""
    if not isinstance(body.get(key), (bool, type(None))):
        raise RequestRejected(f"Invalid type for '{key}': expected a boolean.", key, "invalid_type")


def name(value: Any, at: str, longest: int) -> str:
    """Return the value if it is a valid name of a tool or format."""
    text = string(value, at, longest)
    if not _NAME.match(text):
        why = f"Invalid '{at}': string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]+$'."
        raise RequestRejected(why, at, "invalid_value")
    return text


def metadata(body: Json) -> None:
    """Accept at most 16 pairs of strings, with keys of up to 64 and values of up to 512 characters."""
    if body.get("metadata") is None:
        return
    pairs = object_(body["metadata"], "metadata")
    if len(pairs) > 16:
        raise RequestRejected("Invalid 'metadata': too many properties.", "metadata", "object_above_max_properties")
    for key, value in pairs.items():
        string(key, "metadata", 64)
        string(value, f"metadata.{key}", 512)


def function_schema(schema: Any, function: str, at: str, *, strict: bool) -> None:
    """Accept an object schema without combiners at its root; with `strict`, every object must be closed."""
    if schema is None:
        return
    root = object_(schema, at)
    fault = None
    if root and root.get("type") != "object":
        fault = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{root.get('type')}\"'."
    elif any(key in root for key in _COMBINERS):
        fault = "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
    elif strict:
        fault = _strict_problem(root, ())
    if fault:
        raise RequestRejected(f"Invalid schema for function '{function}': {fault}", at, "invalid_function_parameters")


def format_schema(schema: Any, label: str, at: str, *, strict: bool) -> None:
    """Accept the schema of a structured output."""
    root = object_(schema, at)
    fault = _strict_problem(root, ()) if strict else None
    if fault:
        raise RequestRejected(f"Invalid schema for response_format '{label}': {fault}", at, "invalid_json_schema")


def _strict_problem(schema: Any, context: tuple[str, ...]) -> str | None:
    """Return the reason why a schema is not valid in strict mode, or None."""
    if not isinstance(schema, dict):
        return None
    properties, named = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(named, list):
        return f"In context={context}, 'properties' must be an object and 'required' an array."
    if schema.get("type") == "object" or properties:
        if schema.get("additionalProperties") is not False:
            return f"In context={context}, 'additionalProperties' is required to be supplied and to be false."
        missing = [key for key in properties if key not in named]
        if missing:
            return f"In context={context}, 'required' must include every key in properties. Missing '{missing[0]}'."
    for key, child in properties.items():
        if fault := _strict_problem(child, (*context, "properties", key)):
            return fault
    for option in array(schema.get("anyOf", []), "schema.anyOf"):
        if fault := _strict_problem(option, (*context, "anyOf")):
            return fault
    return _strict_problem(schema.get("items"), (*context, "items"))
