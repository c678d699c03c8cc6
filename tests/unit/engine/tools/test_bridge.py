"""Tools of kinds that the upstream lacks: there (mapping §6.1, §11)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.parts import Part, Text, ToolCall, ToolReference, ToolResult
from dragoman.canonical.request import Namespace, Request, Tool, ToolChoice
from dragoman.canonical.turn import Turn
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.bridge import OriginalTool, bridge_tools
from dragoman.tools.names import NameTable

LACKS_ALL = Profile(custom_tools=False)
HAS_CUSTOM = Profile()
HAS_ALL = Profile(namespaces=True, tool_search=True)
NOTES = Namespace("mcp__notes", "Notes of the user.")
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
AT: Path = ("tools", 0)


def function(name: str, namespace: Namespace | None = None, **fields: Any) -> Tool:
    return Tool("function", name, AT, schema={"type": "object"}, namespace=namespace, **fields)


def custom(name: str, namespace: Namespace | None = None, native: Any = None, **fields: Any) -> Tool:
    return Tool("custom", name, AT, native=native or {"type": "custom"}, namespace=namespace, **fields)


def search() -> Tool:
    return Tool("search", "tool_search", AT, "Finds tools.", {"type": "object"}, native={"type": "tool_search"})


def bridge(
    *tools: Tool,
    profile: Profile = LACKS_ALL,
    origin: str = "responses",
    parts: list[Part] | None = None,
    choice: ToolChoice | None = None,
    losses: Losses | None = None,
    **knobs: Any,
) -> tuple[Request, dict[str, OriginalTool]]:
    turns = [Turn("assistant", parts)] if parts is not None else []
    request = Request(origin, "m", turns, tools=list(tools), tool_choice=choice)
    return request, bridge_tools(
        request, request.turns, profile, Knobs(**knobs), Losses() if losses is None else losses, NameTable(64)
    )


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_namespaces_are_flattened_and_their_description_is_kept() -> None:
    request, declared = bridge(function("add", NOTES, description="Adds."), function("list", Namespace("bare")))
    assert [(tool.name, tool.description, tool.namespace) for tool in request.tools] == [
        ("mcp__notes__add", "Notes of the user.\n\nAdds.", None),
        ("bare__list", None, None),
    ]
    assert declared == {
        "mcp__notes__add": OriginalTool("add", "mcp__notes"),
        "bare__list": OriginalTool("list", "bare"),
    }


def test_what_the_upstream_takes_stays_as_it_is() -> None:
    parts: list[Part] = [
        ToolCall("c1", "add", "{}", namespace="mcp__notes"),
        ToolCall("c2", "patch", "text", custom=True),
        ToolCall("c3", "tool_search", "{}", search=True),
        ToolResult("c3", [ToolReference("add", (), "mcp__notes")], search=True),
    ]
    tools = [function("add", NOTES), custom("patch"), search()]
    before = copy.deepcopy((tools, parts))
    losses = Losses()
    request, declared = bridge(*tools, profile=HAS_ALL, parts=parts, losses=losses)
    assert (request.tools, request.turns[0].parts) == before
    assert not declared
    assert not losses.counts


def test_plain_tools_are_not_remembered() -> None:
    _, declared = bridge(function("add"))
    assert not declared


@pytest.mark.parametrize(
    "tools",
    [
        [function("a__b"), function("b", Namespace("a"))],
        [function("b", Namespace("a")), function("a__b")],
        [function("c", Namespace("a__b")), function("b__c", Namespace("a"))],
        [function("add"), function("add")],
    ],
)
def test_names_that_collide_once_flattened_are_refused(tools: list[Tool]) -> None:
    tools[1].at = ("tools", 7)
    with pytest.raises(ClientRequestError, match=r"tools\[7\]: a second tool of the name 'a"):
        bridge(*tools)


def test_a_provider_run_tool_may_stand_beside_a_function_of_its_name() -> None:
    hosted = Tool("hosted", "web_search", AT, native={"type": "web_search"})
    request, declared = bridge(hosted, function("web_search"), copy.copy(hosted))
    assert [tool.kind for tool in request.tools] == ["hosted", "function", "hosted"]
    assert not declared


def test_calls_of_the_history_are_flattened_alike() -> None:
    call = ToolCall("c", "add", '{"a":1}', namespace="mcp__gone")
    request, _ = bridge(parts=[call])
    assert request.turns[0].parts == [ToolCall("c", "mcp__gone__add", '{"a":1}')]


@pytest.mark.parametrize(
    ("name", "namespace", "sent"),
    [
        ("add", "mcp__notes", "mcp__notes__add"),
        ("mcp__notes__add", None, "mcp__notes__add"),
        ("add", "b", "b__add"),
        ("add", None, "add"),
        ("gone", None, "gone"),
    ],
)
@pytest.mark.parametrize("mode", ["tool", "allowed"])
def test_a_choice_names_the_flattened_tool(name: str, namespace: str | None, sent: str, mode: str) -> None:
    tools = [function("add", NOTES), function("add", Namespace("b")), function("add")]
    spaces: list[str | None] = [namespace] if namespace else []
    request, _ = bridge(*tools, choice=ToolChoice(mode, (), [name], namespaces=spaces))
    assert request.tool_choice is not None
    assert request.tool_choice.named() == [(sent, None)]
    request, _ = bridge(*tools, choice=ToolChoice(mode, (), [name], namespaces=spaces), profile=HAS_ALL)
    assert request.tool_choice is not None
    assert request.tool_choice.named() == [(name, namespace)]


@pytest.mark.parametrize(
    ("tools", "known"),
    [
        ([function("add", NOTES)], {"add": "mcp__notes__add"}),
        ([custom("add", NOTES)], {"add": "mcp__notes__add"}),
        ([function("add", NOTES), function("add")], {}),
        ([function("add", NOTES), function("add", Namespace("b"))], {}),
        ([function("add")], {}),
    ],
)
def test_a_call_without_its_namespace_goes_to_the_only_tool(tools: list[Tool], known: dict[str, str]) -> None:
    names = NameTable(64)
    request = Request("responses", "m", [], tools=copy.deepcopy(tools))
    bridge_tools(request, [], LACKS_ALL, Knobs(), Losses(), names)
    assert {name: sent for name, sent in names.known.items() if name != sent} == known


# --- free-text tools --------------------------------------------------------------------------------------------------


def test_a_free_text_tool_becomes_a_function_with_one_text_field() -> None:
    losses = Losses()
    native = {"type": "custom", "name": "patch", "format": GRAMMAR}
    request, declared = bridge(custom("patch", native=native, description="Patches."), losses=losses)
    (tool,) = request.tools
    assert (tool.kind, tool.name, tool.native) == ("function", "patch", {})
    assert tool.description == "Patches.\n\nThe `input` must match this lark grammar:\nstart: /.+/"
    assert tool.schema is not None
    assert (tool.schema["required"], tool.schema["additionalProperties"]) == (["input"], False)
    assert tool.schema["properties"]["input"]["type"] == "string"
    assert declared == {"patch": OriginalTool("patch", None, "custom")}
    assert losses.rows == [(LossCode.CUSTOM_WRAPPED, "tools[0]", "became a function")]


@pytest.mark.parametrize("form", [None, {"type": "text"}])
def test_without_a_grammar_the_description_stays(form: Any) -> None:
    request, _ = bridge(custom("patch", native={"type": "custom", "format": form}, description="Patches."))
    assert request.tools[0].description == "Patches."


def test_a_grammar_as_chat_spells_it() -> None:
    inner = {"name": "p", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}}
    native = {"type": "custom", "custom": inner}
    request, _ = bridge(custom("p", native=native), origin="chat", custom_tool_bridge="wrap")
    assert request.tools[0].description == "The `input` must match this regex grammar:\na+"


@pytest.mark.parametrize(
    "form", [{"type": "grammar"}, {"type": "grammar", "grammar": "a+"}, {**GRAMMAR, "definition": ["a"]}]
)
def test_a_malformed_grammar_is_the_clients_error(form: Any) -> None:
    with pytest.raises(ClientRequestError, match=r"tools\[0\]: a grammar needs a syntax and a definition"):
        bridge(custom("p", native={"type": "custom", "format": form}))


def test_a_free_text_tool_in_a_namespace() -> None:
    request, declared = bridge(custom("exec", NOTES))
    assert request.tools[0].name == "mcp__notes__exec"
    assert declared == {"mcp__notes__exec": OriginalTool("exec", "mcp__notes", "custom")}


def test_a_free_text_tool_is_only_renamed_where_the_upstream_takes_it() -> None:
    parts: list[Part] = [
        ToolCall("c", "exec", "1", namespace="mcp__notes", custom=True),
        ToolResult("c", "2", custom=True),
    ]
    request, declared = bridge(custom("exec", NOTES), profile=HAS_CUSTOM, parts=parts)
    assert request.tools[0].kind == "custom"
    assert request.turns[0].parts == [
        ToolCall("c", "mcp__notes__exec", "1", custom=True),
        ToolResult("c", "2", custom=True),
    ]
    assert declared == {"mcp__notes__exec": OriginalTool("exec", "mcp__notes", "custom")}


def test_the_history_of_a_wrapped_tool_is_wrapped() -> None:
    text = 'a "quoted"\n\\ é 👋'
    request, _ = bridge(
        custom("p"), parts=[ToolCall("c", "p", text, custom=True), ToolResult("c", "done", custom=True)]
    )
    call, result = request.turns[0].parts
    assert isinstance(call, ToolCall)
    assert (json.loads(call.arguments), call.custom) == ({"input": text}, False)
    assert result == ToolResult("c", "done")


def test_a_chosen_free_text_tool_is_an_ordinary_choice_then() -> None:
    request, _ = bridge(
        custom("p", NOTES), choice=ToolChoice("tool", (), ["p"], custom=True, namespaces=["mcp__notes"])
    )
    assert request.tool_choice == ToolChoice("tool", (), ["mcp__notes__p"])


@pytest.mark.parametrize(
    ("origin", "knob", "taken"),
    [
        ("responses", "auto", True),
        ("chat", "auto", False),
        ("chat", "wrap", True),
        ("responses", "reject", False),
    ],
)
def test_the_knob_decides_whether_free_text_tools_are_wrapped(origin: str, knob: str, taken: bool) -> None:
    call: list[Part] = [ToolCall("c", "p", "x", ("call",), custom=True)]
    choice = ToolChoice("tool", ("choice",), ["p"], custom=True)
    wholes: list[tuple[str, list[Tool], Any]] = [
        ("tools[0]", [custom("p")], {}),
        ("call", [], {"parts": call}),
        ("choice", [], {"choice": choice}),
    ]
    for path, tools, fields in wholes:
        if taken or (path == "call" and knob == "auto"):  # a call is history, which is never refused
            bridge(*tools, origin=origin, custom_tool_bridge=knob, **fields)
            continue
        with pytest.raises(Unsupported) as caught:
            bridge(*tools, origin=origin, custom_tool_bridge=knob, **fields)
        assert caught.value.failure.param == path
        assert "custom_tool_bridge = wrap" in caught.value.failure.message


def test_a_strict_request_refuses_to_be_wrapped() -> None:
    with pytest.raises(Unsupported, match="custom_wrapped"):
        bridge(custom("p"), losses=Losses(strict=True))


# --- tool search ------------------------------------------------------------------------------------------------------


def test_a_tool_search_becomes_a_function() -> None:
    losses = Losses()
    parts: list[Part] = [
        ToolCall("c", "tool_search", '{"query":"notes"}', search=True),
        ToolResult(
            "c", [Text("Two:"), ToolReference("add", (), "mcp__notes"), ToolReference("plain")], ("r",), search=True
        ),
    ]
    request, declared = bridge(search(), function("add", NOTES), function("plain"), parts=parts, losses=losses)
    assert request.tools[0].kind == "function"
    assert declared["tool_search"] == OriginalTool("tool_search", None, "search")
    assert request.turns[0].parts == [
        ToolCall("c", "tool_search", '{"query":"notes"}'),
        ToolResult("c", "Two:\nTools found: mcp__notes__add, plain", ("r",)),
    ]
    assert losses.rows[-1][:2] == (LossCode.TOOL_SEARCH, "r")


def test_found_tools_are_called_as_they_are_sent() -> None:
    """The model would call a name that is not declared."""
    long = "x" * 70
    result = ToolResult("c", [ToolReference("list.all", (), "ns"), ToolReference(long)], search=True)
    request, _ = bridge(parts=[result])
    (found,) = request.turns[0].parts
    assert isinstance(found, ToolResult)
    assert isinstance(found.content, str)
    names = found.content.removeprefix("Tools found: ").split(", ")
    assert names[0].startswith("ns__list_all_")
    assert [len(name) <= 64 for name in names] == [True, True]


@pytest.mark.parametrize(
    ("content", "stated"), [([], "No tools found."), ("none", "none"), ([Text("No.")], "No.\nNo tools found.")]
)
def test_a_search_may_find_nothing(content: Any, stated: str) -> None:
    request, _ = bridge(parts=[ToolResult("c", content, search=True)])
    assert request.turns[0].parts == [ToolResult("c", stated)]


# --- append-only ------------------------------------------------------------------------------------------------------

_NAMES = st.sampled_from(("add", "patch", "tool_search"))
_CALLS = st.builds(
    ToolCall,
    st.just("c"),
    _NAMES,
    st.sampled_from(("{}", '{"a":"b"}', "free")),
    custom=st.booleans(),
    namespace=st.none() | st.just("mcp__notes"),
    search=st.booleans(),
)
_RESULTS = st.builds(
    ToolResult,
    st.just("c"),
    st.just("text") | st.lists(st.builds(ToolReference, _NAMES, st.just(()), st.none() | st.just("ns")), max_size=2),
    custom=st.booleans(),
    search=st.booleans(),
)
_TURNS = st.lists(st.lists(_CALLS | _RESULTS, max_size=3), max_size=5)


@given(_TURNS, st.sampled_from((LACKS_ALL, HAS_CUSTOM, HAS_ALL)), st.integers(0, 5))
def test_bridging_a_longer_history_extends_the_shorter_one(
    turns: list[list[Part]], profile: Profile, size: int
) -> None:
    def bridged(history: list[list[Part]]) -> list[list[Part]]:
        tools = [function("add", NOTES), custom("patch"), search()]
        made = [Turn("assistant", copy.deepcopy(parts)) for parts in history]
        request = Request("responses", "m", made, tools=tools)
        bridge_tools(request, request.turns, profile, Knobs(), Losses(), NameTable(64))
        return [turn.parts for turn in request.turns]

    whole = bridged(turns)
    assert whole == bridged(turns)
    assert bridged(turns[:size]) == whole[:size]
