"""Schemas are changed to what the upstream takes, where its profile says that it refuses them (T-43; mapping §6.1)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dragoman.canonical.request import Json
from dragoman.errors import Unsupported
from dragoman.losses import LossCode
from dragoman.policies.schema_keywords import NODES, SchemaTree, is_complete
from dragoman.policies.schema_union import SizeBudget, one_object
from support.spoken import translated

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


# --- the root ---------------------------------------------------------------------------------------------------------


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


# --- keywords and references ------------------------------------------------------------------------------------------

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
    told = [row.done for row in made.losses.rows]
    assert told == ["left out $schema", "left out pattern (3 times)"]


def test_nothing_is_touched_that_nobody_refuses() -> None:
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


# --- strict schemas ---------------------------------------------------------------------------------------------------

LOOSE: Json = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0, "description": "in years"}, "name": {"type": "string"}},
    "required": ["age"],
}


def test_an_answers_schema_for_messages_is_closed_and_its_limits_are_told_in_words() -> None:
    """As the vendor's own SDK does it."""
    form = {"type": "json_schema", "json_schema": {"name": "p", "schema": LOOSE, "strict": True}}
    given = {"model": "m", "messages": [{"role": "user", "content": "go"}], "response_format": form}
    body, made = translated("chat", "messages", given)
    assert body["output_config"]["format"]["schema"] == {
        "type": "object",
        "properties": {
            "age": {"type": "integer", "description": "in years\n\n{minimum: 0}"},
            "name": {"type": "string"},
        },
        "required": ["age"],
        "additionalProperties": False,
    }
    assert [row.done for row in made.losses.rows] == ["left out minimum", "closed an object"]


@pytest.mark.parametrize(("strict", "changed"), [(True, True), (False, False), (None, False)])
def test_a_tools_schema_is_held_to_them_only_if_it_is_strict(strict: bool | None, changed: bool) -> None:
    extra = {} if strict is None else {"strict": strict}
    body, _ = translated("chat", "messages", chat_body(LOOSE, **extra))
    assert (sent_schema("messages", body) != LOOSE) is changed


@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_openai_is_not_asked_to_enforce_what_it_cannot(upstream: str) -> None:
    """Messages takes optional properties in strict schemas; OpenAI answers 400."""
    output = {"format": {"type": "json_schema", "schema": LOOSE}}
    body, made = translated("messages", upstream, {**messages_body(LOOSE, strict=True), "output_config": output})
    tool = body["tools"][0]
    form = body["response_format"]["json_schema"] if upstream == "chat" else body["text"]["format"]
    assert tool.get("function", tool)["strict"] is False
    assert form["strict"] is False
    assert form["schema"] == LOOSE
    assert made.losses.counts[LossCode.SCHEMA_STRICTNESS] == 2


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
def test_what_a_strict_schema_may_say(schema: Json, written: Json) -> None:
    tree = SchemaTree(
        schema, (), SizeBudget(), refused=("oneOf", "minItems", "format"), strict=True, refs=True, closed=True
    )
    assert tree.rewritten() == written


def test_the_same_schema_always_becomes_the_same_bytes() -> None:
    given = chat_body({"oneOf": [PATH, URL], "$defs": {"b": {}, "a": {}}})
    assert translated("chat", "messages", given)[1].body == translated("chat", "messages", given)[1].body
