"""Tools of kinds that the upstream's dialect lacks, there and back (mapping §6.1, §11).

Namespaces are flattened to `ns__name`, free-text tools become functions with one text field, and a client-run tool
search becomes a function. Agents accept a call only in the very kind and namespace they declared, so what each sent
name was for the client is kept with the request and restored in the reply. Everything follows from the request alone:
the tools come with each one, so no state is needed and the same body always makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .errors import ClientRequestError, DragomanError, Path, Unsupported
from .events import CUTS, BlockEnd, BlockStart, Delta, Error, Event, Kind
from .jsontext import dumps
from .knobs import Knobs
from .losses import Code, Losses
from .model import (
    Part,
    Reply,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolKind,
    ToolReference,
    ToolResult,
)
from .profile import Profile
from .unwrapper import FIELD, Unwrapper


@dataclass(frozen=True, slots=True)
class Declared:
    """What a sent tool was for the client."""

    name: str
    namespace: str | None = None
    kind: ToolKind = ToolKind.FUNCTION


def flat_name(name: str, namespace: str | None) -> str:
    """`ns__name`: the name of a namespaced tool where there are no namespaces."""
    return f"{namespace}__{name}" if namespace else name


def bridge_tools(request: Request, profile: Profile, knobs: Knobs, losses: Losses) -> dict[str, Declared]:
    """Rewrite the tools, calls, results and choice of `request` in place for what the upstream takes.

    Gives sent name → what the client declared, for the tools that were changed. Raises `Unsupported` for free-text
    tools where the `custom_tool_bridge` knob says so, `ClientRequestError` for names that collide once flattened.
    """
    bridge = _Bridge(request.origin, profile, knobs, losses)
    for tool in request.tools:
        bridge.declare(tool)
    choice = request.tool_choice
    if choice is not None and choice.names:
        if choice.custom and not profile.custom_tools:
            bridge.refuse_custom(choice.at, f"the chosen tool {choice.names[0]!r}")
            choice.custom = False
        choice.names = [bridge.chosen.get(name, name) for name in choice.names]
    for turn in request.turns:
        for part in turn.parts:
            if type(part) is ToolCall:
                bridge.call(part)
            elif type(part) is ToolResult:
                bridge.result(part)
    return bridge.declared


class _Bridge:
    """What one request's upstream lacks, and what became of its tools."""

    __slots__ = ("_flat", "_knobs", "_losses", "_search", "_taken", "_wrap", "chosen", "declared", "origin")

    def __init__(self, origin: str, profile: Profile, knobs: Knobs, losses: Losses) -> None:
        self.origin = origin
        self._flat = not profile.namespaces
        self._wrap = not profile.custom_tools
        self._search = not profile.tool_search
        self._knobs, self._losses = knobs, losses
        self._taken: set[str] = set()
        self.declared: dict[str, Declared] = {}
        self.chosen: dict[str, str] = {}
        """Bare name → sent name of the first tool that has it, for a choice that names no namespace."""

    def declare(self, tool: Tool) -> None:
        """One tool of the list."""
        name, kind, namespace = tool.name, tool.kind, tool.namespace
        if namespace is not None and self._flat:
            tool.name = flat_name(name, namespace.name)
            if namespace.description:
                tool.description = "\n\n".join(filter(None, (namespace.description, tool.description)))
            tool.namespace = None
            self.chosen.setdefault(name, tool.name)
        if kind is ToolKind.CUSTOM and self._wrap:
            self.refuse_custom(tool.at, f"the free-text (custom) tool {name!r}")
            self._losses.add(Code.CUSTOM_WRAPPED, tool.at)
            _wrap_tool(tool)
        elif kind is ToolKind.SEARCH and self._search:
            tool.kind = ToolKind.FUNCTION
        if self._flat:
            # Checked here, because a flattened name may meet one that was written out.
            if tool.name in self._taken:
                raise ClientRequestError(tool.at, f"a second tool of the name {tool.name!r}")
            self._taken.add(tool.name)
        if tool.name != name or tool.kind is not kind:
            self.declared[tool.name] = Declared(name, namespace.name if namespace else None, kind)

    def refuse_custom(self, at: Path, what: str) -> None:
        """Raise `Unsupported` unless free-text tools are to be wrapped."""
        policy = self._knobs.custom_tool_bridge
        if policy == "reject" or (policy == "auto" and self.origin != "responses"):
            raise Unsupported(
                at, f"{what} cannot be carried to this upstream, whose tools take JSON (custom_tool_bridge = wrap can)"
            )

    def call(self, call: ToolCall) -> None:
        """One call of the history."""
        if call.namespace is not None and self._flat:
            call.name = flat_name(call.name, call.namespace)
            call.namespace = None
        if call.custom and self._wrap:
            self.refuse_custom(call.at, f"the call of the free-text (custom) tool {call.name!r}")
            call.arguments = dumps({FIELD: call.arguments}).decode()
            call.custom = False
        if call.search and self._search:
            call.search = False

    def result(self, result: ToolResult) -> None:
        """One result of the history."""
        if result.custom and self._wrap:
            result.custom = False
        if result.search and self._search:
            # The tools that were found are declared like all others; the model only has to know which they are.
            self._losses.add(Code.TOOL_SEARCH, result.at, "the tools found are declared; the result names them")
            result.content = _found(result.content)
            result.search = False


