"""Reads Chat's tools and tool choice (mapping §6.1, §6.2, §6.5)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json, Tool, ToolChoice, ToolKind
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.openai.prompt_cache_fields import read_cache_mark
from dragoman.dialects.openai.request_tools import WEB_SEARCH, read_choice
from dragoman.dialects.shared.json_fields import (
    drop_unknown,
    note_unknown,
    one_of,
    optional,
    required,
    required_text,
    typed,
)
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses

_TOOL_KEYS = frozenset({"type", "function", "custom", "cache_control"})
_FUNCTION_KEYS = frozenset({"name", "description", "parameters", "strict", "cache_control"})
_CUSTOM_KEYS = frozenset({"name", "description", "format"})
_FORMAT_KEYS = frozenset({"type", "grammar"})
_GRAMMAR_KEYS = frozenset({"definition", "syntax"})
_SEARCH_KEYS = frozenset({"user_location", "search_context_size"})
_LOCATION_KEYS = frozenset({"type", "approximate"})
_NAME = frozenset({"name"})
_ALLOWED_KEYS = frozenset({"mode", "tools"})
_KINDS: dict[str, ToolKind] = {"function": "function", "custom": "custom"}


def read_tools(body: Json, losses: Losses) -> list[Tool]:
    """Return `tools`, and after them `web_search_options` as a hosted tool. Exact repetitions of a tool are left out.

    Raises `ClientRequestError` for two tools with one name, `Unsupported` for a kind that Chat does not have.
    """
    tools: list[Tool] = []
    seen: dict[str, Any] = {}
    for i, declared in enumerate(optional(body, "tools", list) or ()):
        at = ("tools", i)
        tool = _read_plain_function(declared, at) or _read_tool(typed(declared, dict, at), at, losses)
        if tool.name not in seen:
            tools.append(tool)
        elif seen[tool.name] != declared:
            raise ClientRequestError(at, f"a second tool of the name {tool.name!r}")
        else:
            losses.add(LossCode.REQUEST_NOISE, at, "the same tool again")
        seen[tool.name] = declared
    options = optional(body, "web_search_options", dict)
    if options is not None:
        tools.append(_read_web_search(options, losses))
    return tools


def _read_plain_function(declared: Any, at: Path) -> Tool | None:
    """Return a function with only name, description and parameters, as nearly all are, or None for any other tool."""
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
    return Tool("function", name, at, description, schema, strict, None, {}, {}, DIALECT)


def _read_tool(declared: Json, at: Path, losses: Losses) -> Tool:
    kind = declared.get("type") or "function"
    if type(kind) is not str or kind not in _KINDS:
        raise Unsupported((*at, "type"), f"tools of type {kind!r} cannot be sent; known: function, custom")
    drop_unknown(declared, _TOOL_KEYS, losses, at)
    body, where = required(declared, kind, dict, at), (*at, kind)
    name = required_text(body, "name", where)
    tool = Tool(_KINDS[kind], name, at, optional(body, "description", str, where), origin=DIALECT)
    tool.cache = read_cache_mark(declared, at, losses) or read_cache_mark(body, where, losses)
    if tool.kind == "custom":
        note_unknown(body, _CUSTOM_KEYS, where, losses)
        _note_grammar(body.get("format"), (*where, "format"), losses)
        tool.native = declared
        return tool
    drop_unknown(body, _FUNCTION_KEYS, losses, where)
    tool.schema = optional(body, "parameters", dict, where)
    tool.strict = optional(body, "strict", bool, where)
    return tool


def _note_grammar(form: Any, at: Path, losses: Losses) -> None:
    """Record the keys of a grammar that writers drop."""
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
    # Options that the target does not have are recorded by its writer, if it sends the tool.
    options.update((key, value) for key, value in body.items() if key not in _SEARCH_KEYS and value is not None)
    return Tool("hosted", WEB_SEARCH, at, options=options, native=body, origin=DIALECT)


def read_tool_choice(body: Json, losses: Losses) -> ToolChoice | None:
    """Return `tool_choice`. Raises `ClientRequestError` for a form that Chat does not have."""
    return read_choice(body, lambda choice, kind: _read_choice(choice, kind, losses))


def _read_choice(choice: Json, kind: str, losses: Losses) -> ToolChoice:
    at = ("tool_choice",)
    if kind == "tool" or (kind in _KINDS and kind not in choice and "name" in choice):  # as the other dialects name it
        return ToolChoice("tool", at, [required(choice, "name", str, at)], custom=kind == "custom")
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
        entry_kind = one_of(typed(entry, dict, path), "type", _KINDS, path) or "function"
        names.append(_read_named(entry, entry_kind, path, losses))
    return ToolChoice("allowed", at, names, require=mode == "required")


def _read_named(entry: Json, kind: str, at: Path, losses: Losses) -> str:
    """Return the name in `{"type": kind, kind: {"name": …}}`."""
    note_unknown(entry, frozenset(("type", kind)), at, losses)
    named, where = required(entry, kind, dict, at), (*at, kind)
    note_unknown(named, _NAME, where, losses)
    return required(named, "name", str, where)
