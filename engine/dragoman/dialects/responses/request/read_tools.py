"""Tools and tool choice of a Responses request (mapping §6.1, §6.2, §6.5).

Tools are declared at the top level, in `additional_tools` items and in the output of a tool search. All of them form
one list in this order, because the list is the start of the cached prefix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.canonical.parts import ToolReference
from dragoman.canonical.request import Json, Namespace, Tool, ToolChoice
from dragoman.dialects.openai.prompt_cache_fields import read_cache_mark
from dragoman.dialects.openai.request_tools import read_choice
from dragoman.dialects.responses.stop_and_usage import DIALECT, TOOL_SEARCH
from dragoman.dialects.shared.json_fields import kind_of, note_unknown, one_of, optional, required, required_text, typed
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.tools.built_in_tools import BUILT_IN_TOOLS, SHELL
from dragoman.wire.json_codec import dumps

_OPTIONS: Final = ("defer_loading", "allowed_callers", "output_schema", "async")
_MARKS: Final = ("prompt_cache_breakpoint", "cache_control")
_FUNCTION_KEYS: Final = frozenset({"type", "name", "description", "parameters", "strict", *_OPTIONS, *_MARKS})
_CUSTOM_KEYS: Final = frozenset({"type", "name", "description", "format", *_OPTIONS, *_MARKS})
_GRAMMAR_KEYS: Final = frozenset({"type", "definition", "syntax"})
_NAMESPACE_KEYS: Final = frozenset({"type", "name", "description", "tools"})
_SEARCH_KEYS: Final = frozenset({"type", "execution", "description", "parameters"})
_BUILT_IN_KEYS: Final = frozenset({"type", "allowed_callers"})
_SHELL_KEYS: Final = _BUILT_IN_KEYS | {"environment"}
_CHOICE_KEYS: Final = frozenset({"type", "name", "namespace"})
_KIND_KEYS: Final = frozenset({"type", "name", "server_label"})
_ALLOWED_KEYS: Final = frozenset({"type", "mode", "tools"})

_WEB_SEARCH: Final = ("web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11")
# fmt: off
_SEARCH_TOOL: Final = frozenset({
    "type", "filters", "user_location", "search_context_size", "search_content_types", "external_web_access",
})
# fmt: on
_HOSTED: Final = frozenset(
    {*_WEB_SEARCH, "file_search", "code_interpreter", "image_generation", "programmatic_tool_calling"}
)

_COMPUTER: Final = "only OpenAI's models were trained on it; declare a function tool instead"
_UNSUPPORTED: Final[dict[str, str]] = {
    "computer": _COMPUTER,
    "computer_use": _COMPUTER,
    "computer_use_preview": _COMPUTER,
    "mcp": "this upstream does not connect to MCP servers; run the MCP client yourself and declare its functions",
}


class ToolList:
    """The tools of a request, collected while it is read."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._places: dict[tuple[str, str], int] = {}
        """Namespace and name → index in `tools`."""
        self._hosted: set[bytes] = set()
        self.tools: list[Tool] = []

    def declare(self, given: list[Any], at: Path) -> None:
        """Add a list of declared tools. Raises `ClientRequestError` for two of one name and namespace in it.

        A tool that an earlier list declares too is replaced in place.
        """
        seen: set[tuple[str, str]] = set()
        for tool in self._read(given, at):
            key = _key(tool)
            if tool.kind != "hosted":
                if key in seen:
                    if not self._is_repeated(tool, key):
                        raise ClientRequestError(tool.at, f"a second tool of the name {tool.name!r}")
                    self._losses.add(LossCode.REQUEST_NOISE, tool.at, "the same tool again")
                    continue
                seen.add(key)
            self._add(tool, key)

    def _is_repeated(self, tool: Tool, key: tuple[str, str]) -> bool:
        first = self.tools[self._places[key]]
        return replace(tool, at=first.at) == first

    def add_found(self, given: list[Any], at: Path) -> list[ToolReference]:
        """Add the tools that a tool search found. Returns a reference to each, in order."""
        references: list[ToolReference] = []
        for tool in self._read(given, at):
            self._add(tool, _key(tool))
            if tool.kind != "hosted":
                references.append(ToolReference(tool.name, tool.at, tool.namespace.name if tool.namespace else None))
        return references

    def _add(self, tool: Tool, key: tuple[str, str]) -> None:
        if tool.kind == "hosted":
            # These are identified by their content: a function may have the same name.
            native = dumps(tool.native)
            if native not in self._hosted:
                self._hosted.add(native)
                self.tools.append(tool)
            return
        place = self._places.get(key)
        if place is None:
            self._places[key] = len(self.tools)
            self.tools.append(tool)
        elif replace(tool, at=self.tools[place].at) != self.tools[place]:
            self.tools[place] = tool

    def _read(self, given: list[Any], at: Path) -> list[Tool]:
        tools: list[Tool] = []
        for index, declared in enumerate(given):
            path = (*at, index)
            if type(declared) is not dict:
                raise ClientRequestError(path, f"expected a tool (an object), got {kind_of(declared)}")
            plain = _read_plain(declared, path, None)
            if plain is not None:
                tools.append(plain)
            elif declared.get("type") == "namespace":
                tools += _read_namespace(declared, path, self._losses)
            else:
                tools.append(_read_tool(declared, path, self._losses, None, _READERS))
        return tools


