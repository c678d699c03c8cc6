"""Reading the items of Responses requests: how they group into turns, every kind, every content part."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.parts import Image, Inline, Native, Text, ToolCall, ToolResult, Unread
from dragoman.canonical.request import Json, OutputFormat, Thinking
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.losses import LossCode
from dragoman.reasoning.compacted_history import CompactedHistory, digest, summary_message, wrap_history
from support.responses_input import ASSISTANT, USER, call, output, part, read, shape


def refused(*items: Any) -> ClientRequestError:
    with pytest.raises(ClientRequestError) as caught:
        read(*items)
    return caught.value


def param(*items: Any) -> str | None:
    return refused(*items).failure.param


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}], "status": "completed"},
        {"type": "message", "id": "msg_1", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "x"}], "id": "msg_1"},
        {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}],
        },
    ],
)
def test_all_spellings_of_a_message(message: Json) -> None:
    assert part(message) == Text("x", ("input", 0, "content", 0))


def test_a_bare_string_is_remembered_as_one() -> None:
    assert read(USER)[0].turns[0].plain
    assert read(ASSISTANT)[0].turns[0].plain
    assert not read({"role": "user", "content": [{"type": "input_text", "text": "x"}]})[0].turns[0].plain


def test_phase_has_a_row() -> None:
    request, rows = read(USER, {**ASSISTANT, "phase": "commentary"}, {**ASSISTANT, "phase": None})
    assert rows == [(LossCode.PHASE, "input[1].phase")]
    assert shape(request)[1] == ("assistant", ["Text", "Text"])


def test_roles_and_contents_that_there_are_not() -> None:
    assert param({"role": "robot", "content": "x"}) == "input[0].role"
    assert "function_call_output" in refused({"role": "tool", "content": "x"}).failure.message
    assert param({"role": "user"}) == param({"role": "user", "content": 5}) == "input[0].content"
    assert param({"content": "x"}) == "input[0].type"


def test_calls() -> None:
    assert part(call("c", status="completed")) == ToolCall("c", "f", "{}", ("input", 0))
    assert part(call("c", namespace="ns")).namespace == "ns"
    assert part(call("c", namespace="", caller={"type": "direct"}, arguments=' {"a":1.0}')).arguments == ' {"a":1.0}'
    custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "p", "input": "*** Begin"}
    assert part(custom) == ToolCall("c", "p", "*** Begin", ("input", 0), custom=True)
    assert part({**custom, "namespace": "functions"}).namespace == "functions"


def test_fields_that_only_responses_calls_have_are_a_loss() -> None:
    program = {"type": "program", "caller_id": "p"}
    item = call("c", caller=program, **{"async": True})
    assert read(USER, item)[1] == [(LossCode.CALL_META, "input[1].caller"), (LossCode.CALL_META, "input[1].async")]
    assert read(output("c", caller=program))[1] == [(LossCode.CALL_META, "input[0].caller")]


def test_calls_need_id_and_name() -> None:
    assert param(call("")) == "input[0].call_id"
    assert param({**call("c"), "name": ""}) == "input[0].name"
    assert param({"type": "function_call_output", "call_id": 5, "output": "x"}) == "input[0].call_id"


@pytest.mark.parametrize(("given", "text"), [({"a": 1}, '{"a":1}'), ([1], "[1]"), (None, ""), (5, "5"), ("{", "{")])
def test_arguments_of_any_kind_are_read_as_text(given: Any, text: str) -> None:
    assert part(call("c", arguments=given)).arguments == text
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": given}
    assert part(custom).arguments == text


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("text", "text"),
        ("", ""),
        (None, ""),
        ([], ""),
        ({"b": 1, "a": "é"}, '{"b":1,"a":"é"}'),
        ([{"type": "text", "text": "x"}], '[{"type":"text","text":"x"}]'),
        ([1, "x"], '[1,"x"]'),
        (5, "5"),
    ],
)
def test_outputs_as_text(given: Any, wanted: str) -> None:
    assert part(output("c", given)) == ToolResult("c", wanted, ("input", 0))


PNG = "data:image/png;base64,AAAA"


def test_outputs_as_parts() -> None:
    given = [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": PNG, "detail": "high"}]
    result = part({"type": "custom_tool_call_output", "id": "ctco_1", "call_id": "c", "output": given})
    at = ("input", 0, "output")
    assert result == ToolResult(
        "c", [Text("x", (*at, 0)), Image(Inline("image/png", "AAAA"), (*at, 1), "high")], ("input", 0), custom=True
    )
    (unread,) = part(output("c", [{"type": "input_video"}])).content
    assert type(unread) is Unread
    assert unread.error.failure.param == "input[0].output[0]"


def test_search_calls() -> None:
    item = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "é", "n": 3}}
    wanted = ToolCall("c", "tool_search", '{"query":"é","n":3}', ("input", 0), search=True)
    assert part(item) == wanted
    assert part({**item, "arguments": '{"query":"é","n":3}'}) == wanted
    unsaid = {key: value for key, value in item.items() if key != "execution"}
    assert part(unsaid) == wanted


def test_searches_by_the_server_are_left_to_the_writers() -> None:
    asked: Json = {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}}
    found = {"type": "tool_search_output", "execution": "server", "tools": [{"type": "function", "name": "g"}]}
    request, rows = read(USER, asked, found, call("c"), output("c"))
    assert request.turns[1].parts[:2] == [
        Native("responses", "tool_search_call", asked, LossCode.TOOL_SEARCH, ("input", 1)),
        Native("responses", "tool_search_output", found, LossCode.TOOL_SEARCH, ("input", 2)),
    ]
    assert [tool.name for tool in request.tools] == ["g"]
    assert rows == []


@pytest.mark.parametrize(
    "kind",
    [
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
    ],
)
def test_hosted_history(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "status": "completed"}
    request, _ = read(USER, item, ASSISTANT)
    assert request.turns[1].parts == [
        Native("responses", kind, item, LossCode.HOSTED_HISTORY, ("input", 1)),
        Text("said", ("input", 2, "content"), apart=True),
    ]


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        *((f"mcp_approval_{end}", "leave the item out") for end in ("request", "response")),
        ("program", "leave the item out"),
        ("program_output", "leave the item out"),
        ("compaction", "send the items it stands for"),
        ("compaction_trigger", "ask for a summary"),
        ("item_reference", "send the item itself"),
        ("no_such_item", "leave it out"),
    ],
)
def test_items_that_are_refused(kind: str, advice: str) -> None:
    error = refused(USER, {"type": kind, "id": "x_1", "call_id": "c"})
    assert isinstance(error, Unsupported)
    assert error.failure.param == "input[1].type"
    assert advice in error.failure.message


def test_a_reference_without_a_type() -> None:
    assert "send the item itself" in refused({"id": "msg_1"}).failure.message


def test_a_compacted_history_is_read_in_place_of_what_it_covers() -> None:
    phased = {"role": "assistant", "content": "Thinking.", "phase": "commentary"}
    old = [USER, phased, call("1"), output("1")]
    history = CompactedHistory("Sum.", [USER], [ASSISTANT], frozenset(map(digest, old)))
    item = {"type": "compaction", "encrypted_content": wrap_history(history, "m")}
    new = {"role": "user", "content": "Next?"}
    request, rows = read(*old, item, new)
    assert shape(request) == shape(read(USER, summary_message("Sum."), ASSISTANT, new)[0])
    assert [turn.at for turn in request.turns] == [("input", 4)] * 3 + [("input", 5)]
    assert shape(read(*old, {"type": "compaction_trigger"}, item, new)[0]) == shape(request)
    # What is not sent is no loss, and what stays is one.
    assert rows == []
    _, rows = read(phased, {"type": "compaction", "encrypted_content": wrap_history(CompactedHistory("Sum."), "m")})
    assert rows == [(LossCode.PHASE, "input[0].phase")]
    # An item after it, and another history.
    second = CompactedHistory("Two.", [USER], (), frozenset(map(digest, [*old, USER, ASSISTANT, new])))
    again = {"type": "compaction", "encrypted_content": wrap_history(second, "m")}
    request, rows = read(*old, item, phased, again, new)
    assert shape(request) == shape(read(summary_message("Sum."), USER, summary_message("Two."), new)[0])
    assert read(item, "no object", again)[0].turns[-3].parts == [Text('"no object"', ("input", 1))]
    wrong = CompactedHistory("Sum.", [{"type": "no_such_item"}])
    assert param(USER, {"type": "compaction", "encrypted_content": wrap_history(wrong, "m")}) == "input[1].type"


def test_configuration_updates() -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "high"}}
    form = {"type": "json_schema", "name": "n", "schema": {}}
    items = (update, USER, {**update, "reasoning": {"effort": "low"}, "text": {"format": form}})
    request, rows = read(*items, reasoning={"effort": "max", "summary": "auto"}, text={"format": {"type": "text"}})
    assert request.thinking == Thinking("low", ("input", 2, "reasoning", "effort"), summary="auto")
    assert request.format == OutputFormat("json_schema", ("input", 2, "text", "format"), "n", {})
    paths = ["input[0].reasoning.effort", "input[2].reasoning.effort", "input[2].text.format"]
    assert rows == [(LossCode.PER_TURN_EFFORT, path) for path in paths]
    assert len(request.turns) == 1
    plain = {"type": "configuration_update", "text": {"format": {"type": "text"}}}
    assert read(USER, plain, text={"format": form})[0].format is None
    assert read(USER, {"type": "configuration_update"})[1] == []
