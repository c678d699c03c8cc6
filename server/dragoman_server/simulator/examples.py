"""Example values for JSON schemas: the simulated model's tool arguments and structured outputs."""

from __future__ import annotations

from typing import Any

PATCH = '*** Begin Patch\n*** Add File: notes.txt\n+print("Grüße \\n 👋🏽")\n*** End Patch\n'
"""Input of a free-text tool, with characters that must be escaped in JSON."""

_TEXT_BY_NAME: dict[str, str] = {
    "city": "Oslo",
    "cmd": "echo hello",
    "code": "print('hello')",
    "command": "echo hello",
    "country": "Norway",
    "date": "2026-11-21",
    "email": "ada@example.com",
    "file_path": "/tmp/notes.txt",
    "input": PATCH,
    "location": "Oslo",
    "name": "Ada",
    "path": "notes.txt",
    "pattern": "hello",
    "query": "weather in Oslo",
    "timezone": "CET",
    "tz": "CET",
    "unit": "celsius",
    "url": "https://example.com/",
}
_TEXT_BY_FORMAT: dict[str, str] = {
    "date": "2026-11-21",
    "date-time": "2026-11-21T12:00:00Z",
    "email": "ada@example.com",
    "ipv4": "192.0.2.1",
    "time": "12:00:00Z",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000001",
}
_DEEPEST = 12
"""Maximum depth in recursive schemas; from half of it on, arrays are empty."""


def example_value(schema: Any, name: str = "", *, root: Any = None, depth: int = 0) -> Any:
    """Return a value that satisfies the types, enums, bounds and required properties of `schema`.

    `name` is the property's name, which selects a plausible text. Patterns are ignored.
    """
    if not isinstance(schema, dict):
        return f"{name or 'text'}"
    root = schema if root is None else root
    if "$ref" in schema and depth < _DEEPEST:
        return example_value(_resolve(root, schema["$ref"]), name, root=root, depth=depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return example_value(_first_not_null(schema[key]), name, root=root, depth=depth + 1)
    if schema.get("allOf"):
        return example_value(_merged(schema, root), name, root=root, depth=depth + 1)
    match _kind(schema):
        case "object":
            return _object(schema, root, depth)
        case "array":
            return _array(schema, name, root, depth)
        case "integer":
            return int(_number(schema))
        case "number":
            return _number(schema)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _text(schema, name)


def _kind(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "null")
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
    return str(kind)


def _object(schema: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    children = properties if isinstance(properties, dict) else {}
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return {name: example_value(children.get(name, {}), name, root=root, depth=depth + 1) for name in names}


def _array(schema: dict[str, Any], name: str, root: Any, depth: int) -> list[Any]:
    count = max(int(schema.get("minItems", 0)), 0 if depth >= _DEEPEST // 2 else 1)
    count = min(count, int(schema.get("maxItems", count)))
    items = schema.get("items", {})
    return [example_value(items, name, root=root, depth=depth + 1) for _ in range(count)]


def _number(schema: dict[str, Any]) -> float | int:
    low = schema.get("minimum")
    if low is None and (over := schema.get("exclusiveMinimum")) is not None:
        low = over + 1
    if low is None:
        low = min(1, schema.get("maximum", 1))
    return low if isinstance(low, (int, float)) else 1


def _text(schema: dict[str, Any], name: str) -> str:
    text = _TEXT_BY_FORMAT.get(str(schema.get("format"))) or _TEXT_BY_NAME.get(name.lower(), "example")
    text = text.ljust(int(schema.get("minLength", 0)), "x")
    return text[: int(schema.get("maxLength", len(text)))]


def _first_not_null(options: list[Any]) -> Any:
    return next((o for o in options if not (isinstance(o, dict) and o.get("type") == "null")), options[0])


def _merged(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    merged: dict[str, Any] = {k: v for k, v in schema.items() if k != "allOf"}
    merged["properties"] = dict(merged.get("properties") or {})
    merged["required"] = list(merged.get("required") or [])
    for part in schema["allOf"]:
        solid = _resolve(root, part["$ref"]) if isinstance(part, dict) and "$ref" in part else part
        if isinstance(solid, dict):
            merged["properties"].update(solid.get("properties") or {})
            merged["required"].extend(solid.get("required") or [])
            if "type" in solid:
                merged.setdefault("type", solid["type"])
    return merged


def _resolve(root: Any, reference: str) -> Any:
    """Return the target of a local reference such as `#/$defs/Point`, or {} for an unknown one."""
    target = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if not part:
            continue
        target = target.get(part.replace("~1", "/").replace("~0", "~"), {}) if isinstance(target, dict) else {}
    return target
