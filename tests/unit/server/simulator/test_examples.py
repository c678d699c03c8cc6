"""Example values satisfy the schemas that they are made from."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dragoman_server.simulator.examples import example_value

LIST: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#/$defs/list"}}, "required": ["next"]}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
    {"type": "string", "enum": ["b", "a"]},
    {"const": 3},
    {"anyOf": [{"type": "null"}, {"type": "number", "minimum": 4}]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
    {"type": "string", "format": "date-time"},
    {"type": ["string", "null"]},
    {"$defs": {"name": {"type": "string"}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/name"}}},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_an_example_is_valid(schema: dict[str, Any]) -> None:
    Draft202012Validator(schema).validate(example_value(schema))


def test_a_schema_that_repeats_itself_ends() -> None:
    value = example_value({"$defs": {"list": LIST}, **LIST})
    depth = 0
    while isinstance(value, dict):
        value, depth = value.get("next"), depth + 1
    assert 1 < depth < 100


def test_names_select_plausible_texts() -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("city", "cmd")}}
    assert example_value({**schema, "required": ["city", "cmd"]}) == {"city": "Oslo", "cmd": "echo hello"}
