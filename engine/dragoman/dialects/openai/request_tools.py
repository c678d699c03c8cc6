"""Tools and tool choice: the common part of Chat and Responses requests (mapping §6.1, §6.2, §6.5).

Chat nests the fields of a tool, a grammar and a choice in an object of their kind, Responses does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from dragoman.canonical.request import Json, Tool, ToolChoice
from dragoman.dialects.shared.json_fields import kind_of, one_of, required
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

WEB_SEARCH: Final = "web_search"
"""Canonical name of the provider-run search tool."""
_AT: Final = ("tool_choice",)
# `any` is the word of Messages and of other vendors.
_MODES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_SHAPES: Final = frozenset({"anyOf", "oneOf", "allOf", "$ref", "enum", "not"})


# --- reading ----------------------------------------------------------------------------------------------------------


def read_choice(body: Json, read_object: Callable[[Json, str], ToolChoice]) -> ToolChoice | None:
    """Return `tool_choice`: a mode, or what `read_object(choice, kind)` returns for any other object.

    Raises `ClientRequestError` for another type and an unknown mode.
    """
    choice = body.get("tool_choice")
    if choice is None:
        return None
    if type(choice) is str:
        return ToolChoice(_MODES[one_of(body, "tool_choice", _MODES) or "auto"], _AT)
    if type(choice) is not dict:
        raise ClientRequestError(_AT, f"expected a string or an object, got {kind_of(choice)}")
    kind = "function" if "type" not in choice and "function" in choice else required(choice, "type", str, _AT)
    return ToolChoice(_MODES[kind], _AT) if kind in _MODES else read_object(choice, kind)


# --- writing ----------------------------------------------------------------------------------------------------------


def complete_schema(schema: Json) -> Json:
    """Return a schema with `type` and `properties`, which OpenAI requires of objects. Other shapes are unchanged."""
    if ("type" in schema and "properties" in schema) or not _SHAPES.isdisjoint(schema):
        return schema
    complete: Json = schema if "type" in schema else {"type": "object", **schema}
    if complete["type"] == "object" and "properties" not in complete:
        complete = {**complete, "properties": {}}
    return complete


def drop_options(tool: Tool, losses: Losses, kept: Iterable[str] = ()) -> None:
    """Record a loss for each option of a tool that is not sent. Raises `Unsupported` for an asynchronous tool."""
    for option, value in tool.options.items():
        if value is None or value is False or option in kept:
            continue
        if option == "async":  # changes the order of turns (mapping §6.1)
            raise Unsupported((*tool.at, option), "asynchronous tools cannot be sent to this upstream")
        if option == "defer_loading":  # without a tool search the model would never see the tool
            losses.add(LossCode.TOOL_SEARCH, (*tool.at, option), "loaded at once")
        else:
            losses.add(LossCode.TOOL_OPTION, (*tool.at, option))


def input_format(tool: Tool, *, nested: bool) -> Json | None:
    """Return the format of a custom tool's input, or None. `nested` is true for Chat."""
    native = tool.native.get("custom", tool.native)
    form: Any = native.get("format") if type(native) is dict else None
    if type(form) is not dict:
        return None
    grammar = form if nested else form.get("grammar")
    if form.get("type") != "grammar" or type(grammar) is not dict or (nested and "grammar" in form):
        return form
    keys = ("definition", "syntax") if nested else ("syntax", "definition")
    members = {key: grammar[key] for key in keys if key in grammar}
    return {"type": "grammar", "grammar": members} if nested else {"type": "grammar", **members}


def is_web_search(tool: Tool) -> bool:
    """True for a provider-run web search of any dialect."""
    return tool.name == WEB_SEARCH or str(tool.native.get("type")).startswith(WEB_SEARCH)


def map_hosted(tool: Tool, knobs: Knobs, losses: Losses, write: Callable[[Tool], Json | None]) -> Json | None:
    """Return what `write` returns for a provider-run tool of another dialect, or None if it is dropped.

    Raises `Unsupported` if the knob `hosted_tools` is `reject`, and for a tool that is not run by a provider.
    """
    if tool.kind != "hosted":
        raise Unsupported(tool.at, f"the tool {tool.name!r} is known to its own provider's models only")
    if knobs.hosted_tools == "reject":
        raise Unsupported(tool.at, f"the upstream does not have the provider-run tool {tool.name!r}")
    written = write(tool) if knobs.hosted_tools == "map" else None
    if written is None:
        losses.add(LossCode.HOSTED_TOOL, tool.at)
    return written


def write_mode(choice: ToolChoice, tools: object) -> str | None:
    """Return the mode of a choice that names no tool. Return None without tools, with which OpenAI rejects a choice.

    Raises `Unsupported` if a call is required and there is no tool.
    """
    if tools:
        return choice.mode
    if choice.mode == "required":
        raise Unsupported(choice.at, "a tool call is required, but no tool is left to call")
    return None
