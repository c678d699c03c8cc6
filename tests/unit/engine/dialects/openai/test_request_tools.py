"""The common part of the tools of Chat and Responses requests."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.request import Json, Tool, ToolChoice
from dragoman.dialects.openai.request_tools import (
    complete_schema,
    drop_options,
    input_format,
    map_hosted,
    read_choice,
    write_mode,
)
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

AT = ("tools", 0)
FLAT: Json = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
NESTED: Json = {"type": "grammar", "grammar": {"definition": "start: WORD", "syntax": "lark"}}


def rows(losses: Losses) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in losses.rows]


def choice_of(value: Any) -> ToolChoice | None:
    return read_choice({"tool_choice": value}, lambda choice, kind: ToolChoice("tool", (), [kind, choice["type"]]))


@pytest.mark.parametrize(
    ("value", "mode"),
    [("none", "none"), ("any", "required"), ({"type": "auto"}, "auto"), ({"type": "any"}, "required")],
)
def test_a_mode_is_a_word_or_an_object(value: Any, mode: str) -> None:
    assert choice_of(value) == ToolChoice(mode, ("tool_choice",))


def test_another_object_is_read_by_the_dialect() -> None:
    assert choice_of(None) is None
    assert choice_of({"type": "custom"}) == ToolChoice("tool", (), ["custom", "custom"])


@pytest.mark.parametrize(
    ("value", "path"), [("some", "tool_choice"), (3, "tool_choice"), ({}, "tool_choice.type")], ids=str
)
def test_other_choices_are_rejected(value: Any, path: str) -> None:
    with pytest.raises(ClientRequestError) as error:
        choice_of(value)
    assert error.value.failure.param == path


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "string"}, {"type": "string"}),
        ({"anyOf": []}, {"anyOf": []}),
    ],
    ids=str,
)
def test_a_schema_is_completed(schema: Json, sent: Json) -> None:
    assert complete_schema(schema) == sent


def test_options_are_dropped_with_a_loss() -> None:
    losses = Losses()
    tool = Tool("function", "f", AT, options={"defer_loading": True, "output_schema": {}, "allowed_callers": None})
    drop_options(tool, losses)
    assert rows(losses) == [
        (LossCode.TOOL_SEARCH, "tools[0].defer_loading", "loaded at once"),
        (LossCode.TOOL_OPTION, "tools[0].output_schema", "dropped"),
    ]
    drop_options(tool, kept := Losses(), ("defer_loading", "output_schema"))
    assert rows(kept) == []


def test_an_asynchronous_tool_is_rejected() -> None:
    drop_options(Tool("function", "f", AT, options={"async": False}), Losses())
    with pytest.raises(Unsupported) as error:
        drop_options(Tool("function", "f", AT, options={"async": True}), Losses())
    assert error.value.failure.param == "tools[0].async"


@pytest.mark.parametrize("native", [{"format": FLAT}, {"custom": {"format": NESTED}}], ids=["responses", "chat"])
def test_a_grammar_has_the_form_of_the_dialect(native: Json) -> None:
    tool = Tool("custom", "c", AT, native=native)
    assert (input_format(tool, nested=True), input_format(tool, nested=False)) == (NESTED, FLAT)


@pytest.mark.parametrize(("form", "sent"), [({"type": "text"}, {"type": "text"}), ("lark", None), (None, None)])
def test_other_formats(form: Any, sent: Json | None) -> None:
    tool = Tool("custom", "c", AT, native={"format": form})
    assert (input_format(tool, nested=True), input_format(tool, nested=False)) == (sent, sent)


def test_hosted_tools_are_mapped_dropped_or_rejected() -> None:
    tool = Tool("hosted", "file_search", AT)
    assert map_hosted(tool, Knobs(hosted_tools="map"), losses := Losses(), lambda tool: {"name": tool.name}) == {
        "name": "file_search"
    }
    assert rows(losses) == []
    for knobs in (Knobs(hosted_tools="map"), Knobs(hosted_tools="drop")):
        assert map_hosted(tool, knobs, losses := Losses(), lambda tool: None) is None
        assert rows(losses) == [(LossCode.HOSTED_TOOL, "tools[0]", "dropped")]
    with pytest.raises(Unsupported, match="does not have the provider-run tool"):
        map_hosted(tool, Knobs(hosted_tools="reject"), Losses(), lambda tool: {})
    with pytest.raises(Unsupported, match="known to its own provider's models only"):
        map_hosted(Tool("typed", "bash", AT), Knobs(), Losses(), lambda tool: {})


def test_a_mode_needs_tools() -> None:
    assert write_mode(ToolChoice("none"), ["f"]) == "none"
    assert write_mode(ToolChoice("auto"), []) is None
    with pytest.raises(Unsupported, match="no tool is left"):
        write_mode(ToolChoice("required"), [])
