"""Writes the tools and the tool choice of a Messages request (mapping §6.1, §6.2, §6.5).

The order of the tools is kept: they are the beginning of the cached prefix.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json, Request, Tool, ToolChoice
from dragoman.dialects.messages.block_types import WEB_SEARCH, WEB_SEARCH_OPTIONS
from dragoman.dialects.messages.request.write_cache_marks import CacheMarks
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.errors import Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_WEB_SEARCH_TYPE: Final = "web_search_20250305"
_UNIONS: Final = frozenset({"anyOf", "oneOf", "allOf"})
_SCHEMA_AT: Final[dict[str, Path]] = {"chat": ("function", "parameters"), "responses": ("parameters",)}
"""Client's dialect → path of the schema in a tool, for error messages."""


def write_tools(
    request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable, marks: CacheMarks
) -> tuple[list[Json], dict[str, str]]:
    """Return the tools to send, and the upstream name of each by its client name.

    Raises `Unsupported` for free-text tools, typed tools of other dialects, client-run tool searches, tools in a
    namespace, and schemas whose root is not a plain object.
    """
    out: list[Json] = []
    sent: dict[str, str] = {}
    searches: int | None = None
    for tool in request.tools:
        if tool.namespace is not None:
            raise Unsupported(tool.at, f"a Messages upstream has no namespaces: {tool.namespace.name!r}")
        if tool.kind == "function":
            written = _write_function(tool, profile, losses, names)
            if tool.cache is not None:
                marks.put(written, tool.cache, tool.at)
        elif tool.origin == DIALECT and tool.native and not (profile.rewrite and tool.kind == "hosted"):
            written = tool.native
            names.fit(tool.name, tool.at)
        elif tool.kind == "hosted":
            if searches is None:
                searches = sum(other.name == WEB_SEARCH for other in request.tools)
            mapped = _map_hosted(tool, knobs, losses, taken=searches > (tool.name == WEB_SEARCH))
            if mapped is None:
                continue
            written = mapped
            names.fit(written["name"], tool.at)
        else:
            what = "free-text (custom) tools" if tool.kind == "custom" else f"the built-in tool {tool.name!r}"
            raise Unsupported(tool.at, f"{what} cannot be sent to a Messages upstream: its tools take JSON objects")
        out.append(written)
        sent[tool.name] = written.get("name", tool.name)
    return out, sent


def _write_function(tool: Tool, profile: Profile, losses: Losses, names: NameTable) -> Json:
    written: Json = {"name": names.fit(tool.name, tool.at)}
    if tool.description is not None:
        written["description"] = tool.description
    written["input_schema"] = _write_schema(tool, losses)
    if tool.strict is True:
        written["strict"] = True
    if not tool.options:
        return written
    if tool.origin == DIALECT and not profile.rewrite:
        written.update(tool.options)
        return written
    for key, value in tool.options.items():
        if key == "defer_loading":
            # Without a search tool it would hide the tool forever.
            if value:
                losses.add(LossCode.TOOL_SEARCH, (*tool.at, key), "loaded at once")
        elif key == "async" and value:  # changes the order of turns (mapping §6.1)
            raise Unsupported((*tool.at, key), "asynchronous tools cannot be sent to a Messages upstream")
        elif value:
            losses.add(LossCode.TOOL_OPTION, (*tool.at, key))
    return written


def _write_schema(tool: Tool, losses: Losses) -> Json:
    schema = tool.schema
    if schema is None:
        return {"type": "object", "properties": {}}
    kind = schema.get("type")
    if kind == "object" and _UNIONS.isdisjoint(schema):
        return schema
    at = (*tool.at, *_SCHEMA_AT.get(tool.origin, ("input_schema",)))
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            raise Unsupported(
                (*at, keyword), "a Messages upstream takes no such keyword at the root of a tool's schema"
            )
    if kind is None or (type(kind) is list and "object" in kind):
        if kind is not None:
            losses.add(LossCode.SCHEMA_SANITISED, at, "its root can be an object only")
        return {"type": "object", **{key: value for key, value in schema.items() if key != "type"}}
    raise Unsupported((*at, "type"), f"a tool's schema must be an object for a Messages upstream; got {kind!r}")


