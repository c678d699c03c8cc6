"""Writes the tools and the tool choice of a request: `tools` and `toolConfig`.

A schema is sent unchanged, as `parametersJsonSchema`: `parameters` takes few keywords and rejects all others
(`FunctionDeclaration` in ai.google.dev/api/caching). It is for servers that know nothing else (profile `schemas`).
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json, Request, Tool, ToolChoice
from dragoman.dialects.generate.request.openapi_schema import to_openapi
from dragoman.dialects.generate.stop_and_usage import DIALECT
from dragoman.errors import Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_WEB_SEARCH: Final = "web_search"
_PARALLEL_AT: Final[dict[str, Path]] = {"messages": ("tool_choice", "disable_parallel_tool_use")}
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def write_tools(
    request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable
) -> tuple[list[Json], Json | None]:
    """Return `tools` and `toolConfig`. The order of the functions is kept: it is part of the cached prefix.

    Raises `Unsupported` for tools that only another provider's models know, and if a missing tool is forced.
    """
    functions: list[Json] = []
    sent: dict[str, str] = {}
    search: Tool | None = None
    for tool in request.tools:
        if tool.namespace is not None:
            raise Unsupported(tool.at, f"the upstream has no namespaces: {tool.namespace.name!r}")
        if tool.cache is not None:
            losses.add(LossCode.CACHE_HINT, tool.at)
        if tool.kind == "function":
            written = _write_function(tool, profile, losses, names)
            functions.append(written)
            sent[tool.name] = written["name"]
        elif tool.kind == "hosted":
            if knobs.hosted_tools == "reject":
                raise Unsupported(tool.at, f"the upstream does not have the provider-run tool {tool.name!r}")
            if knobs.hosted_tools == "map" and search is None and _is_search(tool):
                search = tool
            else:
                losses.add(LossCode.HOSTED_TOOL, tool.at)
        else:
            what = "free-text (custom) tools" if tool.kind == "custom" else f"the built-in tool {tool.name!r}"
            raise Unsupported(tool.at, f"{what} cannot be sent to a Gemini upstream: its tools take JSON objects")
    config, functions = _write_choice(request, functions, sent, losses)
    if request.parallel is False and functions:
        losses.add(LossCode.PARALLEL_CALLS, _PARALLEL_AT.get(request.origin, ("parallel_tool_calls",)))
    tools: list[Json] = [{"functionDeclarations": functions}] if functions else []
    if search is not None:
        if functions:
            losses.add(LossCode.HOSTED_TOOL, search.at, "dropped: older models take no functions with it")
        else:
            _drop_options(search, losses)
            tools.append({"googleSearch": {}})
    return tools, config if functions else None


def _is_search(tool: Tool) -> bool:
    return tool.name == _WEB_SEARCH or str(tool.native.get("type")).startswith(_WEB_SEARCH)


def _write_function(tool: Tool, profile: Profile, losses: Losses, names: NameTable) -> Json:
    written: Json = {"name": names.fit(tool.name, tool.at)}
    if tool.description is not None:
        written["description"] = tool.description
    if tool.schema is not None and profile.schemas == "json_schema":
        written["parametersJsonSchema"] = tool.schema
    elif tool.schema is not None and tool.schema.get("properties"):  # older servers reject an object without any
        written["parameters"] = to_openapi(tool.schema, tool.at, losses)
    if tool.options:
        _drop_options(tool, losses)
    return written


def _drop_options(tool: Tool, losses: Losses) -> None:
    for option, value in tool.options.items():
        if not value or tool.origin == DIALECT:
            continue
        if option == "async":  # changes the order of turns
            raise Unsupported((*tool.at, option), "asynchronous tools cannot be sent to this upstream")
        if option == "defer_loading":
            losses.add(LossCode.TOOL_SEARCH, (*tool.at, option), "loaded at once")
        else:
            losses.add(LossCode.TOOL_OPTION, (*tool.at, option))


def _write_choice(
    request: Request, functions: list[Json], sent: dict[str, str], losses: Losses
) -> tuple[Json | None, list[Json]]:
    """Return `toolConfig` and the functions to send: a choice of allowed ones that need not be called filters them."""
    choice = request.tool_choice
    strict = [tool for tool in request.tools if tool.kind == "function" and tool.strict]
    if choice is None or choice.mode == "auto":
        if strict and len(strict) == len(sent):
            return _config("VALIDATED"), functions
        _drop_strict(strict, losses)
        return (None if choice is None else _config("AUTO")), functions
    _drop_strict(strict, losses)
    if choice.custom:
        raise Unsupported(choice.at, "a free-text (custom) tool cannot be chosen on a Gemini upstream")
    if choice.mode in _MODES:
        if choice.mode == "required" and not functions:
            raise Unsupported(choice.at, "a tool call is required, but no tool is left to call")
        return _config(_MODES[choice.mode]), functions
    allowed = [sent[name] for name in choice.names if name in sent]
    if choice.mode == "tool" and not allowed:
        raise Unsupported(choice.at, _missing(choice))
    if choice.mode == "tool" or choice.require:
        if not allowed:
            raise Unsupported(choice.at, "a tool call is required, but none of the allowed tools can be sent")
        return _config("ANY", allowed), functions
    kept = [function for function in functions if function["name"] in allowed]
    if len(kept) < len(functions):
        losses.add(LossCode.TOOLS_FILTERED, choice.at, "the others were not sent")
    return _config("AUTO"), kept


def _missing(choice: ToolChoice) -> str:
    name = choice.names[0] if choice.names else ""
    return f"the chosen tool {name!r} {'is run by another provider' if choice.hosted else 'is not among the tools'}"


def _drop_strict(strict: list[Tool], losses: Losses) -> None:
    for tool in strict:
        losses.add(LossCode.TOOL_OPTION, (*tool.at, "strict"), "the upstream validates all calls or none")


def _config(mode: str, names: list[str] | None = None) -> Json:
    config: Json = {"mode": mode}
    if names:
        config["allowedFunctionNames"] = names
    return {"functionCallingConfig": config}
