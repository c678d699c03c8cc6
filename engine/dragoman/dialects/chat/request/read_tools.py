"""Chat's tools and tool choice, both ways (mapping §6.1, §6.2, §6.5)."""

from __future__ import annotations

from typing import Any, NamedTuple

from dragoman.canonical.request import Json, Request, Tool, ToolChoice, ToolKind
from dragoman.dialects.chat.request.read_content import note_unknown, read_cache_mark
from dragoman.dialects.chat.request.tool_choice import soften
from dragoman.dialects.chat.wire import DIALECT
from dragoman.dialects.shared.json_fields import drop_unknown, kind_of, one_of, optional, required, typed
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import Code, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_TOOL_KEYS = frozenset({"type", "function", "custom", "cache_control"})
_FUNCTION_KEYS = frozenset({"name", "description", "parameters", "strict"})
_CUSTOM_KEYS = frozenset({"name", "description", "format"})
_FORMAT_KEYS = frozenset({"type", "grammar"})
_GRAMMAR_KEYS = frozenset({"definition", "syntax"})
_SEARCH_KEYS = frozenset({"user_location", "search_context_size"})
_LOCATION_KEYS = frozenset({"type", "approximate"})
_NAME = frozenset({"name"})
_ALLOWED_KEYS = frozenset({"mode", "tools"})
_KINDS = {"function": ToolKind.FUNCTION, "custom": ToolKind.CUSTOM}
_WEB_SEARCH = "web_search"
_FUNCTION = ToolKind.FUNCTION  # member access on an enum class costs more than a global

# --- reading ----------------------------------------------------------------------------------------------------------


def read_tools(body: Json, losses: Losses) -> list[Tool]:
    """`tools`, and after them `web_search_options` as the hosted tool that it is.

    Raises `ClientRequestError` for two tools of one name, `Unsupported` for a kind the dialect does not have.
    """
    tools: list[Tool] = []
    seen: set[str] = set()
    for i, declared in enumerate(optional(body, "tools", list) or ()):
        at = ("tools", i)
        tool = _read_plain(declared, at) or _read_tool(typed(declared, dict, at), at, losses)
        if tool.name in seen:
            raise ClientRequestError(at, f"a second tool of the name {tool.name!r}")
        seen.add(tool.name)
        tools.append(tool)
    options = optional(body, "web_search_options", dict)
    if options is not None:
        tools.append(_read_web_search(options, losses))
    return tools


def _read_plain(declared: Any, at: Path) -> Tool | None:
    """A function of name, description and parameters, as nearly all are; None for any other."""
    if type(declared) is not dict or len(declared) != 2 or declared.get("type") != "function":
        return None
    body = declared.get("function")
    if type(body) is not dict:
        return None
    name, description, schema = body.get("name"), body.get("description"), body.get("parameters")
    if type(name) is not str or not name or type(description) is not str or type(schema) is not dict:
        return None
    if len(body) == 3:
        strict = None
    elif len(body) != 4 or type(strict := body.get("strict")) is not bool:
        return None
    return Tool(_FUNCTION, name, at, description, schema, strict, None, {}, {}, DIALECT)


def _read_tool(declared: Json, at: Path, losses: Losses) -> Tool:
    kind = declared.get("type") or "function"
    if type(kind) is not str or kind not in _KINDS:
        raise Unsupported((*at, "type"), f"tools of type {kind!r} cannot be carried; known: function, custom")
    drop_unknown(declared, _TOOL_KEYS, losses, at)
    body, where = required(declared, kind, dict, at), (*at, kind)
    name = required(body, "name", str, where)
    if not name:
        raise ClientRequestError((*where, "name"), "must not be empty")
    tool = Tool(_KINDS[kind], name, at, optional(body, "description", str, where), origin=DIALECT)
    tool.cache = read_cache_mark(declared, at, losses)
    if tool.kind is ToolKind.CUSTOM:
        note_unknown(body, _CUSTOM_KEYS, where, losses)
        _note_grammar(body.get("format"), (*where, "format"), losses)
        tool.native = declared
        return tool
    drop_unknown(body, _FUNCTION_KEYS, losses, where)
    tool.schema = optional(body, "parameters", dict, where)
    tool.strict = optional(body, "strict", bool, where)
    return tool


