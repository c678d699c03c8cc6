"""Chosen tools and cache options of Responses requests, at every upstream: the one that the client means, or a 400."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.directions import direction
from dragoman.errors import ClientRequestError
from dragoman.losses import LossCode
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.translate_request import Translation, translate
from support.directions import Json

PROFILES = {
    "chat": ("chat", builtin_profile("chat")),
    "messages": ("messages", builtin_profile("messages")),
    "openai": ("responses", builtin_profile("responses").replace({"rewrite": True})),
    "compatible": ("responses", builtin_profile("responses", "compatible").replace({"rewrite": True})),
}
FLAT = ("chat", "messages", "compatible")
TOP: Json = {
    "type": "function",
    "name": "read",
    "description": "top",
    "parameters": {"type": "object"},
    "strict": False,
}


def space(name: str, *tools: Json) -> Json:
    return {"type": "namespace", "name": name, "description": name, "tools": list(tools)}


def function(name: str) -> Json:
    return {**TOP, "name": name}


TWO = [space("a", function("add"), function("only")), space("b", function("add")), TOP]


def sent(upstream: str, choice: Any, tools: list[Json], **fields: Any) -> tuple[Json, Translation]:
    dialect, profile = PROFILES[upstream]
    body = {"model": "m", "input": "Go", "tools": tools, "tool_choice": choice, **fields}
    translation = translate(direction("responses", dialect), json.dumps(body).encode(), profile=profile)
    return json.loads(translation.body), translation


def chosen(body: Json) -> list[str]:
    """The names in the choice, or of the tools that are left; with the namespace in front where there is one."""
    choice = body["tool_choice"]
    if "allowed_tools" in choice:
        choice = choice["allowed_tools"]
    if choice.get("type") in ("auto", "any"):
        return [tool["name"] for tool in body["tools"]]
    entries = choice.get("tools", [choice])
    return [
        "__".join(filter(None, (entry.get("namespace"), (entry.get("function") or entry)["name"]))) for entry in entries
    ]


@pytest.mark.parametrize("upstream", PROFILES)
@pytest.mark.parametrize("namespace", ["a", "b"])
def test_the_namespace_of_a_choice_is_honoured(upstream: str, namespace: str) -> None:
    named = {"type": "function", "name": "add", "namespace": namespace}
    body, translation = sent(upstream, named, TWO)
    assert chosen(body) == [f"{namespace}__add"]
    assert LossCode.UNKNOWN_FIELD not in translation.losses.counts
    for mode in ("auto", "required"):
        allowed = {"type": "allowed_tools", "mode": mode, "tools": [named, {"type": "function", "name": "read"}]}
        body, translation = sent(upstream, allowed, TWO)
        assert chosen(body) == [f"{namespace}__add", "read"]
        assert LossCode.UNKNOWN_FIELD not in translation.losses.counts
    both = [{**named, "namespace": name} for name in ("a", "b")]
    assert chosen(sent(upstream, {"type": "allowed_tools", "mode": "auto", "tools": both}, TWO)[0]) == [
        "a__add",
        "b__add",
    ]


@pytest.mark.parametrize("upstream", PROFILES)
@pytest.mark.parametrize(
    ("choice", "path"),
    [
        ({"type": "function", "name": "add"}, "tool_choice.name"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [TOP, {"type": "function", "name": "add"}]},
            "tool_choice.tools[1].name",
        ),
    ],
)
def test_a_name_of_two_namespaces_is_refused(upstream: str, choice: Json, path: str) -> None:
    if "tools" in choice:
        choice = {**choice, "tools": [{"type": "function", "name": entry["name"]} for entry in choice["tools"]]}
    with pytest.raises(ClientRequestError, match=r"several namespaces \(a, b\)") as caught:
        sent(upstream, choice, TWO)
    assert caught.value.failure.param == path


@pytest.mark.parametrize("upstream", FLAT)
@pytest.mark.parametrize(
    ("name", "tools", "wanted"),
    [
        ("only", TWO, "a__only"),
        ("read", TWO, "read"),
        ("read", [space("a", function("read")), TOP], "read"),
        ("read", [TOP, space("a", function("read")), space("b", function("read"))], "read"),
        ("a__only", TWO, "a__only"),
    ],
)
def test_a_name_alone_is_the_only_tool_or_the_one_outside(
    upstream: str, name: str, tools: list[Json], wanted: str
) -> None:
    assert chosen(sent(upstream, {"type": "function", "name": name}, tools)[0]) == [wanted]


def test_a_name_alone_stays_alone_where_there_are_namespaces() -> None:
    assert sent("openai", {"type": "function", "name": "only"}, TWO)[0]["tool_choice"] == {
        "type": "function",
        "name": "only",
    }


def test_the_kind_distinguishes_tools_of_one_name() -> None:
    patch: Json = {"type": "custom", "name": "add"}
    tools = [space("a", function("add")), space("b", patch)]
    assert chosen(sent("chat", {"type": "function", "name": "add"}, tools)[0]) == ["a__add"]
    assert chosen(sent("messages", {"type": "custom", "name": "add"}, tools)[0]) == ["b__add"]


@pytest.mark.parametrize("upstream", PROFILES)
def test_a_tool_of_no_such_namespace_is_refused(upstream: str) -> None:
    with pytest.raises(ClientRequestError):
        sent(upstream, {"type": "function", "name": "add", "namespace": "c"}, TWO)


# --- calls of the history ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", FLAT)
@pytest.mark.parametrize("declared", ["tools", "additional_tools"])
@pytest.mark.parametrize("extra", [{}, {"id": "fc_1", "status": "completed"}, {"caller": {"type": "direct"}}])
def test_a_call_without_its_namespace_is_sent_by_the_name_of_the_tool(
    upstream: str, declared: str, extra: Json
) -> None:
    spaces = [space("functions", function("run"), {"type": "custom", "name": "exec"}), space("b", function("add"))]
    items: list[Json] = [
        {"role": "user", "content": "Go"},
        {"type": "function_call", "call_id": "c1", "name": "run", "arguments": "{}", **extra},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "exec", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "x"},
        {"type": "function_call", "call_id": "c3", "name": "gone", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c3", "output": "x"},
    ]
    if declared == "additional_tools":
        items.insert(0, {"type": "additional_tools", "role": "developer", "tools": spaces})
    body, _ = sent(upstream, "auto", spaces if declared == "tools" else [], input=items)
    assert calls(body) == ["functions__run", "functions__exec", "gone"]


def calls(body: Json) -> list[str]:
    if "input" in body:
        return [item["name"] for item in body["input"] if item["type"].endswith("_call")]
    stated = [message for message in body["messages"] if message["role"] == "assistant"]
    names = [call[call["type"]]["name"] for message in stated for call in message.get("tool_calls", ())]
    blocks = [block for message in stated if type(message["content"]) is list for block in message["content"]]
    return names + [block["name"] for block in blocks if block["type"] == "tool_use"]


# --- cache options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["responses", "chat"])
@pytest.mark.parametrize(
    ("given", "wanted", "rows"),
    [
        (
            {"mode": "explicit", "prewarm": True, "ttl": "12h", "comparison_response_id": "r"},
            {"mode": "explicit", "ttl": "30m"},
            ["prewarm", "ttl", "comparison_response_id"],
        ),
        ({"mode": "implicit", "ttl": "30m", "prewarm": None}, {"mode": "implicit", "ttl": "30m"}, []),
        ({"no_such_option": 1}, {}, ["no_such_option"]),
    ],
)
def test_chat_gets_the_cache_options_that_it_has(client: str, given: Json, wanted: Json, rows: list[str]) -> None:
    profile: Profile = builtin_profile("chat").replace({"rewrite": True})
    asked = {"input": "Go"} if client == "responses" else {"messages": [{"role": "user", "content": "Go"}]}
    body = json.dumps({"model": "m", **asked, "prompt_cache_options": given}).encode()
    translation = translate(direction(client, "chat"), body, profile=profile)
    assert json.loads(translation.body)["prompt_cache_options"] == wanted
    assert [(row.code, row.path) for row in translation.losses.rows] == [
        (LossCode.CACHE_HINT, f"prompt_cache_options.{key}") for key in rows
    ]


def test_responses_gets_all_of_them() -> None:
    given = {"mode": "explicit", "prewarm": True, "ttl": "12h", "comparison_response_id": "r"}
    assert sent("openai", "auto", [TOP], prompt_cache_options=given)[0]["prompt_cache_options"] == given
