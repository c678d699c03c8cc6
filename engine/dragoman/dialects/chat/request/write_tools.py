"""Writes tools and tool choice for a Chat upstream (mapping §6.1, §6.2, §6.5)."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.canonical.request import Json, Request, Tool, ToolChoice
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.openai.request_tools import (
    complete_schema,
    drop_options,
    input_format,
    is_web_search,
    map_hosted,
    write_mode,
)
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_FORCING = frozenset({"named", "words"})


class WrittenTools(NamedTuple):
    """The request fields `tools`, `tool_choice` and `web_search_options`."""

    tools: list[Json]
    choice: str | Json | None
    web_search: Json | None


def write_tools(request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable) -> WrittenTools:
    """Return the fields for tools. Their order is kept: it is part of the cached prefix.

    Raises `Unsupported` for tools that only another provider's models know, and if a missing tool is forced.
    """
    tools: list[Json] = []
    web_search: Json | None = None
    sent: dict[str, Tool] = {}
    for tool in request.tools:
        if tool.namespace is not None:
            raise Unsupported(tool.at, f"the upstream has no namespaces: {tool.namespace.name!r}")
        if tool.cache is not None:  # Chat marks content parts only
            losses.add(LossCode.CACHE_HINT, tool.at)
        if tool.kind == "function":
            tools.append(_write_function(tool, request.origin, profile, losses, names))
        elif tool.kind == "custom":
            tools.append(_write_custom(tool, losses, names))
        else:
            if tool.kind == "hosted" and tool.origin == DIALECT:
                web_search = tool.native
            else:
                written = map_hosted(tool, knobs, losses, lambda tool: _write_search(tool, losses))
                web_search = web_search if written is None else written
            continue
        sent[tool.name] = tool
    choice = _write_choice(request.tool_choice, sent, names)
    if choice is not None and profile.tool_choice != "all":
        choice, tools = _adapt_choice(choice, tools, request.tool_choice, profile.tool_choice, losses)
    return WrittenTools(tools, choice, web_search)


def _write_function(tool: Tool, origin: str, profile: Profile, losses: Losses, names: NameTable) -> Json:
    function: Json = {"name": names.fit(tool.name, tool.at)}
    if tool.description is not None:
        function["description"] = tool.description
    schema = tool.schema
    if schema is not None:
        function["parameters"] = schema if origin == DIALECT else complete_schema(schema)
    if tool.strict is not None:
        if profile.strict_tools:
            function["strict"] = tool.strict
        elif tool.strict:
            losses.add(LossCode.SCHEMA_STRICTNESS, tool.at, "the upstream takes no strict tools")
    if tool.options:
        drop_options(tool, losses)
    return {"type": "function", "function": function}


def _write_custom(tool: Tool, losses: Losses, names: NameTable) -> Json:
    drop_options(tool, losses)
    custom: Json = {"name": names.fit(tool.name, tool.at)}
    if tool.description is not None:
        custom["description"] = tool.description
    form = input_format(tool, nested=True)
    if form is not None:
        custom["format"] = form
    return {"type": "custom", "custom": custom}


def _write_search(tool: Tool, losses: Losses) -> Json | None:
    if not is_web_search(tool):
        return None
    written: Json = {}
    for option, value in tool.options.items():
        if value is None:
            continue
        if option == "search_context_size":
            written[option] = value
        elif option == "user_location" and type(value) is dict:
            approximate = {k: v for k, v in value.items() if k != "type"}
            written[option] = {"type": "approximate", "approximate": approximate}
        else:  # Chat cannot restrict domains
            losses.add(LossCode.TOOL_OPTION, (*tool.at, option))
    return written


def _write_choice(choice: ToolChoice | None, sent: dict[str, Tool], names: NameTable) -> str | Json | None:
    if choice is None:
        return None
    if choice.hosted:
        raise Unsupported(choice.at, "a provider-run tool cannot be forced on this upstream")
    if choice.mode in ("tool", "allowed"):
        for name in choice.names:
            if name not in sent:
                raise Unsupported(choice.at, f"there is no tool {name!r} to choose")
        named = [_name_choice(sent[name], names) for name in choice.names]
        if choice.mode == "tool":
            return named[0]
        mode = "required" if choice.require else "auto"
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}
    return write_mode(choice, sent)


def _name_choice(tool: Tool, names: NameTable) -> Json:
    return {"type": tool.kind, tool.kind: {"name": names.fit(tool.name, tool.at)}}


def _adapt_choice(
    choice: str | Json, tools: list[Json], requested: ToolChoice | None, accepted: str, losses: Losses
) -> tuple[str | Json | None, list[Json]]:
    """Return the choice to send, or None for none, and the tools to send.

    `accepted` is the profile's `tool_choice`, other than `all`.
    """
    at = requested.at if requested is not None else ("tool_choice",)
    if type(choice) is dict:
        if choice["type"] == "allowed_tools":
            allowed = choice["allowed_tools"]
            tools = _only(allowed["tools"], tools, at, losses)
            choice = allowed["mode"]
        elif accepted != "named":
            tools = _only([choice], tools, at, losses)
            choice = "required"
    if choice == "none":
        if accepted != "auto":
            return choice, tools
        if tools:
            losses.add(LossCode.TOOLS_FILTERED, at, "none of the tools was sent: the upstream cannot forbid tool calls")
        return None, []
    if choice != "auto" and accepted not in _FORCING:
        losses.add(LossCode.CHOICE_DOWNGRADED, at, "the upstream takes no forced choice; auto was sent")
        choice = "auto"
    return choice, tools


def _only(named: list[Json], tools: list[Json], at: tuple[str | int, ...], losses: Losses) -> list[Json]:
    """Return the tools whose name is in `named`; entries have the shape `{type, <type>: {name}}`."""
    names = {entry[entry["type"]]["name"] for entry in named}
    kept = [tool for tool in tools if tool[tool["type"]]["name"] in names]
    if len(kept) < len(tools):
        losses.add(LossCode.TOOLS_FILTERED, at, "the others were not sent")
    return kept
