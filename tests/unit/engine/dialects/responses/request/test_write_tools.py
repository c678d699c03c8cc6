"""Tools and tool choice, written for a Responses upstream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.parts import ToolReference
from dragoman.canonical.request import Json, Namespace, Tool, ToolChoice
from dragoman.knobs import Knobs
from dragoman.losses import LossCode
from support.responses_written import COMPATIBLE, HI, MARK, ask, assistant, call, function, refused, result, user

EMPTY: Json = {"type": "object", "properties": {}}
MAP = Knobs(hosted_tools="map")


def written(*tools: Tool, **more: Any) -> tuple[list[Json], list[tuple[LossCode, str]]]:
    body, losses = ask(tools=list(tools), **more)
    return body.get("tools", []), losses


# --- functions --------------------------------------------------------------------------------------------------------


def test_functions_are_flat_and_in_order() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "$schema": "s"}
    tools, losses = written(function("z", description="d", schema=schema), function("a"))
    assert tools == [
        {"type": "function", "name": "z", "description": "d", "parameters": schema, "strict": False},
        {"type": "function", "name": "a", "parameters": EMPTY, "strict": False},
    ]
    assert losses == []


@pytest.mark.parametrize(("strict", "sent"), [(None, False), (False, False), (True, True)])
@pytest.mark.parametrize("origin", ["chat", "messages"])
def test_strict_is_always_written(origin: str, strict: bool | None, sent: bool) -> None:
    assert written(function(strict=strict, origin=origin), origin=origin)[0][0]["strict"] is sent


def test_the_dialects_own_silence_is_kept() -> None:
    assert "strict" not in written(function(origin="responses"), origin="responses")[0][0]


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (None, EMPTY),
        ({}, EMPTY),
        ({"type": "object"}, EMPTY),
        ({"properties": {"x": {}}}, {"type": "object", "properties": {"x": {}}}),
        ({"anyOf": [EMPTY]}, {"anyOf": [EMPTY]}),
        ({"type": "string"}, {"type": "string"}),
    ],
)
def test_T43_a_schema_gets_its_type_and_other_shapes_are_left_alone(schema: Json | None, sent: Json) -> None:
    assert written(function(schema=schema))[0][0]["parameters"] == sent


def test_a_strict_function_without_parameters_takes_none() -> None:
    """Strict mode requires `additionalProperties`, which a Chat function without parameters cannot state."""
    (sent,), _ = written(function("f", strict=True, schema=None))
    assert sent["parameters"] == {"type": "object", "properties": {}, "additionalProperties": False}


def test_T44_options_leave_a_row_and_nothing_leaks() -> None:
    options: Json = {"defer_loading": True, "input_examples": [{}], "eager_input_streaming": False}
    tools, losses = written(function(options=options, cache=MARK))
    assert set(tools[0]) == {"type", "name", "parameters", "strict"}
    assert losses == [
        (LossCode.CACHE_HINT, "tools[0]"),
        (LossCode.TOOL_SEARCH, "tools[0].defer_loading"),
        (LossCode.TOOL_OPTION, "tools[0].input_examples"),
    ]
    assert refused(tools=[function(options={"async": True})]) == "tools[0].async"
    own: Json = {"async": True, "defer_loading": True, "output_schema": EMPTY}
    tools, losses = written(function(origin="responses", options=own), origin="responses")
    assert {key: tools[0][key] for key in own} == own
    assert losses == []


# --- other kinds ------------------------------------------------------------------------------------------------------


def test_free_text_tools_have_a_flat_grammar() -> None:
    nested = {"type": "grammar", "grammar": {"definition": "x", "syntax": "lark"}}
    tool = Tool("custom", "g", ("tools", 0), "d", origin="chat", native={"custom": {"format": nested}})
    flat = {"type": "grammar", "syntax": "lark", "definition": "x"}
    sent = {"type": "custom", "name": "g", "description": "d", "format": flat}
    assert written(tool, origin="chat")[0] == [sent]
    tool.native = {"custom": {"format": {"type": "text"}}}
    assert written(tool, origin="chat")[0][0]["format"] == {"type": "text"}
    own = Tool("custom", "g", native={**sent, "defer_loading": True}, origin="responses")
    assert written(own, origin="responses")[0] == [own.native]


def test_tools_of_a_namespace_are_put_together() -> None:
    notes = Namespace("notes", "About notes.")
    tools, _ = written(
        function("add", namespace=notes),
        function("del", namespace=Namespace("notes", "About notes.")),
        function("add"),
        function("add", namespace=Namespace("mail")),
        origin="responses",
    )
    assert [(tool["type"], tool["name"], tool.get("description")) for tool in tools] == [
        ("namespace", "notes", "About notes."),
        ("function", "add", None),
        ("namespace", "mail", None),
    ]
    assert [tool["name"] for tool in tools[0]["tools"]] == ["add", "del"]


def test_a_client_run_search_makes_deferring_possible() -> None:
    search = Tool("search", "tool_search", description="d", schema=EMPTY)
    tools, losses = written(search, function(options={"defer_loading": True}))
    assert tools[0] == {"type": "tool_search", "execution": "client", "description": "d", "parameters": EMPTY}
    assert tools[1]["defer_loading"] is True
    assert losses == []


def test_found_tools_stay_where_they_were_found() -> None:
    found = function("f", at=("input", 3, "tools", 0), origin="responses")
    references: Any = [ToolReference("f")]
    body, losses = ask(
        HI,
        assistant(call("tool_search", search=True)),
        user(result(references, search=True)),
        tools=[function("a", origin="responses"), found],
        origin="responses",
    )
    assert [tool["name"] for tool in body["tools"]] == ["a"]
    assert [tool["name"] for tool in body["input"][2]["tools"]] == ["f"]
    assert losses == []


def hosted(kind: str, name: str, origin: str = "messages", **options: Any) -> Tool:
    at = ("web_search_options",) if origin == "chat" else ("tools", 0)
    native = {} if origin == "chat" else {"type": kind, "name": name}
    return Tool("hosted", name, at, options=options, native=native, origin=origin)


def test_provider_run_tools_are_dropped_refused_or_mapped() -> None:
    place = {"city": "Paris", "region": None}
    search = hosted("web_search_20250305", "web_search", allowed_domains=["a.test"], user_location=place, max_uses=3)
    body, losses = ask(tools=[search], tool_choice=ToolChoice("auto"), parallel=True)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)
    assert losses == [(LossCode.HOSTED_TOOL, "tools[0]")]
    assert refused(tools=[search], knobs=Knobs(hosted_tools="reject")) == "tools[0]"
    tools, losses = written(search, knobs=MAP)
    assert tools == [
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["a.test"]},
            "user_location": {"type": "approximate", "city": "Paris"},
        }
    ]
    assert losses == [(LossCode.TOOL_OPTION, "tools[0].max_uses")]
    chosen = ToolChoice("tool", ("tool_choice",), ["web_search"], hosted=True)
    assert ask(tools=[search], tool_choice=chosen, knobs=MAP)[0]["tool_choice"] == {"type": "web_search"}
    assert written(hosted("code_execution_1", "code_execution"), knobs=MAP)[1] == [(LossCode.HOSTED_TOOL, "tools[0]")]


def test_chats_web_search_options() -> None:
    search = hosted("", "web_search", "chat", search_context_size="low", user_location={"type": "approximate"})
    assert written(search, origin="chat")[1] == [(LossCode.HOSTED_TOOL, "web_search_options")]
    tools, losses = written(search, origin="chat", knobs=MAP)
    assert tools == [{"type": "web_search", "search_context_size": "low", "user_location": {"type": "approximate"}}]
    assert losses == []


def test_a_provider_run_tool_search_is_mapped_if_the_upstream_has_one() -> None:
    tools = (
        hosted("tool_search_tool_bm25_20251119", "tool_search_tool_bm25"),
        function(options={"defer_loading": True}),
    )
    sent, losses = written(*tools, knobs=MAP)
    assert sent[0] == {"type": "tool_search", "execution": "server"}
    assert sent[1]["defer_loading"] is True
    assert losses == []
    assert [code for code, _ in written(*tools, knobs=MAP, profile=COMPATIBLE)[1]] == [
        LossCode.HOSTED_TOOL,
        LossCode.TOOL_SEARCH,
    ]


def test_tools_that_only_their_providers_models_know_are_refused() -> None:
    bash = Tool("typed", "bash", ("tools", 0), native={"type": "bash_20250124"}, origin="messages")
    assert refused(tools=[bash]) == "tools[0]"


def test_own_tools_of_other_kinds_go_back_as_they_were() -> None:
    own = hosted("file_search", "file_search", "responses")
    assert written(own, origin="responses")[0] == [own.native]


# --- choice -----------------------------------------------------------------------------------------------------------

CUSTOM = Tool("custom", "g", origin="chat", native={"custom": {}})
SEARCH = hosted("web_search_20250305", "web_search")


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice("auto"), "auto"),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("tool", (), ["f"]), {"type": "function", "name": "f"}),
        (ToolChoice("tool", (), ["g"], custom=True), {"type": "custom", "name": "g"}),
        (
            ToolChoice("allowed", (), ["f", "g"], require=True),
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}],
            },
        ),
        (
            ToolChoice("allowed", (), ["f"]),
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        ),
    ],
)
def test_choices(choice: ToolChoice, sent: Any) -> None:
    body, losses = ask(tools=[function(), CUSTOM], tool_choice=choice, parallel=False, origin="chat")
    assert body["tool_choice"] == sent
    assert body["parallel_tool_calls"] is False
    assert losses == []


def test_a_chosen_tools_name_is_the_one_sent() -> None:
    body, _ = ask(tools=[function("a.b")], tool_choice=ToolChoice("tool", (), ["a.b"]))
    assert body["tool_choice"]["name"] == body["tools"][0]["name"] != "a.b"


def test_T21_no_choice_without_tools() -> None:
    for mode in ("auto", "none"):
        body, losses = ask(tool_choice=ToolChoice(mode), parallel=True)
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)
        assert losses == []


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([], ToolChoice("required", ("tool_choice",))),
        ([SEARCH], ToolChoice("required", ("tool_choice",))),
        ([function()], ToolChoice("tool", ("tool_choice",), ["missing"])),
        ([SEARCH, function()], ToolChoice("tool", ("tool_choice",), ["web_search"], hosted=True)),
        ([function()], ToolChoice("allowed", ("tool_choice",), ["f", "missing"])),
        ([function()], ToolChoice("allowed", ("tool_choice",), [], require=True)),
        ([function()], ToolChoice("tool", ("tool_choice",), [])),
    ],
)
def test_a_choice_that_cannot_be_met_is_refused(tools: list[Tool], choice: ToolChoice) -> None:
    assert refused(tools=tools, tool_choice=choice) == "tool_choice"
