"""A choice at the root of a schema becomes one object of all properties."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dragoman.canonical.request import Json
from dragoman.errors import Unsupported
from dragoman.losses import LossCode
from dragoman.policies.schema_union import SizeBudget, one_object
from support.canonical_turns import translated

PATH: Json = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
URL: Json = {
    "type": "object",
    "properties": {"url": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["url"],
}
WORDS = "Give the properties of one of these sets: `path`; or `url`."


def chat_body(schema: Json, **function: Any) -> Json:
    """A Chat client with one tool."""
    tool = {"type": "function", "function": {"name": "open", "parameters": schema, **function}}
    return {"model": "m", "messages": [{"role": "user", "content": "go"}], "tools": [tool]}


def messages_body(schema: Json, **tool: Any) -> Json:
    """A Messages client with one tool."""
    tools = [{"name": "open", "input_schema": schema, **tool}]
    return {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}], "tools": tools}


def sent_schema(upstream: str, body: Json) -> Any:
    tool = body["tools"][0]
    return tool["input_schema"] if upstream == "messages" else tool.get("function", tool)["parameters"]


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_T43_a_choice_at_the_root_becomes_one_object(word: str, upstream: str) -> None:
    schema = {"type": "object", "description": "Opens.", word: [PATH, URL]}
    given = messages_body(schema) if upstream != "messages" else chat_body(schema)
    body, made = translated("chat" if upstream == "messages" else "messages", upstream, given)
    assert sent_schema(upstream, body) == {
        "type": "object",
        "description": f"Opens.\n\n{WORDS}",
        "properties": {"path": {"type": "string"}, "url": {"type": "string"}, "depth": {"type": "integer"}},
    }
    rows = [(row.path, row.done) for row in made.losses.rows if row.code is LossCode.SCHEMA_SANITISED]
    assert rows == [("tools[0]", f"its root ({word}) became one object of all properties")]


def test_a_compatible_chat_server_judges_for_itself() -> None:
    schema = {"type": "object", "properties": {}, "anyOf": [PATH, URL]}
    body, made = translated("messages", "chat", messages_body(schema), profile="compatible")
    assert sent_schema("chat", body) == schema
    assert LossCode.SCHEMA_SANITISED not in made.losses.counts


@pytest.mark.parametrize(
    ("schema", "flat"),
    [
        pytest.param(
            {"allOf": [PATH, URL]},
            {"properties": {**PATH["properties"], **URL["properties"]}, "required": ["path", "url"]},
            id="all of them",
        ),
        pytest.param(
            {"properties": {"a": {}}, "required": ["a"], "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
            {
                "properties": {"a": {}},
                "required": ["a"],
                "description": "Give the properties of one of these sets: `b`; or `c`.",
            },
            id="required only",
        ),
        pytest.param(
            {"$ref": "#/$defs/p", "$defs": {"p": PATH}},
            {"$defs": {"p": PATH}, "properties": PATH["properties"], "required": ["path"]},
            id="a reference",
        ),
        pytest.param(
            {"oneOf": [{"$ref": "#/$defs/p"}, {"anyOf": [PATH, {"type": "object"}]}], "$defs": {"p": PATH}},
            {"$defs": {"p": PATH}, "properties": PATH["properties"]},
            id="choices in choices",
        ),
        pytest.param(
            {
                "oneOf": [
                    {"properties": {"kind": {"const": "a"}}, "required": ["kind"], "additionalProperties": False},
                    {"properties": {"kind": {"const": "b"}}, "required": ["kind"], "additionalProperties": False},
                ]
            },
            {
                "properties": {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}},
                "required": ["kind"],
                "additionalProperties": False,
            },
            id="told apart by a property",
        ),
        pytest.param(
            {"properties": {"a": {"minimum": 1}}, "allOf": [{"properties": {"a": {"maximum": 5}}}]},
            {"properties": {"a": {"allOf": [{"minimum": 1}, {"maximum": 5}]}}},
            id="a property of both",
        ),
        pytest.param({"properties": {}, "not": {"required": ["a"]}}, {"properties": {}}, id="what is forbidden"),
    ],
)  # fmt: skip
def test_what_the_one_object_allows(schema: Json, flat: Json) -> None:
    before = copy.deepcopy(schema)
    assert one_object(schema, SizeBudget()) == {"type": "object", **flat}
    assert schema == before


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [PATH, {"type": "string"}]},
        {"anyOf": [PATH, True]},
        {"anyOf": []},
        {"oneOf": PATH},
        {"$ref": "https://a.example/schema"},
        {"$ref": "#/$defs/gone", "$defs": {}},
        {"$ref": "#"},
        {"type": "array", "anyOf": [PATH]},
    ],
)
def test_a_root_that_is_no_object_is_left_for_the_writer_to_refuse(schema: Json) -> None:
    assert one_object(schema, SizeBudget()) is None
    if "anyOf" in schema:
        with pytest.raises(Unsupported, match="tools\\[0\\]"):
            translated("chat", "messages", chat_body(schema))


def test_choices_that_multiply_are_not_followed_for_ever() -> None:
    defs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 4} for n in range(40)}
    assert one_object({"$ref": "#/$defs/d0", "$defs": {**defs, "d40": PATH}}, SizeBudget()) is None


def test_the_same_schema_always_becomes_the_same_bytes() -> None:
    given = chat_body({"oneOf": [PATH, URL], "$defs": {"b": {}, "a": {}}})
    assert translated("chat", "messages", given)[1].body == translated("chat", "messages", given)[1].body
