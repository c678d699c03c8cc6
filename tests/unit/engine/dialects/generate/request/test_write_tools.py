from __future__ import annotations

from typing import Any

import pytest

from dragoman import Knobs
from dragoman.errors import Unsupported
from support.generate import GEMINI, send

Json = dict[str, Any]
SCHEMA: Json = {"$schema": "x", "type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": False}


def function(name: str = "look", **fields: Any) -> Json:
    return {"type": "function", "function": {"name": name, **fields}}


def ask(*tools: Json, **fields: Any) -> Json:
    return {"messages": [{"role": "user", "content": "x"}], "tools": list(tools), **fields}


def test_a_schema_is_sent_as_it_is() -> None:
    sent = send("chat", ask(function(description="Looks.", parameters=SCHEMA), function("bare")))
    assert sent.body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "look", "description": "Looks.", "parametersJsonSchema": SCHEMA},
                {"name": "bare"},
            ]
        }
    ]
    assert "toolConfig" not in sent.body
    assert sent.codes == []


def test_a_server_that_takes_openapi_only() -> None:
    older = GEMINI.replace({"schemas": "openapi"})
    sent = send("chat", ask(function(parameters=SCHEMA), function("bare", parameters={"type": "object"})), older)
    assert sent.body["tools"][0]["functionDeclarations"] == [
        {"name": "look", "parameters": {"type": "OBJECT", "properties": {"a": {}}}},
        {"name": "bare"},
    ]
    assert sent.codes == ["schema_sanitised"]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "function", "function": {"name": "look"}}, {"mode": "ANY", "allowedFunctionNames": ["look"]}),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "bare"}}]},
            },
            {"mode": "ANY", "allowedFunctionNames": ["bare"]},
        ),
    ],
)
def test_a_choice(choice: Any, config: Json) -> None:
    sent = send("chat", ask(function(), function("bare"), tool_choice=choice))
    assert sent.body["toolConfig"] == {"functionCallingConfig": config}


def test_allowed_functions_that_need_not_be_called() -> None:
    tools = [{"type": "function", "function": {"name": "bare"}}]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools}}
    sent = send("chat", ask(function(), function("bare"), tool_choice=choice))
    assert sent.body["tools"] == [{"functionDeclarations": [{"name": "bare"}]}]
    assert sent.codes == ["tools_filtered"]


def test_a_choice_that_cannot_be_made() -> None:
    named = {"type": "function", "function": {"name": "other"}}
    for body in (ask(function(), tool_choice=named), ask(tool_choice="required")):
        with pytest.raises(Unsupported, match="tool_choice"):
            send("chat", body)


def test_strict_tools() -> None:
    sent = send("chat", ask(function(strict=True), function("bare", strict=True)))
    assert sent.body["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert send("chat", ask(function(strict=True), function("bare"))).codes == ["tool_option"]
    assert send("chat", ask(function(strict=True), tool_choice="required")).codes == ["tool_option"]


def test_names_of_a_client_are_fitted() -> None:
    tool = {"name": "my.look", "input_schema": {"type": "object"}}
    sent = send("messages", {"messages": [{"role": "user", "content": "x"}], "tools": [tool]})
    [written] = sent.body["tools"][0]["functionDeclarations"]
    assert sent.names.back == {written["name"]: "my.look"}


SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


def test_web_search() -> None:
    alone = {"messages": [{"role": "user", "content": "x"}], "tools": [SEARCH]}
    sent = send("messages", alone, knobs=Knobs(hosted_tools="map"))
    assert sent.body["tools"] == [{"googleSearch": {}}]
    assert sent.codes == ["tool_option"]
    assert send("messages", alone).codes == ["hosted_tool"]
    both = {**alone, "tools": [SEARCH, {"name": "look", "input_schema": {"type": "object"}}]}
    sent = send("messages", both, knobs=Knobs(hosted_tools="map"))
    assert list(sent.body["tools"][0]) == ["functionDeclarations"]
    assert sent.codes == ["hosted_tool"]
    with pytest.raises(Unsupported, match=r"tools\[0\]"):
        send("messages", alone, knobs=Knobs(hosted_tools="reject"))


def test_a_free_text_tool() -> None:
    with pytest.raises(Unsupported, match=r"tools\[0\]"):
        send("chat", ask({"type": "custom", "custom": {"name": "patch"}}))


def test_one_call_at_a_time() -> None:
    sent = send("chat", ask(function(), parallel_tool_calls=False))
    assert sent.codes == ["parallel_calls"]
