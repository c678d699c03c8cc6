"""Reads the tools and the tool choice of a Messages request (mapping §6.1, §6.2, §6.5).

The order of the tools is kept: they are the beginning of the cached prefix.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json, Tool, ToolChoice
from dragoman.dialects.messages.block_types import WEB_SEARCH_OPTIONS
from dragoman.dialects.messages.request.read_content import read_cache
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.dialects.shared.json_fields import drop_unknown, kind_of, optional, required, required_text, typed
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.tools.client_tools import CLIENT_TOOLS

_OPTIONS: Final = ("defer_loading", "eager_input_streaming", "input_examples", "allowed_callers")
_TOOL_KEYS: Final = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control", *_OPTIONS})
_HOSTED: Final = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_")
_SEARCH_TOOL: Final = frozenset({"type", "name", *WEB_SEARCH_OPTIONS})
_CHOICE_KEYS: Final = frozenset({"type", "name", "disable_parallel_tool_use"})
_CHANGE_KEYS: Final = frozenset({"type", "tool", "cache_control"})
_CHANGED_KEYS: Final = frozenset({"type", "name", "definition"})
# `required` and `function` are the OpenAI dialects' words.
_MODES: Final = {"auto": "auto", "any": "required", "required": "required", "tool": "tool", "none": "none"}
_WORDS: Final = frozenset(_MODES) - {"tool"}


def read_tools(body: Json, losses: Losses) -> list[Tool]:
    """Return the declared tools. Exact repetitions of a tool are left out.

    Raises `ClientRequestError` for a malformed tool or a repeated name, `Unsupported` for kinds that exist only at
    Anthropic (toolsets).
    """
    tools: list[Tool] = []
    seen: dict[str, Any] = {}
    for index, given in enumerate(optional(body, "tools", list) or ()):
        at = ("tools", index)
        tool = _read_plain(given, at) or read_tool(given, at, losses)
        if tool.name not in seen:
            tools.append(tool)
        elif seen[tool.name] != given:
            raise ClientRequestError((*at, "name"), f"the tool name {tool.name!r} is given twice")
        else:
            losses.add(LossCode.REQUEST_NOISE, at, "the same tool again")
        seen[tool.name] = given
    return tools


def _read_plain(given: Any, at: Path) -> Tool | None:
    """Return a tool that has a name, a description and a schema, as nearly all have; None for any other."""
    if type(given) is not dict or len(given) != 3:
        return None
    name, description, schema = given.get("name"), given.get("description"), given.get("input_schema")
    if type(name) is not str or not name or type(description) is not str or type(schema) is not dict:
        return None
    return Tool("function", name, at, description, schema, None, None, {}, {}, DIALECT)


def read_tool(given: Any, at: Path, losses: Losses) -> Tool:
    """Return one tool of any kind. Raises like `read_tools`."""
    if type(given) is not dict:
        raise ClientRequestError(at, f"expected a tool (an object), got {kind_of(given)}")
    kind = optional(given, "type", str, at)
    if kind is None or kind == "custom":
        return _read_function(given, at, losses)
    if "_toolset" in kind:
        raise Unsupported(at, f"tools of type {kind!r} cannot be sent to this upstream")
    name = required(given, "name", str, at)
    if kind.startswith(_HOSTED):
        tool = Tool("hosted", name, at, native=given, origin=DIALECT)
        if kind.startswith("web_search_"):
            tool.options = {key: given[key] for key in WEB_SEARCH_OPTIONS if given.get(key) is not None}
            # Options that the target's writer does not know are recorded there, if the tool is sent at all.
            tool.options |= {
                key: value for key, value in given.items() if key not in _SEARCH_TOOL and value is not None
            }
            if type(location := tool.options.get("user_location")) is dict:
                tool.options["user_location"] = {key: value for key, value in location.items() if key != "type"}
        return tool
    if kind.startswith(CLIENT_TOOLS):
        tool = Tool("typed", name, at, native=given, origin=DIALECT)
        tool.strict, tool.cache = optional(given, "strict", bool, at), read_cache(given, at, losses)
        tool.options = {key: given[key] for key in _OPTIONS if given.get(key) is not None}
        return tool
    raise Unsupported((*at, "type"), f"tools of type {kind!r} cannot be sent to this upstream")


def _read_function(given: Json, at: Path, losses: Losses) -> Tool:
    if not _TOOL_KEYS.issuperset(given):
        drop_unknown(given, _TOOL_KEYS, losses, at)
    name = required_text(given, "name", at)
    return Tool(
        "function",
        name,
        at,
        description=optional(given, "description", str, at),
        schema=optional(given, "input_schema", dict, at),
        strict=optional(given, "strict", bool, at),
        cache=read_cache(given, at, losses),
        options={key: given[key] for key in _OPTIONS if given.get(key) is not None},
        origin=DIALECT,
    )


def change_tools(tools: dict[str, Tool], block: Json, at: Path, losses: Losses) -> None:
    """Apply a `tool_addition` or `tool_removal` block to `tools`, the tools in effect by name (mapping §3).

    An addition that only references a tool changes nothing, because that tool is declared already.
    """
    losses.add(LossCode.TOOL_TIMELINE, at, "only the tools in effect at the end are declared")
    drop_unknown(block, _CHANGE_KEYS, losses, at)
    if read_cache(block, at, losses) is not None:
        losses.add(LossCode.CACHE_HINT, (*at, "cache_control"))
    path = (*at, "tool")
    change = required(block, "tool", dict, at)
    drop_unknown(change, _CHANGED_KEYS, losses, path)
    kind = required(change, "type", str, path)
    if kind == "tool_definition":
        tool = read_tool(required(change, "definition", dict, path), (*path, "definition"), losses)
        tools.pop(tool.name, None)  # a changed tool moves to the end
        tools[tool.name] = tool
    elif kind != "tool_reference":
        raise Unsupported((*path, "type"), f"tool changes of type {kind!r} cannot be sent to this upstream")
    elif block["type"] == "tool_removal":
        name = required(change, "name", str, path)
        tools.pop(name, None)


def read_choice(body: Json, tools: list[Tool], losses: Losses) -> tuple[ToolChoice | None, bool | None]:
    """Return the tool choice and True or False if parallel calls are allowed or forbidden, None for each that is
    missing."""
    given = body.get("tool_choice")
    if given is None:
        return None, None
    at: Path = ("tool_choice",)
    if type(given) is str and given in _WORDS:
        given = {"type": given}
    elif typed(given, dict, at).get("type") == "function":
        given = {"type": "tool", "name": (optional(given, "function", dict, at) or given).get("name")}
    drop_unknown(given, _CHOICE_KEYS, losses, at)
    kind = required(given, "type", str, at)
    mode = _MODES.get(kind)
    if mode is None:
        raise ClientRequestError((*at, "type"), f"expected one of {', '.join(_MODES)}; got {kind!r}")
    choice = ToolChoice(mode, at)
    if mode == "tool":
        name = required(given, "name", str, at)
        choice.names = [name]
        choice.hosted = any(tool.name == name and tool.kind == "hosted" for tool in tools)
    single = optional(given, "disable_parallel_tool_use", bool, at)
    return choice, None if single is None else not single
