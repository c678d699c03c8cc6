"""Writes tools and tool choice for a Chat upstream (mapping §6.1, §6.2, §6.5)."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.canonical.request import Json, Request, Tool, ToolChoice
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

WEB_SEARCH = "web_search"
"""Canonical name of the hosted search tool."""
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
        elif tool.kind == "hosted":
            written = _write_hosted(tool, knobs, losses)
            web_search = web_search if written is None else written
            continue
        else:
            raise Unsupported(tool.at, f"the tool {tool.name!r} is known to its own provider's models only")
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
        if origin != DIALECT and ("type" not in schema or "properties" not in schema):
            schema = _complete_schema(schema)
        function["parameters"] = schema
    if tool.strict is not None:
        if profile.strict_tools:
            function["strict"] = tool.strict
        elif tool.strict:
            losses.add(LossCode.SCHEMA_STRICTNESS, tool.at, "the upstream takes no strict tools")
    if tool.options:
        _drop_options(tool, losses)
    return {"type": "function", "function": function}


def _drop_options(tool: Tool, losses: Losses) -> None:
    for option, value in tool.options.items():
        if value is None or value is False:
            continue
        if option == "async":  # changes the order of turns (mapping §6.1)
            raise Unsupported((*tool.at, option), "asynchronous tools cannot be sent to this upstream")
        if option == "defer_loading":
            losses.add(LossCode.TOOL_SEARCH, (*tool.at, option), "loaded at once")
        else:
            losses.add(LossCode.TOOL_OPTION, (*tool.at, option))


def _complete_schema(schema: Json) -> Json:
    """Return the schema with `type` and `properties`, without which OpenAI rejects an object schema."""
    if any(key in schema for key in ("anyOf", "oneOf", "allOf", "$ref", "enum", "not")):
        return schema
    complete: Json = schema if "type" in schema else {"type": "object", **schema}
    if complete["type"] == "object" and "properties" not in complete:
        complete = {**complete, "properties": {}}
    return complete


def _write_custom(tool: Tool, losses: Losses, names: NameTable) -> Json:
    _drop_options(tool, losses)
    custom: Json = {"name": names.fit(tool.name, tool.at)}
    if tool.description is not None:
        custom["description"] = tool.description
    native = tool.native.get("custom") if tool.origin == DIALECT else tool.native
    form = native.get("format") if type(native) is dict else None
    if type(form) is dict:
        if form.get("type") == "grammar" and "grammar" not in form:  # Responses has the grammar's fields here
            form = {"type": "grammar", "grammar": {k: form[k] for k in ("definition", "syntax") if k in form}}
        custom["format"] = form
    return {"type": "custom", "custom": custom}


def _write_hosted(tool: Tool, knobs: Knobs, losses: Losses) -> Json | None:
    if tool.origin == DIALECT:
        return tool.native
    if knobs.hosted_tools == "reject":
        raise Unsupported(tool.at, f"the upstream does not have the provider-run tool {tool.name!r}")
    is_search = tool.name == WEB_SEARCH or str(tool.native.get("type")).startswith(WEB_SEARCH)
    if knobs.hosted_tools == "drop" or not is_search:
        losses.add(LossCode.HOSTED_TOOL, tool.at)
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
    if sent:
        return choice.mode
    if choice.mode == "required":
        raise Unsupported(choice.at, "a tool call is required, but no tool is left to call")
    return None  # OpenAI rejects a choice without tools


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