def _key(tool: Tool) -> tuple[str, str]:
    return (tool.namespace.name if tool.namespace is not None else "", tool.name)


_ToolReader = Callable[[Json, Path, Losses], Tool]


def _read_plain(declared: Json, at: Path, namespace: Namespace | None) -> Tool | None:
    """Return a function with exactly a name, description, parameters and `strict`, as most are; else None."""
    if declared.get("type") != "function" or len(declared) != 5:
        return None
    name, description, schema = declared.get("name"), declared.get("description"), declared.get("parameters")
    strict = declared.get("strict")
    if type(name) is not str or not name or type(description) is not str or type(schema) is not dict:
        return None
    if type(strict) is not bool:
        return None
    return Tool("function", name, at, description, schema, strict, None, {}, {}, DIALECT, namespace)


def _read_tool(
    declared: Json, at: Path, losses: Losses, namespace: Namespace | None, readers: dict[str, _ToolReader]
) -> Tool:
    kind = required(declared, "type", str, at)
    reader = readers.get(kind)
    if reader is None:
        if namespace is None and kind in _HOSTED:
            return _read_hosted(declared, kind, at)
        why = _UNSUPPORTED.get(kind) or f"known here: {', '.join(readers)}"
        raise Unsupported((*at, "type"), f"tools of type {kind!r} cannot be sent to this upstream: {why}")
    tool = reader(declared, at, losses)
    tool.namespace = namespace
    return tool


def _read_namespace(declared: Json, at: Path, losses: Losses) -> list[Tool]:
    note_unknown(declared, _NAMESPACE_KEYS, at, losses)
    namespace = Namespace(required_text(declared, "name", at), optional(declared, "description", str, at))
    tools: list[Tool] = []
    for index, inner in enumerate(required(declared, "tools", list, at)):
        path = (*at, "tools", index)
        if type(inner) is not dict:
            raise ClientRequestError(path, f"expected a tool (an object), got {kind_of(inner)}")
        plain = _read_plain(inner, path, namespace)
        tools.append(plain if plain is not None else _read_tool(inner, path, losses, namespace, _INNER))
    return tools


def _options(declared: Json, at: Path) -> Json:
    options: Json = {}
    for key in _OPTIONS:
        value = declared.get(key)
        if value is not None:
            kind: type[Any] = list if key == "allowed_callers" else dict if key == "output_schema" else bool
            options[key] = typed(value, kind, (*at, key))
    return options


def _read_function(declared: Json, at: Path, losses: Losses) -> Tool:
    note_unknown(declared, _FUNCTION_KEYS, at, losses)
    return Tool(
        "function",
        required_text(declared, "name", at),
        at,
        optional(declared, "description", str, at),
        optional(declared, "parameters", dict, at),
        # Three states: absent lets OpenAI's server choose, which no other dialect's does (mapping §6.1).
        optional(declared, "strict", bool, at),
        read_cache_mark(declared, at, losses),
        _options(declared, at),
        origin=DIALECT,
    )


