"""Tool definitions and tool choice, both ways (mapping §6.1, §6.2, §6.5).

Order is never changed: the tool list is the head of the cached prefix.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json, Request, Tool, ToolChoice, ToolKind
from dragoman.dialects.messages.request.cache_marks import CacheMarks
from dragoman.dialects.messages.request.read_content import read_cache
from dragoman.dialects.messages.wire import DIALECT
from dragoman.dialects.shared.json_fields import drop_unknown, kind_of, optional, required
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import Code, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_OPTIONS: Final = ("defer_loading", "eager_input_streaming", "input_examples", "allowed_callers")
_TOOL_KEYS: Final = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control", *_OPTIONS})
_HOSTED: Final = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_")
_TYPED: Final = ("bash_", "text_editor_", "memory_")
_SEARCH_OPTIONS: Final = ("allowed_domains", "blocked_domains", "user_location", "max_uses")
_SEARCH_TOOL: Final = frozenset({"type", "name", *_SEARCH_OPTIONS})
_CHOICE_KEYS: Final = frozenset({"type", "name", "disable_parallel_tool_use"})
_CHANGE_KEYS: Final = frozenset({"type", "tool", "cache_control"})
_CHANGED_KEYS: Final = frozenset({"type", "name", "definition"})
_MODES: Final = {"auto": "auto", "any": "required", "tool": "tool", "none": "none"}

# Member access on an enum class costs more than a global.
_FUNCTION: Final = ToolKind.FUNCTION

WEB_SEARCH: Final = "web_search_20250305"
_WEB_SEARCH: Final = "web_search"


def read_tools(body: Json, losses: Losses) -> list[Tool]:
    """The declared tools. Raises `ClientRequestError` for a name given twice, `Unsupported` for kinds that only an
    Anthropic upstream could carry (computer use, toolsets)."""
    tools: list[Tool] = []
    seen: set[str] = set()
    for index, given in enumerate(optional(body, "tools", list) or ()):
        at = ("tools", index)
        tool = _read_plain(given, at) or read_tool(given, at, losses)
        if tool.name in seen:
            raise ClientRequestError((*at, "name"), f"the tool name {tool.name!r} is given twice")
        seen.add(tool.name)
        tools.append(tool)
    return tools


def _read_plain(given: Any, at: Path) -> Tool | None:
    """A tool of name, description and schema, as nearly all are; None for any other."""
    if type(given) is not dict or len(given) != 3:
        return None
    name, description, schema = given.get("name"), given.get("description"), given.get("input_schema")
    if type(name) is not str or not name or type(description) is not str or type(schema) is not dict:
        return None
    return Tool(_FUNCTION, name, at, description, schema, None, None, {}, {}, DIALECT)


def read_tool(given: Any, at: Path, losses: Losses) -> Tool:
    """One tool definition."""
    if type(given) is not dict:
        raise ClientRequestError(at, f"expected a tool (an object), got {kind_of(given)}")
    kind = optional(given, "type", str, at)
    if kind is None or kind == "custom":
        return _read_function(given, at, losses)
    if "_toolset" in kind or kind.startswith("computer_"):
        raise Unsupported(at, f"tools of type {kind!r} cannot be carried to this upstream")
    name = required(given, "name", str, at)
    if kind.startswith(_HOSTED):
        tool = Tool(ToolKind.HOSTED, name, at, native=given, origin=DIALECT)
        if kind.startswith("web_search_"):
            tool.options = {key: given[key] for key in _SEARCH_OPTIONS if given.get(key) is not None}
            # What the writer of the target does not know becomes a row there, if the tool is sent at all.
            tool.options |= {
                key: value for key, value in given.items() if key not in _SEARCH_TOOL and value is not None
            }
            if type(location := tool.options.get("user_location")) is dict:
                tool.options["user_location"] = {key: value for key, value in location.items() if key != "type"}
        return tool
    if kind.startswith(_TYPED):
        return Tool(ToolKind.TYPED, name, at, native=given, origin=DIALECT)
    raise Unsupported((*at, "type"), f"tools of type {kind!r} cannot be carried to this upstream")


def _read_function(given: Json, at: Path, losses: Losses) -> Tool:
    if not _TOOL_KEYS.issuperset(given):
        drop_unknown(given, _TOOL_KEYS, losses, at)
    name = required(given, "name", str, at)
    if not name:
        raise ClientRequestError((*at, "name"), "must not be empty")
    return Tool(
        ToolKind.FUNCTION,
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
    """Apply a `tool_addition` or `tool_removal` block to the tools by name, so that they end as those in effect
    (mapping §3).

    A reference adds nothing: what it names is declared already.
    """
    losses.add(Code.TOOL_TIMELINE, at, "only the tools in effect at the end are declared")
    drop_unknown(block, _CHANGE_KEYS, losses, at)
    if read_cache(block, at, losses) is not None:
        losses.add(Code.CACHE_HINT, (*at, "cache_control"))
    path = (*at, "tool")
    change = required(block, "tool", dict, at)
    drop_unknown(change, _CHANGED_KEYS, losses, path)
    kind = required(change, "type", str, path)
    if kind == "tool_definition":
        tool = read_tool(required(change, "definition", dict, path), (*path, "definition"), losses)
        tools.pop(tool.name, None)  # so that it becomes the last one
        tools[tool.name] = tool
    elif kind != "tool_reference":
        raise Unsupported((*path, "type"), f"tool changes of type {kind!r} cannot be carried to this upstream")
    elif block["type"] == "tool_removal":
        name = required(change, "name", str, path)
        tools.pop(name, None)


def read_choice(body: Json, tools: list[Tool], losses: Losses) -> tuple[ToolChoice | None, bool | None]:
    """The tool choice, and whether parallel calls are allowed (None: not said)."""
    given = optional(body, "tool_choice", dict)
    if given is None:
        return None, None
    at: Path = ("tool_choice",)
    drop_unknown(given, _CHOICE_KEYS, losses, at)
    kind = required(given, "type", str, at)
    mode = _MODES.get(kind)
    if mode is None:
        raise ClientRequestError((*at, "type"), f"expected one of {', '.join(_MODES)}; got {kind!r}")
    choice = ToolChoice(mode, at)
    if mode == "tool":
        name = required(given, "name", str, at)
        choice.names = [name]
        choice.hosted = any(tool.name == name and tool.kind is ToolKind.HOSTED for tool in tools)
    single = optional(given, "disable_parallel_tool_use", bool, at)
    return choice, None if single is None else not single


_SHAPES: Final = frozenset({"anyOf", "oneOf", "allOf"})

# A schema stands at another place of a tool in each dialect; the client is told its own.
_SCHEMA_AT: Final[dict[str, Path]] = {"chat": ("function", "parameters"), "responses": ("parameters",)}


def write_tools(
    request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable, marks: CacheMarks
) -> tuple[list[Json], dict[str, str]]:
    """The tools to send, and client name → sent name of each.

    Raises `Unsupported` for free-text tools, foreign typed tools, client-run searches, tools in a namespace, and
    schemas whose root is not a plain object.
    """
    out: list[Json] = []
    sent: dict[str, str] = {}
    searches: int | None = None
    for tool in request.tools:
        if tool.namespace is not None:
            raise Unsupported(tool.at, f"a Messages upstream has no namespaces: {tool.namespace.name!r}")
        if tool.kind is _FUNCTION:
            written = _write_function(tool, profile, losses, names)
            if tool.cache is not None:
                marks.put(written, tool.cache, tool.at)
        elif tool.origin == DIALECT and tool.native and not (profile.rewrite and tool.kind is ToolKind.HOSTED):
            written = tool.native
            names.fit(tool.name, tool.at)
        elif tool.kind is ToolKind.HOSTED:
            if searches is None:
                searches = sum(other.name == _WEB_SEARCH for other in request.tools)
            mapped = _map_hosted(tool, knobs, losses, taken=searches > (tool.name == _WEB_SEARCH))
            if mapped is None:
                continue
            written = mapped
            names.fit(written["name"], tool.at)
        else:
            what = "free-text (custom) tools" if tool.kind is ToolKind.CUSTOM else f"the built-in tool {tool.name!r}"
            raise Unsupported(tool.at, f"{what} cannot be carried to a Messages upstream: its tools take JSON objects")
        out.append(written)
        sent[tool.name] = written.get("name", tool.name)
    return out, sent


def _write_function(tool: Tool, profile: Profile, losses: Losses, names: NameTable) -> Json:
    written: Json = {"name": names.fit(tool.name, tool.at)}
    if tool.description is not None:
        written["description"] = tool.description
    written["input_schema"] = _write_schema(tool)
    if tool.strict is True:
        written["strict"] = True
    if not tool.options:
        return written
    if tool.origin == DIALECT and not profile.rewrite:
        written.update(tool.options)
        return written
    for key, value in tool.options.items():
        if key == "defer_loading":
            # Sent alone, without a search tool, it would hide the tool for good.
            if value:
                losses.add(Code.TOOL_SEARCH, (*tool.at, key), "loaded at once")
        elif key == "async" and value:  # changes the order of turns (mapping §6.1)
            raise Unsupported((*tool.at, key), "asynchronous tools cannot be carried to a Messages upstream")
        elif value:
            losses.add(Code.TOOL_OPTION, (*tool.at, key))
    return written


def _write_schema(tool: Tool) -> Json:
    schema = tool.schema
    if schema is None:
        return {"type": "object", "properties": {}}
    kind = schema.get("type")
    if kind == "object" and _SHAPES.isdisjoint(schema):
        return schema
    at = (*tool.at, *_SCHEMA_AT.get(tool.origin, ("input_schema",)))
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            raise Unsupported((*at, word), "a Messages upstream takes no such word at the root of a tool's schema")
    if kind is None:
        return {"type": "object", **{key: value for key, value in schema.items() if key != "type"}}
    raise Unsupported((*at, "type"), f"a tool's schema must be an object for a Messages upstream; got {kind!r}")


def _map_hosted(tool: Tool, knobs: Knobs, losses: Losses, *, taken: bool) -> Json | None:
    """The tool as Anthropic's own, or None; `taken` says that another tool has its name."""
    if knobs.hosted_tools == "reject":
        raise Unsupported(tool.at, f"the provider-run tool {tool.name!r} does not exist at this upstream")
    is_search = tool.name == _WEB_SEARCH or str(tool.native.get("type", "")).startswith(_WEB_SEARCH)
    if knobs.hosted_tools != "map" or not is_search or taken:
        losses.add(Code.HOSTED_TOOL, tool.at)
        return None
    written: Json = {"type": WEB_SEARCH, "name": _WEB_SEARCH}
    for key, value in tool.options.items():
        if not value and value is not False:
            continue
        if key == "user_location" and type(value) is dict:
            written[key] = {"type": "approximate", **{k: v for k, v in value.items() if v is not None and k != "type"}}
        elif key in _SEARCH_OPTIONS and key != "user_location":
            written[key] = value
        else:
            losses.add(Code.TOOL_OPTION, (*tool.at, key))
    return written


def write_choice(
    request: Request, tools: list[Json], sent: dict[str, str], losses: Losses
) -> tuple[Json | None, list[Json]]:
    """The `tool_choice` to send, or None, and the tools that stay (an allowed subset filters them).

    Raises `Unsupported` when the choice forces a tool that is not sent.
    """
    choice = request.tool_choice
    if choice is None:
        # Parallel calls can only be forbidden inside a choice.
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
        losses.add(Code.TOOLS_FILTERED, choice.at, "the others were not sent")
    return {"type": "any" if choice.require else "auto"}, kept