def _note_grammar(form: Any, at: Path, losses: Losses) -> None:
    """Rows for what the writers leave behind of a grammar."""
    grammar = form.get("grammar") if type(form) is dict else None
    if type(grammar) is dict:
        note_unknown(form, _FORMAT_KEYS, at, losses)
        note_unknown(grammar, _GRAMMAR_KEYS, (*at, "grammar"), losses)


def _read_web_search(body: Json, losses: Losses) -> Tool:
    at = ("web_search_options",)
    options: Json = {}
    location = optional(body, "user_location", dict, at)
    if location is not None:
        where = (*at, "user_location")
        note_unknown(location, _LOCATION_KEYS, where, losses)
        nested = optional(location, "approximate", dict, where) or {}
        options["user_location"] = {"type": "approximate", **nested}
    size = optional(body, "search_context_size", str, at)
    if size is not None:
        options["search_context_size"] = size
    # What the writer of the target does not know becomes a row there, if the tool is sent at all.
    options.update((key, value) for key, value in body.items() if key not in _SEARCH_KEYS and value is not None)
    return Tool(ToolKind.HOSTED, _WEB_SEARCH, at, options=options, native=body, origin=DIALECT)


def read_tool_choice(body: Json, losses: Losses) -> ToolChoice | None:
    """`tool_choice` in all its forms. Raises `ClientRequestError` for a form the dialect does not have."""
    choice = body.get("tool_choice")
    at = ("tool_choice",)
    if choice is None:
        return None
    if type(choice) is str:
        mode = one_of(body, "tool_choice", ("auto", "none", "required"))
        return ToolChoice(mode or "auto", at)
    if type(choice) is not dict:
        raise ClientRequestError(at, f"expected a string or an object, got {kind_of(choice)}")
    kind = required(choice, "type", str, at)
    if kind in _KINDS:
        return ToolChoice("tool", at, [_read_named(choice, kind, at, losses)], custom=kind == "custom")
    if kind != "allowed_tools":
        raise ClientRequestError((*at, "type"), f"unknown tool choice {kind!r}")
    note_unknown(choice, frozenset(("type", kind)), at, losses)
    allowed, where = required(choice, kind, dict, at), (*at, kind)
    note_unknown(allowed, _ALLOWED_KEYS, where, losses)
    mode = one_of(allowed, "mode", ("auto", "required"), where)
    names: list[str] = []
    for i, entry in enumerate(required(allowed, "tools", list, where)):
        path = (*where, "tools", i)
        word = one_of(typed(entry, dict, path), "type", _KINDS, path) or "function"
        names.append(_read_named(entry, word, path, losses))
    return ToolChoice("allowed", at, names, require=mode == "required")


def _read_named(entry: Json, kind: str, at: Path, losses: Losses) -> str:
    """The name in `{"type": kind, kind: {"name": …}}`."""
    note_unknown(entry, frozenset(("type", kind)), at, losses)
    named, where = required(entry, kind, dict, at), (*at, kind)
    note_unknown(named, _NAME, where, losses)
    return required(named, "name", str, where)


# --- writing ----------------------------------------------------------------------------------------------------------


class Tooling(NamedTuple):
    """What a request's tools became: `tools`, `tool_choice` and `web_search_options`, each possibly nothing."""

    tools: list[Json]
    choice: str | Json | None
    web_search: Json | None


