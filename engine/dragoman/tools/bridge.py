"""Replaces kinds of tools that the upstream lacks by plain functions (mapping §6.1, §11).

Namespaces are flattened to `ns__name`, free-text tools become functions with one text field, and a client-run tool
search and the tools that only one vendor's models know become functions. So do parts of the history that only one
dialect has become others. Agents accept a call only of the kind and in the namespace that they declared, so the
original of each changed tool is kept for the reply, and `stages.tool_restorer` restores it there. Nothing is kept
between requests: each one declares its tools, and the same body always becomes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dragoman.canonical.parts import Native, Part, Text, ToolCall, ToolReference, ToolResult
from dragoman.canonical.request import Namespace, Request, Tool, ToolKind
from dragoman.canonical.turn import Turn
from dragoman.dialects import FACTS
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.built_in_tools import ORIGIN, become_built_in_function
from dragoman.tools.client_tools import become_function
from dragoman.tools.free_text import TEXT_FIELD
from dragoman.tools.names import NameTable, sanitize_tool_name, with_prefix
from dragoman.wire.json_codec import dumps

MAX_REPEATED = 4 * 1024 * 1024
"""Most characters that flattening may add to one request. Each tool repeats the description of its namespace, so many
tools with a long one would fill the memory."""


@dataclass(frozen=True, slots=True)
class OriginalTool:
    """A tool as the client declared it."""

    name: str
    namespace: str | None = None
    kind: ToolKind = "function"


def flat_name(name: str, namespace: str | None) -> str:
    """Return `ns__name`, the name of a namespaced tool at an upstream without namespaces."""
    return f"{namespace}__{name}" if namespace else name


def bridge_tools(
    request: Request, full_turns: Iterable[Turn], profile: Profile, knobs: Knobs, losses: Losses, names: NameTable
) -> dict[str, OriginalTool]:
    """Replace the tools, calls, results and tool choice that the upstream lacks, in place.

    Return upstream name → the tool as the client declared it, for each tool that was changed. Raises `Unsupported` for
    free-text tools if the knob `custom_tool_bridge` rejects them, `ClientRequestError` for names that collide once
    flattened.

    Args:
        request: the request to change.
        full_turns: its turns that are not compact (`call_ids.CallPairing`); compact ones hold plain calls only.
        profile: the upstream's abilities.
        knobs: the operator's choices.
        losses: where each replacement is recorded.
        names: gets the names of flattened tools for calls whose namespace the client left out.
    """
    bridge = _Bridge(request.origin, profile, knobs, losses)
    for tool in request.tools:
        bridge.declare(tool)
    choice = request.tool_choice
    if choice is not None and choice.names:
        if choice.custom and not profile.custom_tools:
            bridge.refuse_custom(choice.at, f"the chosen tool {choice.names[0]!r}")
            choice.custom = False
        if choice.namespaces and not profile.namespaces:
            choice.names = [flat_name(name, namespace) for name, namespace in choice.named()]
            choice.namespaces = []
    if bridge.bare:
        taken = {tool.name for tool in request.tools}
        for name, flat in bridge.bare.items():
            if flat and name not in taken:
                names.known[name] = names.fit(flat)
    for turn in full_turns:
        bridge.natives(turn)
        for part in turn.parts:
            if type(part) is ToolCall:
                if part.custom or part.search or part.namespace is not None or part.built_in:
                    bridge.call(part)
            elif type(part) is ToolResult and (part.custom or part.search or part.built_in):
                bridge.result(part)
    return bridge.declared


class _Bridge:
    """The replacements of one request: what the upstream lacks, and the tools that were changed."""

    def __init__(self, origin: str, profile: Profile, knobs: Knobs, losses: Losses) -> None:
        self.origin = origin
        self._flat = not profile.namespaces
        self._wrap = not profile.custom_tools
        self._search = not profile.tool_search
        self._native, self._typed = profile.agent_messages, profile.client_tools
        self._built_in = profile.built_in_tools
        self._knobs, self._losses = knobs, losses
        self._name_max = profile.tool_name_max
        self._repeated = 0
        self._taken: set[str] = set()
        self.bare: dict[str, str] = {}
        """Name without namespace → flat name; empty if several namespaces have the name."""
        self.declared: dict[str, OriginalTool] = {}

    def declare(self, tool: Tool) -> None:
        """Replace one tool of the list."""
        name, kind, namespace = tool.name, tool.kind, tool.namespace
        if namespace is not None and self._flat:
            self._repeat(tool, namespace)
            tool.name = flat_name(name, namespace.name)
            if namespace.description:
                tool.description = "\n\n".join(filter(None, (namespace.description, tool.description)))
            tool.namespace = None
            self.bare[name] = "" if name in self.bare else tool.name
        if kind == "function" and namespace is None:
            if self._flat:
                self._take(tool)
            return
        if kind == "typed":
            built_in = tool.origin == ORIGIN
            if not (self._built_in if built_in else self._typed):
                # Calls need no restoring here: they have the name and the arguments that the client's tool takes, and
                # the writer of replies knows the built-in tools.
                self._losses.add(LossCode.TYPED_TOOL, tool.at, "became a function")
                (become_built_in_function if built_in else become_function)(tool)
                self._take(tool)
                return
        if kind == "custom" and self._wrap:
            self.refuse_custom(tool.at, f"the free-text (custom) tool {name!r}")
            self._losses.add(LossCode.CUSTOM_WRAPPED, tool.at, "became a function")
            _wrap_tool(tool)
        elif kind == "search" and self._search:
            tool.kind = "function"
        if self._flat and kind != "hosted":  # the client chooses no name for those
            self._take(tool)
        if tool.name != name or tool.kind != kind:
            kept = tool.namespace.name if tool.namespace is not None else None
            self.declared[flat_name(tool.name, kept)] = OriginalTool(name, namespace.name if namespace else None, kind)

    def _repeat(self, tool: Tool, namespace: Namespace) -> None:
        """Count the characters that a tool repeats of its namespace. Raises `ClientRequestError` over the limit."""
        self._repeated += len(namespace.name) + len(namespace.description or "")
        if self._repeated > MAX_REPEATED:
            raise ClientRequestError(
                tool.at,
                "this upstream has no namespaces, so each tool repeats the name and description of its own: over "
                f"{MAX_REPEATED} characters in all; shorten them or send fewer tools",
            )

    def _take(self, tool: Tool) -> None:
        # A flattened name may equal one that the client wrote in full.
        if tool.name in self._taken:
            raise ClientRequestError(tool.at, f"a second tool of the name {tool.name!r}")
        self._taken.add(tool.name)

    def refuse_custom(self, at: Path, what: str) -> None:
        """Raise `Unsupported` unless the knob `custom_tool_bridge` allows to wrap free-text tools."""
        policy = self._knobs.custom_tool_bridge
        if policy == "reject" or (policy == "auto" and not FACTS[self.origin].agent_tools):
            raise Unsupported(
                at, f"{what} cannot be sent to this upstream, whose tools take JSON (custom_tool_bridge = wrap can)"
            )

    def _wrap_call(self, call: ToolCall) -> None:
        """Make a call of a free-text tool a function call. Calls are history, which `auto` does not refuse."""
        if self._knobs.custom_tool_bridge != "auto":
            self.refuse_custom(call.at, f"the call of the free-text (custom) tool {call.name!r}")
        elif not FACTS[self.origin].agent_tools:
            self._losses.add(LossCode.CUSTOM_WRAPPED, call.at, "the call became a function call")
        call.arguments = dumps({TEXT_FIELD: call.arguments}).decode()
        call.custom = False

    def natives(self, turn: Turn) -> None:
        """Replace the parts of one turn that have replacements for other upstreams."""
        if self._native or not any(type(part) is Native and part.instead for part in turn.parts):
            return
        parts: list[Part] = []
        for part in turn.parts:
            parts += part.instead if type(part) is Native and part.instead else (part,)
        turn.parts = parts

    def call(self, call: ToolCall) -> None:
        """Replace one call of the history."""
        if call.namespace is not None and self._flat:
            call.name = flat_name(call.name, call.namespace)
            call.namespace = None
        if call.custom and self._wrap:
            self._wrap_call(call)
        if call.search and self._search:
            call.search = False
        if call.built_in and not self._built_in:
            self._losses.add(LossCode.ITEM_SHAPE, call.at, "the call of a built-in tool became a function call")
            call.built_in = ""

    def result(self, result: ToolResult) -> None:
        """Replace one result of the history."""
        if result.custom and self._wrap:
            result.custom = False
        if result.built_in and not self._built_in:
            self._losses.add(LossCode.ITEM_SHAPE, result.at, "the output of a built-in tool became a function's result")
            result.built_in = ""
        if result.search and self._search:
            # The tools that were found are declared like all others; the model only needs their names.
            self._losses.add(LossCode.TOOL_SEARCH, result.at, "the tools found are declared; the result names them")
            result.content = self._found(result.content)
            result.search = False

    def _found(self, content: str | list[Part]) -> str:
        """Return a search's result as text, with the tools' upstream names."""
        if isinstance(content, str):
            return content
        rules = self._knobs.tool_prefixes
        names = [
            sanitize_tool_name(
                with_prefix(flat_name(part.name, part.namespace if self._flat else None), rules), self._name_max
            )
            for part in content
            if type(part) is ToolReference
        ]
        texts = [part.text for part in content if type(part) is Text]
        return "\n".join([*texts, "Tools found: " + ", ".join(names) if names else "No tools found."])


def _wrap_tool(tool: Tool) -> None:
    description = [tool.description or ""]
    native = tool.native.get("custom", tool.native)  # Chat nests the fields that Responses has flat
    form = native.get("format") if type(native) is dict else None
    note = "The tool's whole input, as free text."
    if type(form) is dict and form.get("type") == "grammar":
        grammar = form.get("grammar", form)
        syntax, definition = (grammar.get(key) if type(grammar) is dict else None for key in ("syntax", "definition"))
        if type(syntax) is not str or type(definition) is not str:
            raise ClientRequestError(tool.at, "a grammar needs a syntax and a definition (strings)")
        note = f"The tool's whole input, as text in the {syntax} grammar of the tool's description; no JSON inside."
        description.append(f"The `{TEXT_FIELD}` must match this {syntax} grammar:\n{definition}")
    tool.kind = "function"
    tool.description = "\n\n".join(filter(None, description))
    tool.schema = {
        "type": "object",
        "properties": {TEXT_FIELD: {"type": "string", "description": note}},
        "required": [TEXT_FIELD],
        "additionalProperties": False,
    }
    tool.native = {}