def _found(content: str | list[Part]) -> str:
    if isinstance(content, str):
        return content
    names = [flat_name(part.name, part.namespace) for part in content if type(part) is ToolReference]
    texts = [part.text for part in content if type(part) is Text]
    return "\n".join([*texts, "Tools found: " + ", ".join(names) if names else "No tools found."])


def _wrap_tool(tool: Tool) -> None:
    told = [tool.description or ""]
    native = tool.native.get("custom", tool.native)
    form = native.get("format") if type(native) is dict else None
    note = "The tool's whole input, as free text."
    if type(form) is dict and form.get("type") == "grammar":
        grammar = form.get("grammar", form)
        syntax, definition = grammar.get("syntax"), grammar.get("definition")
        note = f"The tool's whole input, as text in the {syntax} grammar of the tool's description; no JSON inside."
        told.append(f"The `{FIELD}` must match this {syntax} grammar:\n{definition}")
    tool.kind = ToolKind.FUNCTION
    tool.description = "\n\n".join(filter(None, told))
    tool.schema = {
        "type": "object",
        "properties": {FIELD: {"type": "string", "description": note}},
        "required": [FIELD],
        "additionalProperties": False,
    }
    tool.native = {}


# --- the way back -----------------------------------------------------------------------------------------------------


class ToolRestorer:
    """A stage on events: calls come back in the kind, name and namespace that the client declared."""

    __slots__ = ("_losses", "_open", "_tools", "done")

    def __init__(self, tools: Mapping[str, Declared], losses: Losses) -> None:
        self.done = False
        self._tools = tools
        self._losses = losses
        self._open: dict[int, Unwrapper] = {}

    def feed(self, events: list[Event], /) -> list[Event]:
        """The events, of which those of a wrapped call carry its free text. A call without one is an `Error`."""
        out: list[Event] = []
        try:
            for event in events:
                self._restore(event, out)
        except DragomanError as error:
            out.append(Error(error.failure))
            self.done = True
        return out

    def _restore(self, event: Event, out: list[Event]) -> None:
        if isinstance(event, Delta):
            unwrapper = self._open.get(event.index) if self._open else None
            if unwrapper is not None:
                if text := unwrapper.feed(event.text):
                    out.append(Delta(event.index, text))
                return
        elif isinstance(event, BlockStart):
            declared = self._tools.get(event.name)
            if declared is not None and event.kind is Kind.TOOL:
                event = self._restored(event, declared)
        elif isinstance(event, BlockEnd):
            unwrapper = self._open.pop(event.index, None)
            if unwrapper is not None and (text := unwrapper.finish(self._losses)):
                out.append(Delta(event.index, text))
        out.append(event)

    def finish(self) -> list[Event]:
        """Nothing: readers end every stream."""
        return []

    def _restored(self, event: BlockStart, declared: Declared) -> BlockStart:
        custom = declared.kind is ToolKind.CUSTOM
        if custom and not event.custom:
            self._open[event.index] = Unwrapper(declared.name)
        return BlockStart(
            event.index,
            event.kind,
            event.call_id,
            declared.name,
            custom=custom,
            namespace=declared.namespace,
            search=declared.kind is ToolKind.SEARCH,
        )


def restore_reply(reply: Reply, tools: Mapping[str, Declared], losses: Losses) -> None:
    """The same on a whole reply, in place. Raises UpstreamProtocolError for arguments that hold no text."""
    for part in reply.parts:
        if type(part) is not ToolCall or (declared := tools.get(part.name)) is None:
            continue
        part.name, part.namespace = declared.name, declared.namespace
        part.search = declared.kind is ToolKind.SEARCH
        if declared.kind is ToolKind.CUSTOM and not part.custom:
            unwrapper = Unwrapper(declared.name)
            text = unwrapper.feed(part.arguments)
            part.arguments = text + unwrapper.finish(losses, cut=reply.stop.reason in CUTS)
            part.custom = True
