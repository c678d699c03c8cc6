"""Tools with parameters that the model encrypts: `"encrypted": true` in a schema, as Codex declares for sub-agents.

Only OpenAI's models encrypt them. Other upstreams get the schemas without the keyword, and the calls of these tools are
marked as plain text in the client's reply (`encrypted_function_args: []`): Codex takes any other call for ciphertext.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Tool
from dragoman.wire.json_codec import dumps

KEYWORD: Final = "encrypted"
_QUOTED: Final = f'"{KEYWORD}"'.encode()
_NAMED: Final = ("properties", "$defs", "definitions")
"""Keywords whose value is an object of schemas."""
_SINGLE: Final = ("items", "additionalProperties")
_LISTED: Final = ("anyOf", "oneOf", "allOf")


def remove_encryption(tools: list[Tool]) -> frozenset[tuple[str | None, str]]:
    """Remove the keyword from the schemas of `tools`, in place, without changing the client's own objects.

    Return namespace and name of each tool that had it.
    """
    found: set[tuple[str | None, str]] = set()
    for tool in tools:
        if tool.schema is None or _QUOTED not in dumps(tool.schema):  # a third of the walk's time
            continue
        plain = _without(tool.schema)
        if plain is not tool.schema:
            tool.schema = plain
            found.add((tool.namespace.name if tool.namespace is not None else None, tool.name))
    return frozenset(found)


def _without(schema: Any) -> Any:
    """Return the schema without the keyword: the same object if it does not have it."""
    if type(schema) is not dict:
        return schema
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        plain = value
        if key in _NAMED and type(value) is dict:
            plain = {name: _without(inner) for name, inner in value.items()}
            if all(plain[name] is inner for name, inner in value.items()):
                continue
        elif key in _SINGLE:
            plain = _without(value)
        elif key in _LISTED and type(value) is list:
            plain = [_without(inner) for inner in value]
            if all(new is old for new, old in zip(plain, value, strict=True)):
                continue
        if plain is not value:
            changed[key] = plain
    if not changed and schema.get(KEYWORD) is not True:
        return schema
    return {key: changed.get(key, value) for key, value in schema.items() if key != KEYWORD or value is not True}