def _read_custom(declared: Json, at: Path, losses: Losses) -> Tool:
    note_unknown(declared, _CUSTOM_KEYS, at, losses)
    form = optional(declared, "format", dict, at)
    if form is not None:
        where = (*at, "format")
        if one_of(form, "type", ("text", "grammar"), where) == "grammar":
            required(form, "definition", str, where)
            required(form, "syntax", str, where)
            note_unknown(form, _GRAMMAR_KEYS, where, losses)
    return Tool(
        "custom",
        required_text(declared, "name", at),
        at,
        optional(declared, "description", str, at),
        cache=read_cache_mark(declared, at, losses),
        options=_options(declared, at),
        native=declared,
        origin=DIALECT,
    )


def _read_search(declared: Json, at: Path, losses: Losses) -> Tool:
    if one_of(declared, "execution", ("server", "client"), at) != "client":
        return Tool("hosted", TOOL_SEARCH, at, native=declared, origin=DIALECT)
    note_unknown(declared, _SEARCH_KEYS, at, losses)
    return Tool(
        "search",
        TOOL_SEARCH,
        at,
        optional(declared, "description", str, at),
        optional(declared, "parameters", dict, at),
        native=declared,
        origin=DIALECT,
    )


def _read_hosted(declared: Json, kind: str, at: Path) -> Tool:
    options: Json = {}
    if kind in _WEB_SEARCH:
        filters = optional(declared, "filters", dict, at) or {}
        domains = optional(filters, "allowed_domains", list, (*at, "filters"))
        if domains:
            options["allowed_domains"] = [
                typed(domain, str, (*at, "filters", "allowed_domains", index)) for index, domain in enumerate(domains)
            ]
        location = optional(declared, "user_location", dict, at)
        if location:
            options["user_location"] = location
        size = optional(declared, "search_context_size", str, at)
        if size is not None:
            options["search_context_size"] = size
        kinds = optional(declared, "search_content_types", list, at)
        if kinds and kinds != ["text"]:
            options["search_content_types"] = kinds
        if declared.get("external_web_access") is False:
            options["external_web_access"] = False
        # The writer records a loss for each option that the upstream lacks, if the tool is sent at all.
        if further := {key: value for key, value in filters.items() if key != "allowed_domains"}:
            options["filters"] = further
        options.update((key, value) for key, value in declared.items() if key not in _SEARCH_TOOL and value is not None)
    return Tool("hosted", kind, at, options=options, native=declared, origin=DIALECT)


def _read_built_in(declared: Json, at: Path, losses: Losses) -> Tool:
    """Read a tool that the client runs, or a shell of the provider's in a container."""
    kind = declared["type"]
    environment = optional(declared, "environment", dict, at) if kind == SHELL else None
    hosted = environment is not None and environment.get("type", "local") != "local"
    if not hosted:
        note_unknown(declared, _SHELL_KEYS if kind == SHELL else _BUILT_IN_KEYS, at, losses)
    return Tool(
        "hosted" if hosted else "typed",
        kind,
        at,
        options=_options(declared, at),
        native=declared,
        origin=DIALECT,
    )


_INNER: Final[dict[str, _ToolReader]] = {"function": _read_function, "custom": _read_custom}
_READERS: Final[dict[str, _ToolReader]] = {
    **_INNER,
    "tool_search": _read_search,
    **dict.fromkeys(BUILT_IN_TOOLS, _read_built_in),
}


# --- choice -----------------------------------------------------------------------------------------------------------


def read_tool_choice(body: Json, tools: list[Tool], knobs: Knobs, losses: Losses) -> ToolChoice | None:
    """Return the `tool_choice`. Raises `ClientRequestError` for a form that the dialect does not have."""
    return read_choice(body, lambda choice, kind: _read_choice(choice, kind, tools, knobs, losses))


