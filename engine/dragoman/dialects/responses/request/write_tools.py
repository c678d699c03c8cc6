"""Tools and tool choice to the flat forms of Responses (mapping §6.1, §6.2, §6.5).

The order never changes, because the tool list is the start of the cached prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.canonical.parts import ToolReference, ToolResult
from dragoman.canonical.request import Json, Request, Tool, ToolChoice
from dragoman.dialects.openai.request_tools import (
    WEB_SEARCH,
    complete_schema,
    drop_options,
    input_format,
    is_web_search,
    map_hosted,
    write_mode,
)
from dragoman.dialects.responses.stop_and_usage import DIALECT, TOOL_SEARCH
from dragoman.dialects.shared.json_fields import is_empty
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_DOMAINS = {"allowed_domains": "allowed_domains", "blocked_domains": "excluded_domains"}
"""Option of a web search → its name at a vendor that runs its own (xAI)."""
_NO_OPTIONS = frozenset({"type", "filters"})


class ToolsWriter:
    """Writes the tools of one request, in `tools` and in the results of tool searches."""

    def __init__(self, request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable) -> None:
        self._request = request
        self._profile, self._knobs, self._losses, self._names = profile, knobs, losses, names
        choice = request.tool_choice
        self._choice_names_tools = choice is not None and choice.mode in ("tool", "allowed")
        """True if the tool choice names tools."""
        self._choices: dict[tuple[str, str | None], Json] = {}
        """Client's name and namespace of a tool → the form in which a choice names the tool that is sent."""
        self._times: Counter[str] | None = None
        """Number of tools sent by name; None until a choice names a namespace."""
        self._known: dict[tuple[str, str | None], Tool] | None = None
        """The tools by name and namespace. None until a result refers to one."""
        self._tool_search: bool | None = None
        """True if a tool search is sent; None until it is looked up."""

    def write_declared(self) -> list[Json]:
        """Return the `tools` of the request.

        Raises `Unsupported` for tools that only another provider's models know, and for asynchronous ones.
        """
        tools = self._request.tools
        if self._request.origin == DIALECT:
            found = {(ref.name, ref.namespace) for ref in _references(self._request)}
            if found:
                # A found tool stays in its search result: the list is the start of the cached prefix.
                tools = [tool for tool in tools if tool.at[:1] != ("input",) or (tool.name, _space(tool)) not in found]
        return self._write(tools)

    def write_found(self, references: Sequence[ToolReference]) -> list[Json]:
        """Return the definitions of the tools that a search found."""
        if self._known is None:
            self._known = {(tool.name, _space(tool)): tool for tool in self._request.tools}
        known = self._known
        tools = []
        for reference in references:
            tool = known.get((reference.name, reference.namespace))
            if tool is None:
                self._losses.add(LossCode.RESULT_SHAPE, reference.at, "no tool of the name is declared")
            else:
                tools.append(tool)
        return self._write(tools)

    def _write(self, tools: Iterable[Tool]) -> list[Json]:
        out: list[Json] = []
        group: Json | None = None
        for tool in tools:
            written = self._tool(tool)
            if written is None:
                continue
            space = tool.namespace
            if space is None:
                group = None
                out.append(written)
                continue
            if group is None or group["name"] != space.name:
                group = {"type": "namespace", "name": space.name}
                if space.description is not None:
                    group["description"] = space.description
                group["tools"] = []
                out.append(group)
            group["tools"].append(written)
        return out

    # --- one tool -----------------------------------------------------------------------------------------------------

    def _tool(self, tool: Tool) -> Json | None:
        """Return one tool, or None if it is dropped."""
        if tool.cache is not None:  # only content can have marks
            self._losses.add(LossCode.CACHE_HINT, tool.at)
        kind = tool.kind
        if kind == "function":
            written = self._function(tool)
        elif kind == "custom":
            written = self._custom(tool)
        else:
            hosted = self._other(tool)
            if hosted is None:
                return None
            written = hosted
        if self._choice_names_tools:
            self._record_choice(tool, written)
        return written

    def _record_choice(self, tool: Tool, written: Json) -> None:
        if tool.kind == "function" or tool.kind == "custom":
            choice = {"type": "function" if tool.kind == "function" else "custom", "name": written["name"]}
        else:
            choice = {"type": written["type"]}
            self._choices.setdefault((written["type"], None), choice)
        self._choices.setdefault((tool.name, _space(tool)), choice)

    def _function(self, tool: Tool) -> Json:
        own = tool.origin == DIALECT
        written: Json = {"type": "function", "name": self._names.fit(tool.name, tool.at)}
        if tool.description is not None:
            written["description"] = tool.description
        schema = tool.schema
        if not schema and tool.strict and not own:
            schema = {"additionalProperties": False}  # strict mode requires it
        written["parameters"] = schema if own else complete_schema(schema if schema is not None else {})
        if tool.strict is not None or not own:
            # Without `strict`, the API makes every property required (mapping §6.1).
            written["strict"] = tool.strict is True
        if tool.options:
            self._options(tool, written)
        return written

    def _options(self, tool: Tool, written: Json) -> None:
        if tool.origin == DIALECT and not self._profile.rewrite:
            written.update(tool.options)
            return
        kept: tuple[str, ...] = ()
        if tool.options.get("defer_loading") and self._has_tool_search():
            written["defer_loading"] = True
            kept = ("defer_loading",)
        drop_options(tool, self._losses, kept)

    def _custom(self, tool: Tool) -> Json:
        name = self._names.fit(tool.name, tool.at)
        if tool.origin == DIALECT and tool.native:
            return tool.native if name == tool.native.get("name") else {**tool.native, "name": name}
        written: Json = {"type": "custom", "name": name}
        if tool.description is not None:
            written["description"] = tool.description
        form = input_format(tool, nested=False)
        if form is not None:
            written["format"] = form
        self._options(tool, written)
        return written

    def _other(self, tool: Tool) -> Json | None:
        if tool.origin == DIALECT and tool.native and (self._profile.vendor_tools or tool.kind != "hosted"):
            return tool.native
        if self._profile.web_search and tool.origin == DIALECT and tool.kind == "hosted" and is_web_search(tool):
            return self._own_search(tool)
        if tool.kind == "search":
            written: Json = {"type": TOOL_SEARCH, "execution": "client"}
            if tool.description is not None:
                written["description"] = tool.description
            if tool.schema is not None:
                written["parameters"] = tool.schema
            return written
        return map_hosted(tool, self._knobs, self._losses, self._map_search)

    def _map_search(self, tool: Tool) -> Json | None:
        if is_web_search(tool):
            return self._own_search(tool) if self._profile.web_search else self._web_search(tool)
        return {"type": TOOL_SEARCH, "execution": "server"} if self._is_search_sent(tool) else None

    def _has_tool_search(self) -> bool:
        """True if a tool search is among the tools that are sent."""
        if self._tool_search is None:
            self._tool_search = any(
                tool.kind == "search" or (tool.kind == "hosted" and self._is_search_sent(tool))
                for tool in self._request.tools
            )
        return self._tool_search

    def _is_search_sent(self, tool: Tool) -> bool:
        """True if this is a provider-run tool search that this upstream has too."""
        if not _kind(tool).startswith(TOOL_SEARCH):
            return False
        return tool.origin == DIALECT or (self._profile.tool_search and self._knobs.hosted_tools == "map")

    def _own_search(self, tool: Tool) -> Json:
        """Return the web search that the vendor runs itself, with the domains that it may or may not read."""
        given = tool.options
        if tool.origin == DIALECT:
            filters = tool.native.get("filters")
            given = {**tool.native, **(filters if type(filters) is dict else {})}
        written: Json = {"type": WEB_SEARCH}
        for option, value in given.items():
            if option in _DOMAINS and value:
                written[_DOMAINS[option]] = value
            elif option not in _NO_OPTIONS and value is not True and not is_empty(value):
                self._losses.add(LossCode.TOOL_OPTION, (*tool.at, option))
        return written

    def _web_search(self, tool: Tool) -> Json:
        written: Json = {"type": WEB_SEARCH}
        for option, value in tool.options.items():
            if not value:
                continue
            if option == "allowed_domains":
                written["filters"] = {option: value}
            elif option == "user_location" and type(value) is dict:
                place = {key: entry for key, entry in value.items() if key != "type" and entry is not None}
                written[option] = {"type": "approximate", **place}
            elif option == "search_context_size":
                written[option] = value
            else:
                self._losses.add(LossCode.TOOL_OPTION, (*tool.at, option))
        return written

    # --- choice -------------------------------------------------------------------------------------------------------

    def write_choice(self, tools: list[Json]) -> str | Json | None:
        """Return the `tool_choice` to send with `tools`, or None.

        Raises `Unsupported` for a forced choice of a tool that is not sent.
        """
        choice = self._request.tool_choice
        if choice is None:
            return None
        if choice.mode in ("tool", "allowed"):
            named = [self._named(name, namespace, choice) for name, namespace in choice.named()]
            if choice.mode == "tool":
                if not named:
                    raise Unsupported(choice.at, "the chosen tool is run by another provider")
                return named[0]
            if not named and choice.require:
                raise Unsupported(choice.at, "a tool call is required, but no tool may be called")
            return {"type": "allowed_tools", "mode": "required" if choice.require else "auto", "tools": named}
        return write_mode(choice, tools)

    def _named(self, name: str, namespace: str | None, choice: ToolChoice) -> Json:
        named = self._choices.get((name, namespace))
        if named is None:
            why = "is run by another provider and was left out" if choice.hosted else "is not among the tools"
            raise Unsupported(choice.at, f"the chosen tool {name!r} {why}")
        if namespace is None:
            return named
        if self._times is None:
            self._times = Counter(known for known, _ in self._choices)
        return {**named, "namespace": namespace} if self._times[name] > 1 else named


def _kind(tool: Tool) -> str:
    kind: Any = tool.native.get("type")
    return kind if type(kind) is str else ""


def _space(tool: Tool) -> str | None:
    return tool.namespace.name if tool.namespace is not None else None


def _references(request: Request) -> Iterable[ToolReference]:
    for turn in request.turns:
        for part in turn.parts:
            if type(part) is ToolResult and part.search and isinstance(part.content, list):
                yield from (reference for reference in part.content if type(reference) is ToolReference)
