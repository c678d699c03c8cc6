"""Reading the tools of Responses requests: kinds, namespaces, tools that appear later, and the choice among them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.parts import ToolReference, ToolResult
from dragoman.canonical.request import Json, Namespace, Request, Tool, ToolChoice
from dragoman.dialects.responses.request.read import read_request
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
F: Json = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": False}
GRAMMAR: Json = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
PATCH: Json = {"type": "custom", "name": "apply_patch", "description": "edit", "format": GRAMMAR}
SEARCH: Json = {"type": "tool_search", "execution": "client", "description": "find", "parameters": SCHEMA}
USER: Json = {"role": "user", "content": "hi"}
CHOICE = ("tool_choice",)


def read(*items: Json, knobs: Knobs | None = None, **fields: Any) -> tuple[Request, list[tuple[LossCode, str]]]:
    losses = Losses()
    body = {"model": "m", "input": list(items) or "hi", **fields}
    request = read_request(body, losses, knobs or Knobs())
    return request, [(row.code, row.path) for row in losses.rows]


def tool(declared: Json) -> Tool:
    request, rows = read(tools=[declared])
    assert rows == []
    (only,) = request.tools
    return only


def refused(*items: Json, **fields: Any) -> ClientRequestError:
    with pytest.raises(ClientRequestError) as caught:
        read(*items, **fields)
    return caught.value


def param(*items: Json, **fields: Any) -> str | None:
    return refused(*items, **fields).failure.param


def names(request: Request) -> list[tuple[str | None, str]]:
    return [(tool.namespace.name if tool.namespace else None, tool.name) for tool in request.tools]


# --- kinds ------------------------------------------------------------------------------------------------------------


def test_function() -> None:
    assert tool(F) == Tool("function", "f", ("tools", 0), "d", SCHEMA, False, origin="responses")


def test_strict_has_three_states() -> None:
    bare = {"type": "function", "name": "f"}
    assert tool(bare).strict is None
    assert tool({**bare, "strict": None}).strict is None
    assert tool({**bare, "strict": False}).strict is False
    assert tool({**bare, "strict": True}).strict is True


def test_options_are_kept_for_the_writer() -> None:
    options = {"defer_loading": True, "allowed_callers": ["direct"], "output_schema": {}, "async": False}
    assert tool({**F, **options}).options == options
    assert tool({**PATCH, "defer_loading": True}).options == {"defer_loading": True}
    assert param(tools=[{**F, "allowed_callers": "direct"}]) == "tools[0].allowed_callers"


def test_T50_a_custom_tool_stays_one() -> None:
    assert tool(PATCH) == Tool("custom", "apply_patch", ("tools", 0), "edit", native=PATCH, origin="responses")
    assert param(tools=[{**PATCH, "format": {"type": "grammar", "syntax": "lark"}}]) == "tools[0].format.definition"
    assert param(tools=[{**PATCH, "format": {"type": "xml"}}]) == "tools[0].format.type"


def test_namespace() -> None:
    space = {"type": "namespace", "name": "ns", "description": "group", "tools": [F, PATCH]}
    request, rows = read(tools=[F, space])
    assert rows == []
    assert names(request) == [(None, "f"), ("ns", "f"), ("ns", "apply_patch")]
    inner = request.tools[1]
    assert inner.namespace == Namespace("ns", "group")
    assert inner.at == ("tools", 1, "tools", 0)
    assert request.tools[2].native == PATCH


@pytest.mark.parametrize("inner", [SEARCH, {"type": "web_search"}, {"type": "namespace", "name": "x", "tools": []}])
def test_a_namespace_holds_functions_and_custom_tools(inner: Json) -> None:
    error = refused(tools=[{"type": "namespace", "name": "ns", "description": "", "tools": [inner]}])
    assert isinstance(error, Unsupported)
    assert error.failure.param == "tools[0].tools[0].type"


def test_search_by_the_client_is_a_tool_of_the_conversation() -> None:
    assert tool(SEARCH) == Tool(
        "search", "tool_search", ("tools", 0), "find", SCHEMA, native=SEARCH, origin="responses"
    )
    for hosted in ({"type": "tool_search"}, {"type": "tool_search", "execution": "server"}):
        assert tool(hosted) == Tool("hosted", "tool_search", ("tools", 0), native=hosted, origin="responses")


def test_web_search() -> None:
    declared: Json = {
        "type": "web_search",
        "filters": {"allowed_domains": ["example.com"]},
        "user_location": {"type": "approximate", "city": "Rome"},
        "search_context_size": "low",
        "external_web_access": True,
    }
    read_in = tool(declared)
    assert (read_in.kind, read_in.name, read_in.native) == ("hosted", "web_search", declared)
    assert read_in.options == {
        "allowed_domains": ["example.com"],
        "user_location": {"type": "approximate", "city": "Rome"},
        "search_context_size": "low",
    }
    assert tool({"type": "web_search_preview"}).name == "web_search_preview"


@pytest.mark.parametrize("kind", ["file_search", "code_interpreter", "image_generation", "programmatic_tool_calling"])
def test_other_hosted_tools(kind: str) -> None:
    declared = {"type": kind, "anything": [1]}
    assert tool(declared) == Tool("hosted", kind, ("tools", 0), native=declared, origin="responses")


@pytest.mark.parametrize("kind", ["shell", "local_shell", "apply_patch"])
def test_built_in_tools_that_the_client_runs(kind: str) -> None:
    declared = {"type": kind, "allowed_callers": ["direct"]}
    options = {"allowed_callers": ["direct"]}
    wanted = Tool("typed", kind, ("tools", 0), options=options, native=declared, origin="responses")
    assert tool(declared) == wanted
    _, rows = read(tools=[{"type": kind, "colour": "red"}])
    assert rows == [(LossCode.UNKNOWN_FIELD, "tools[0].colour")]
    chosen = read(tools=[{"type": kind}], tool_choice={"type": kind})[0].tool_choice
    assert chosen == ToolChoice("tool", CHOICE, [kind])
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": kind}]}
    assert read(tools=[{"type": kind}], tool_choice=allowed)[0].tool_choice == ToolChoice("allowed", CHOICE, [kind])
    assert param(tools=[{"type": kind}, {"type": "function", "name": kind}]) == "tools[1]"


@pytest.mark.parametrize("environment", ["local", "container_auto", "container_reference"])
def test_a_shell_in_a_container_is_run_by_the_provider(environment: str) -> None:
    declared = {"type": "shell", "environment": {"type": environment}}
    assert tool(declared).kind is ("typed" if environment == "local" else "hosted")


@pytest.mark.parametrize("kind", ["computer", "computer_use_preview", "mcp", "brand_new"])
def test_tools_that_only_openai_has(kind: str) -> None:
    error = refused(tools=[{"type": kind, "server_label": "s"}])
    assert isinstance(error, Unsupported)
    assert error.failure.param == "tools[0].type"


def test_one_name_is_declared_once() -> None:
    other = {**F, "description": "other"}
    assert param(tools=[F, other]) == "tools[1]"
    assert param(tools=[F, {"type": "custom", "name": "f"}]) == "tools[1]"
    space = {"type": "namespace", "name": "ns", "description": "", "tools": [F]}
    assert param(tools=[space, {**space, "tools": [other]}]) == "tools[1].tools[0]"
    # A provider-run tool has no name to collide with.
    assert len(read(tools=[{"type": "web_search"}, {"type": "function", "name": "web_search"}])[0].tools) == 2


def test_unknown_keys_of_tools() -> None:
    request, rows = read(tools=[{**F, "colour": "red", "examples": []}])
    assert rows == [(LossCode.UNKNOWN_FIELD, "tools[0].colour")]
    assert request.tools[0].name == "f"


# --- tools that appear later ------------------------------------------------------------------------------------------


def test_additional_tools_join_in_order() -> None:
    item = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [PATCH, F]}
    request, rows = read(item, USER, tools=[{**F, "name": "top"}])
    assert names(request) == [(None, "top"), (None, "apply_patch"), (None, "f")]
    assert request.tools[1].at == ("input", 0, "tools", 0)
    assert rows == []
    assert len(request.turns) == 1


def test_additional_tools_later_have_a_row() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [F]}
    developer = {"role": "developer", "content": "d"}
    assert read(developer, item, USER)[1] == []
    assert read(USER, item)[1] == [(LossCode.TOOL_TIMELINE, "input[1]")]
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    assert read(call, item)[1] == [(LossCode.TOOL_TIMELINE, "input[1]")]
    assert param({**item, "role": "user"}) == "input[0].role"
    assert param({**item, "tools": [F, {**F, "description": "other"}]}) == "input[0].tools[1]"


def test_a_tool_declared_again_is_replaced_in_place() -> None:
    newer = {**F, "description": "newer"}
    item = {"type": "additional_tools", "role": "developer", "tools": [newer, PATCH]}
    request, _ = read(item, USER, tools=[F, {**F, "name": "g"}])
    assert names(request) == [(None, "f"), (None, "g"), (None, "apply_patch")]
    assert request.tools[0].description == "newer"
    same = {"type": "additional_tools", "role": "developer", "tools": [F]}
    assert read(same, USER, tools=[F])[0].tools[0].at == ("tools", 0)


SPACE: Json = {"type": "namespace", "name": "ns", "description": "", "tools": [{**F, "defer_loading": True}]}
FOUND: Json = {"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": [SPACE, PATCH]}
ASKED: Json = {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"query": "x"}}


def test_found_tools_join_and_are_named() -> None:
    request, rows = read(USER, ASKED, FOUND, tools=[SEARCH])
    assert names(request) == [(None, "tool_search"), ("ns", "f"), (None, "apply_patch")]
    result = request.turns[2].parts[0]
    assert result == ToolResult(
        "s",
        [
            ToolReference("f", ("input", 2, "tools", 0, "tools", 0), "ns"),
            ToolReference("apply_patch", ("input", 2, "tools", 1)),
        ],
        ("input", 2),
        search=True,
    )
    assert rows == []


def test_tools_found_again_are_there_once() -> None:
    again = {**FOUND, "call_id": "t"}
    request, _ = read(USER, ASKED, FOUND, {**ASKED, "call_id": "t"}, again, tools=[SEARCH, SPACE])
    assert names(request) == [(None, "tool_search"), ("ns", "f"), (None, "apply_patch")]
    assert request.tools[1].at == ("tools", 1, "tools", 0)
    changed = {**FOUND, "tools": [{**PATCH, "description": "other"}]}
    request, _ = read(USER, ASKED, FOUND, {**ASKED, "call_id": "t"}, {**changed, "call_id": "t"})
    assert names(request) == [("ns", "f"), (None, "apply_patch")]
    assert request.tools[1].description == "other"


# --- choice -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, None),
        ("auto", ToolChoice("auto", CHOICE)),
        ("none", ToolChoice("none", CHOICE)),
        ("required", ToolChoice("required", CHOICE)),
        ({"type": "function", "name": "f"}, ToolChoice("tool", CHOICE, ["f"])),
        ({"type": "custom", "name": "p"}, ToolChoice("tool", CHOICE, ["p"], custom=True)),
        ({"type": "web_search_preview"}, ToolChoice("tool", CHOICE, ["web_search_preview"], hosted=True)),
        ({"type": "mcp", "server_label": "s"}, ToolChoice("tool", CHOICE, ["mcp"], hosted=True)),
        ({"type": "apply_patch"}, ToolChoice("tool", CHOICE, ["apply_patch"], hosted=True)),
        ({"type": "shell"}, ToolChoice("tool", CHOICE, ["shell"], hosted=True)),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            ToolChoice("allowed", CHOICE, ["f"], require=True),
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "p"}]},
            ToolChoice("allowed", CHOICE, ["p"]),
        ),
    ],
)
def test_choices(given: Any, wanted: ToolChoice | None) -> None:
    request, rows = read(tools=[F], tool_choice=given)
    assert request.tool_choice == wanted
    assert rows == []


def test_a_search_by_the_client_can_be_chosen() -> None:
    chosen = {"type": "tool_search"}
    assert read(tools=[SEARCH], tool_choice=chosen)[0].tool_choice == ToolChoice("tool", CHOICE, ["tool_search"])
    assert read(tools=[F], tool_choice=chosen)[0].tool_choice == ToolChoice(
        "tool", CHOICE, ["tool_search"], hosted=True
    )


def test_hosted_tools_are_left_out_of_the_allowed_ones() -> None:
    web = {"type": "web_search_preview"}
    f = {"type": "function", "name": "f"}
    row = (LossCode.HOSTED_TOOL, "tool_choice.tools[0]")

    def choice(mode: str, *tools: Json, knobs: Knobs | None = None) -> tuple[ToolChoice | None, list[Any]]:
        given = {"type": "allowed_tools", "mode": mode, "tools": list(tools)}
        request, rows = read(tools=[F], tool_choice=given, knobs=knobs)
        return request.tool_choice, rows

    assert choice("auto", web, f) == (ToolChoice("allowed", CHOICE, ["f"]), [row])
    # Only what is not there may be called: nothing may.
    assert choice("auto", web) == (ToolChoice("none", CHOICE), [row])
    assert choice("required", web) == (
        ToolChoice("tool", CHOICE, ["web_search_preview"], hosted=True),
        [row],
    )
    mapped = choice("auto", web, f, knobs=Knobs(hosted_tools="map"))
    assert mapped == (ToolChoice("allowed", CHOICE, ["web_search_preview", "f"]), [])


def test_choices_that_there_are_not() -> None:
    assert param(tool_choice="always") == "tool_choice"
    assert param(tool_choice=5) == "tool_choice"
    assert param(tool_choice={"type": "magic"}) == "tool_choice.type"
    assert param(tool_choice={"type": "function"}) == "tool_choice.name"
    assert param(tool_choice={"type": "allowed_tools", "mode": "auto", "tools": ["f"]}) == "tool_choice.tools[0]"


def test_a_choice_without_tools_is_normal() -> None:
    request, rows = read(tools=[], tool_choice="auto", parallel_tool_calls=True)
    assert (request.tools, rows) == ([], [])