def _read_choice(choice: Json, kind: str, tools: list[Tool], knobs: Knobs, losses: Losses) -> ToolChoice:
    at: Path = ("tool_choice",)
    if kind == "allowed_tools":
        return _read_allowed(choice, at, tools, knobs, losses)
    if kind == "tool":  # as Messages names it, like `any`
        kind, choice = "function", {**choice, "type": "function"}
    elif kind in ("function", "custom") and type(choice.get(kind)) is dict:  # as in Chat
        choice = {"type": kind, **choice[kind]}
    if kind == "function" or kind == "custom":
        name, namespace = _read_named(choice, kind, _by_name(tools), at, losses)
        return ToolChoice("tool", at, [name], custom=kind == "custom", namespaces=[namespace] if namespace else [])
    note_unknown(choice, _KIND_KEYS, at, losses)
    return ToolChoice("tool", at, [kind], hosted=_is_hosted(kind, _run_by_client(tools), (*at, "type")))


_ByName = dict[str, list[tuple[str, str | None]]]
"""Name → kind and namespace of each tool that has it."""


def _by_name(tools: list[Tool]) -> _ByName:
    named: _ByName = {}
    for tool in tools:
        if tool.kind != "hosted":
            space = tool.namespace.name if tool.namespace is not None else None
            named.setdefault(tool.name, []).append((tool.kind, space))
    return named


def _read_named(choice: Json, kind: str, tools: _ByName, at: Path, losses: Losses) -> tuple[str, str | None]:
    """Return name and namespace of a chosen tool.

    A name without a namespace means the tool outside of all namespaces, else the only one that has it. Raises
    `ClientRequestError` if tools of several namespaces have it.
    """
    note_unknown(choice, _CHOICE_KEYS, at, losses)
    name, namespace = required_text(choice, "name", at), optional(choice, "namespace", str, at)
    if namespace:
        return name, namespace
    named = tools.get(name, ())
    spaces = {space for other, space in named if other == kind} or {space for _, space in named}
    if not spaces or None in spaces:
        return name, None
    if len(spaces) > 1:
        known = ", ".join(sorted(filter(None, spaces)))
        raise ClientRequestError((*at, "name"), f"{name!r} is in several namespaces ({known}); send its `namespace`")
    return name, spaces.pop()


def _run_by_client(tools: list[Tool]) -> frozenset[str]:
    """Return the names of the tools that a choice names by their kind and that the client runs."""
    return frozenset([tool.name for tool in tools if tool.kind == "search" or tool.kind == "typed"])


def _is_hosted(kind: str, run_by_client: frozenset[str], at: Path) -> bool:
    """True if a choice by kind means a provider-run tool. Raises `ClientRequestError` for an unknown kind."""
    if kind == TOOL_SEARCH or kind in BUILT_IN_TOOLS:
        return kind not in run_by_client
    if kind not in _HOSTED and kind not in _UNSUPPORTED:
        raise ClientRequestError(at, f"unknown tool choice {kind!r}")
    return True


def _read_allowed(choice: Json, at: Path, tools: list[Tool], knobs: Knobs, losses: Losses) -> ToolChoice:
    note_unknown(choice, _ALLOWED_KEYS, at, losses)
    require = one_of(choice, "mode", ("auto", "required"), at) == "required"
    names: list[str] = []
    namespaces: list[str | None] = []
    named = _by_name(tools)
    left_out: list[str] = []
    run_by_client = _run_by_client(tools)
    for index, entry in enumerate(required(choice, "tools", list, at)):
        path = (*at, "tools", index)
        kind = required(typed(entry, dict, path), "type", str, path)
        if kind == "function" or kind == "custom":
            name, namespace = _read_named(entry, kind, named, path, losses)
            names.append(name)
            namespaces.append(namespace)
        elif not _is_hosted(kind, run_by_client, (*path, "type")) or knobs.hosted_tools == "map":
            note_unknown(entry, _KIND_KEYS, path, losses)
            names.append(kind)
            namespaces.append(None)
        else:
            # Provider-run tools are dropped from the tools too; the others stay allowed (mapping §6.5).
            losses.add(LossCode.HOSTED_TOOL, path)
            left_out.append(kind)
    if names or not left_out:
        return ToolChoice("allowed", at, names, require=require, namespaces=namespaces if any(namespaces) else [])
    if require:
        return ToolChoice("tool", at, left_out, hosted=True)
    return ToolChoice("none", at)