def _map_hosted(tool: Tool, knobs: Knobs, losses: Losses, *, taken: bool) -> Json | None:
    """Return a provider-run tool of another dialect as Anthropic's, or None if it is dropped.

    `taken` is True if another tool has the name that it would get.
    """
    if knobs.hosted_tools == "reject":
        raise Unsupported(tool.at, f"the provider-run tool {tool.name!r} does not exist at this upstream")
    is_search = tool.name == WEB_SEARCH or str(tool.native.get("type", "")).startswith(WEB_SEARCH)
    if knobs.hosted_tools != "map" or not is_search or taken:
        losses.add(LossCode.HOSTED_TOOL, tool.at)
        return None
    written: Json = {"type": _WEB_SEARCH_TYPE, "name": WEB_SEARCH}
    for key, value in tool.options.items():
        if not value and value is not False:
            continue
        if key == "user_location" and type(value) is dict:
            written[key] = {"type": "approximate", **{k: v for k, v in value.items() if v is not None and k != "type"}}
        elif key in WEB_SEARCH_OPTIONS and key != "user_location":
            written[key] = value
        else:
            losses.add(LossCode.TOOL_OPTION, (*tool.at, key))
    return written


def write_choice(
    request: Request, tools: list[Json], sent: dict[str, str], losses: Losses
) -> tuple[Json | None, list[Json]]:
    """Return the `tool_choice` to send, or None, and the tools to send: a choice of allowed tools filters them.

    Raises `Unsupported` if the choice forces a tool that is not sent.
    """
    choice = request.tool_choice
    if choice is None:
        # Messages can forbid parallel calls only inside a choice.
        if request.parallel is False and tools:
            return {"type": "auto", "disable_parallel_tool_use": True}, tools
        return None, tools
    if choice.custom:
        raise Unsupported(choice.at, "a free-text (custom) tool cannot be chosen on a Messages upstream")
    if choice.mode == "tool":
        for name in choice.names:
            if name in sent:
                continue
            why = "is run by another provider and was left out" if choice.hosted else "is not among the tools"
            raise Unsupported(choice.at, f"the chosen tool {name!r} {why}")
    written: Json
    if choice.mode == "tool":
        if not choice.names:
            raise Unsupported(choice.at, "the chosen tool is run by another provider")
        written = {"type": "tool", "name": sent[choice.names[0]]}
    elif choice.mode == "allowed":
        written, tools = _write_allowed(choice, tools, sent, losses)
    elif choice.mode == "required":
        if not tools:
            raise Unsupported(choice.at, "a tool call is required, but there is no tool that can be sent")
        written = {"type": "any"}
    else:
        written = {"type": choice.mode}
    if not tools:
        return None, tools
    if request.parallel is not None and written["type"] != "none":
        written["disable_parallel_tool_use"] = not request.parallel
    return written, tools


def _write_allowed(
    choice: ToolChoice, tools: list[Json], sent: dict[str, str], losses: Losses
) -> tuple[Json, list[Json]]:
    allowed = [sent[name] for name in choice.names if name in sent]
    if choice.require and not allowed:
        raise Unsupported(choice.at, "a tool call is required, but none of the allowed tools can be sent")
    if choice.require and len(allowed) == 1:
        return {"type": "tool", "name": allowed[0]}, tools
    names = frozenset(allowed)
    kept = [tool for tool in tools if tool["name"] in names]
    if len(kept) < len(tools):
        losses.add(LossCode.TOOLS_FILTERED, choice.at, "the others were not sent")
    return {"type": "any" if choice.require else "auto"}, kept