def write_tooling(request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable) -> Tooling:
    """Definitions and choice. Order is kept: it is part of the cached prefix.

    Raises `Unsupported` for tools that only another provider's models know, and for a forced choice of a missing one.
    """
    tools: list[Json] = []
    web_search: Json | None = None
    sent: dict[str, Tool] = {}
    for tool in request.tools:
        if tool.namespace is not None:
            raise Unsupported(tool.at, f"the upstream has no namespaces: {tool.namespace.name!r}")
        if tool.cache is not None:  # Chat marks content parts only
            losses.add(Code.CACHE_HINT, tool.at)
        if tool.kind is _FUNCTION:
            tools.append(_write_function(tool, request.origin, profile, losses, names))
        elif tool.kind is ToolKind.CUSTOM:
            tools.append(_write_custom(tool, losses, names))
        elif tool.kind is ToolKind.HOSTED:
            web_search = _write_hosted(tool, knobs, losses) or web_search
            continue
        else:
            raise Unsupported(tool.at, f"the tool {tool.name!r} is known to its own provider's models only")
        sent[tool.name] = tool
    choice = _write_choice(request.tool_choice, sent, names)
    if choice is not None and profile.tool_choice != "all":
        choice, tools = soften(choice, tools, request.tool_choice, profile.tool_choice, losses)
    return Tooling(tools, choice, web_search)


def _write_function(tool: Tool, origin: str, profile: Profile, losses: Losses, names: NameTable) -> Json:
    function: Json = {"name": names.fit(tool.name, tool.at)}
    if tool.description is not None:
        function["description"] = tool.description
    schema = tool.schema
    if schema is not None:
        if origin != DIALECT and ("type" not in schema or "properties" not in schema):
            schema = _whole_schema(schema)
        function["parameters"] = schema
    if tool.strict is not None:
        if profile.strict_tools:
            function["strict"] = tool.strict
        elif tool.strict:
            losses.add(Code.SCHEMA_STRICTNESS, tool.at, "the upstream takes no strict tools")
    if tool.options:
        _drop_options(tool, losses)
    return {"type": "function", "function": function}


def _drop_options(tool: Tool, losses: Losses) -> None:
    for option, value in tool.options.items():
        if value is None or value is False:
            continue
        if option == "async":  # changes the order of turns (mapping §6.1)
            raise Unsupported((*tool.at, option), "asynchronous tools cannot be carried to this upstream")
        if option == "defer_loading":
            losses.add(Code.TOOL_SEARCH, (*tool.at, option), "loaded at once")
        else:
            losses.add(Code.TOOL_OPTION, (*tool.at, option))


def _whole_schema(schema: Json) -> Json:
    """OpenAI refuses an object schema without `type` or `properties`; other shapes are left for it to judge."""
    if any(key in schema for key in ("anyOf", "oneOf", "allOf", "$ref", "enum", "not")):
        return schema
    whole: Json = schema if "type" in schema else {"type": "object", **schema}
    if whole["type"] == "object" and "properties" not in whole:
        whole = {**whole, "properties": {}}
    return whole


def _write_custom(tool: Tool, losses: Losses, names: NameTable) -> Json:
    _drop_options(tool, losses)
    custom: Json = {"name": names.fit(tool.name, tool.at)}
    if tool.description is not None:
        custom["description"] = tool.description
    native = tool.native.get("custom") if tool.origin == DIALECT else tool.native
    form = native.get("format") if type(native) is dict else None
    if type(form) is dict:
        if form.get("type") == "grammar" and "grammar" not in form:  # Responses keeps the grammar's fields flat
            form = {"type": "grammar", "grammar": {k: form[k] for k in ("definition", "syntax") if k in form}}
        custom["format"] = form
    return {"type": "custom", "custom": custom}


def _write_hosted(tool: Tool, knobs: Knobs, losses: Losses) -> Json | None:
    if tool.origin == DIALECT:
        return tool.native
    if knobs.hosted_tools == "reject":
        raise Unsupported(tool.at, f"the upstream does not have the provider-run tool {tool.name!r}")
    is_search = tool.name == _WEB_SEARCH or str(tool.native.get("type")).startswith(_WEB_SEARCH)
    if knobs.hosted_tools == "drop" or not is_search:
        losses.add(Code.HOSTED_TOOL, tool.at)
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
        else:  # domains: Chat cannot restrict them
            losses.add(Code.TOOL_OPTION, (*tool.at, option))
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
    return None  # OpenAI refuses a choice without tools


def _name_choice(tool: Tool, names: NameTable) -> Json:
    return {"type": tool.kind.value, tool.kind.value: {"name": names.fit(tool.name, tool.at)}}
