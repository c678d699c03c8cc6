"""Keywords of a schema that an upstream rejects or does not enforce."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.request import Json
from dragoman.errors import Unsupported
from dragoman.policies.schema_keywords import NODES, SchemaTree, is_complete
from dragoman.policies.schema_union import SizeBudget
from support.canonical_turns import translated

PATH: Json = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
URL: Json = {
    "type": "object",
    "properties": {"url": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["url"],
}


def messages_body(schema: Json, **tool: Any) -> Json:
    """A Messages client with one tool."""
    tools = [{"name": "open", "input_schema": schema, **tool}]
    return {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}], "tools": tools}


def sent_schema(upstream: str, body: Json) -> Any:
    tool = body["tools"][0]
    return tool["input_schema"] if upstream == "messages" else tool.get("function", tool)["parameters"]


DEEP: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "pattern": "^a", "enum": ["pattern"]},
        "many": {"type": "array", "items": {"anyOf": [{"pattern": "b"}, {"default": {"pattern": "kept"}}]}},
    },
    "additionalProperties": {"pattern": "c"},
}


def test_T43_refused_keywords_are_left_out_wherever_they_are_keywords() -> None:
    flags = {"schema_refused": ["$schema", "pattern"]}
    body, made = translated("messages", "chat", messages_body(DEEP), flags=flags)
    assert sent_schema("chat", body) == {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "enum": ["pattern"]},
            "many": {"type": "array", "items": {"anyOf": [{}, {"default": {"pattern": "kept"}}]}},
        },
        "additionalProperties": {},
    }
    done = [row.done for row in made.losses.rows]
    assert done == ["left out $schema", "left out pattern (3 times)"]


def test_nothing_is_changed_that_is_accepted() -> None:
    body, made = translated("messages", "chat", messages_body(DEEP), profile="compatible")
    assert sent_schema("chat", body) == DEEP
    assert not made.losses


TREE: Json = {
    "type": "object",
    "properties": {
        "root": {"$ref": "#/$defs/node", "description": "the first"},
        "other": {"$ref": "#/definitions/a~1b"},
    },
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "description": "one"}},
    "definitions": {"a/b": {"type": "string"}},
}


def test_references_are_written_out_where_they_are_refused() -> None:
    body, made = translated("messages", "chat", messages_body(TREE), flags={"schema_refs": False})
    assert sent_schema("chat", body) == {
        "type": "object",
        "properties": {
            "root": {"type": "object", "properties": {"next": {"type": "object"}}, "description": "the first"},
            "other": {"type": "string"},
        },
    }
    done = {row.done for row in made.losses.rows}
    assert done == {"wrote out a $ref (2 times)", "a $ref to itself became any object"}


def test_a_schema_that_grows_too_large_is_refused_by_name() -> None:
    defs: Json = {f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "abcd"}} for n in range(9)}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, "d9": {}}}
    with pytest.raises(Unsupported, match=f"tools\\[0\\].*over {NODES} parts"):
        translated("messages", "chat", messages_body(schema), flags={"schema_refs": False})


@pytest.mark.parametrize(
    ("schema", "complete"),
    [
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({**PATH, "additionalProperties": False}, True),
        (PATH, False),
        ({**URL, "additionalProperties": False}, False),
        ({"type": "array", "items": PATH}, False),
        ({"anyOf": [{"type": "string"}, PATH]}, False),
        ({"$defs": {"p": PATH}}, False),
        ({"enum": [PATH]}, True),
    ],
)
def test_what_is_complete(schema: Json, complete: bool) -> None:
    assert is_complete(schema) is complete


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ({"minItems": 1}, {"minItems": 1}),
        ({"minItems": 2}, {"description": "{minItems: 2}"}),
        ({"format": "uuid"}, {"format": "uuid"}),
        ({"format": "regex", "description": "d"}, {"description": "d\n\n{format: regex}"}),
        ({"items": [True]}, {"items": [True]}),
    ],
)
def test_keywords_of_a_strict_schema(schema: Json, written: Json) -> None:
    tree = SchemaTree(
        schema, (), SizeBudget(), refused=("oneOf", "minItems", "format"), strict=True, refs=True, closed=True
    )
    assert tree.rewritten() == written
