from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.generate.request.openapi_schema import to_openapi
from dragoman.losses import Losses
from support.generate import GEMINI, send

Json = dict[str, Any]


def converted(schema: Json) -> tuple[Json, list[str]]:
    written = to_openapi(schema, ("tools", 0), losses := Losses())
    types.Schema.model_validate(written)
    return written, [loss.done for loss in losses]


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, {"type": "STRING"}),
        ({"type": ["string", "null"]}, {"nullable": True, "type": "STRING"}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
        ({"enum": ["a", "b"]}, {"type": "STRING", "enum": ["a", "b"]}),
        ({"oneOf": [{"type": "null"}, {"type": "number"}]}, {"nullable": True, "anyOf": [{"type": "NUMBER"}]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "INTEGER", "minimum": 1}),
        ({"type": "number", "exclusiveMaximum": 2}, {"type": "NUMBER", "maximum": 2}),
        ({"type": "array", "items": {"type": "boolean"}}, {"type": "ARRAY", "items": {"type": "BOOLEAN"}}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        (
            {"allOf": [{"properties": {"a": {}}, "required": ["a"]}], "properties": {"b": {}}, "required": ["b"]},
            {"properties": {"a": {}, "b": {}}, "required": ["b", "a"]},
        ),
        ({"$schema": "x", "type": "object", "properties": {"a": True}}, {"type": "OBJECT", "properties": {"a": {}}}),
    ],
)
def test_a_keyword(schema: Json, written: Json) -> None:
    assert converted(schema) == (written, [])


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"type": "string", "format": "uri"}, "format"),
        ({"type": "string", "format": {}}, "format"),
        ({"type": "object", "patternProperties": {}, "not": {}}, "patternProperties, not"),
        ({"properties": {"a": {"enum": [1, 2]}}}, "enum"),
        ({"$ref": "#/$defs/a", "$defs": {}}, "$ref"),
        ({"type": "object", "additionalProperties": False}, "additionalProperties"),
    ],
)
def test_what_has_no_place_is_a_row(schema: Json, names: str) -> None:
    written, rows = converted(schema)
    assert rows == [f"left out for OpenAPI: {names}"]
    assert set(written) <= {"type", "properties"}


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.booleans(),
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(("string", "integer", ["number", "null"], "null")),
                "enum": st.lists(st.sampled_from(("a", 1, None)), max_size=2),
                "const": st.sampled_from(("a", 2, None)),
                "exclusiveMinimum": st.integers(0, 3),
                "format": st.sampled_from(("uri", "int32")),
                "zz": st.just(1),
            },
        ),
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "required": st.just(["a"]),
        },
    ),
    max_leaves=6,
)


@given(schema=SCHEMAS.filter(lambda schema: type(schema) is dict))
def test_googles_own_type_takes_every_schema(schema: Json) -> None:
    converted(schema)


def test_an_output_format() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {}}}}
    body = {"messages": [{"role": "user", "content": "x"}], "response_format": form}
    assert send("chat", body, GEMINI.replace({"schemas": "openapi"})).config["responseSchema"] == {
        "type": "OBJECT",
        "properties": {},
    }
