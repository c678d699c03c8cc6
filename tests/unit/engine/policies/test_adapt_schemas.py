"""Schemas are changed to what the upstream takes, where its profile has flags for them (T-43; mapping §6.1)."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.request import Json
from dragoman.losses import LossCode
from support.canonical_turns import translated


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


LOOSE: Json = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0, "description": "in years"}, "name": {"type": "string"}},
    "required": ["age"],
}


def test_an_answers_schema_for_messages_is_closed_and_its_limits_are_reported_in_words() -> None:
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
