"""`input` items to turns (mapping §4.2, §6.3, §6.4, §8.4).

Items are smaller than turns: a text, reasoning and calls of one assistant turn are separate items, and so are the
outputs of its calls. `turn_builder` joins them. Item ids and statuses belong to the provider and are not carried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.canonical.request import (
    Json,
    Native,
    OutputFormat,
    Reasoning,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from dragoman.dialects.responses.request.read_content import ASSISTANT, INSTRUCTION, USER, read_content, read_output
from dragoman.dialects.responses.request.read_reasoning import read_reasoning_item
from dragoman.dialects.responses.request.read_settings import read_effort, read_format
from dragoman.dialects.responses.request.read_tools import ToolList
from dragoman.dialects.responses.request.turn_builder import TurnBuilder
from dragoman.dialects.responses.stop_and_usage import DIALECT, TOOL_SEARCH
from dragoman.dialects.shared.json_fields import kind_of, note_unknown, one_of, optional, required
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.reasoning.compacted_history import COMPACTION, TRIGGER, expand, last_history, unwrap_history
from dragoman.wire.json_codec import dumps

# Member access on an enum class costs more than a global.
_UNKNOWN: Final = -2
"""The index of the last history before it was looked up."""
_INSTRUCTION: Final = Role.INSTRUCTION
_USER: Final = Role.USER

_MESSAGE_KEYS: Final = frozenset({"type", "role", "content", "id", "status", "phase"})
_CALL_KEYS: Final = frozenset({"type", "id", "call_id", "name", "arguments", "status", "namespace", "caller", "async"})
_CUSTOM_KEYS: Final = frozenset({"type", "id", "call_id", "name", "input", "status", "namespace", "caller", "async"})
# `name` and `namespace` of an output repeat those of its call.
_OUTPUT_KEYS: Final = frozenset({"type", "id", "call_id", "output", "status", "name", "namespace", "caller"})
_SEARCH_KEYS: Final = frozenset({"type", "id", "call_id", "execution", "arguments", "tools", "status"})
_TOOLS_KEYS: Final = frozenset({"type", "id", "role", "tools"})
_UPDATE_KEYS: Final = frozenset({"type", "id", "reasoning", "text"})
_FORMAT: Final = frozenset({"format"})
_DIRECT: Final[Json] = {"type": "direct"}
"""The default of `caller`."""
_PHASES: Final = ("commentary", "final_answer")

_HOSTED: Final = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
)
_BUILT_IN: Final = "the built-in tool is known to OpenAI's models only; leave its calls and outputs out of `input`"
_APPROVAL: Final = "this upstream does not connect to MCP servers; leave the item out of `input`"
_PROGRAM: Final = "this upstream writes no programs that call tools; leave the item out of `input`"
_UNSUPPORTED: Final[dict[str, str]] = {
    **dict.fromkeys(("computer_call", "shell_call", "local_shell_call", "apply_patch_call"), _BUILT_IN),
    **dict.fromkeys(
        ("computer_call_output", "shell_call_output", "local_shell_call_output", "apply_patch_call_output"), _BUILT_IN
    ),
    **dict.fromkeys(("mcp_approval_request", "mcp_approval_response"), _APPROVAL),
    **dict.fromkeys(("program", "program_output"), _PROGRAM),
    "compaction": "the compacted history can be read by the provider that made it only; send the items it stands for",
    "compaction_trigger": "it must be the last item, and only a gateway compacts; else ask for a summary in a message",
    "item_reference": "no items are stored here; send the item itself",
}


class ItemsReader:
    """Reads the items of one request and adds them to `turns`.

    `effort` and `format` are those of the last `configuration_update`. `format` is a tuple of one element, or empty if
    no update has a format.
    """

    __slots__ = ("_builder", "_first", "_losses", "_mark", "_tools", "effort", "format", "turns")

    def __init__(self, tools: ToolList, losses: Losses, turns: list[Turn]) -> None:
        self._tools, self._losses = tools, losses
        self._builder = TurnBuilder(losses, turns)
        self.turns = turns
        self._first = self._mark = 0
        """The numbers of turns and of losses before the items."""
        self.effort: Thinking | None = None
        self.format: tuple[OutputFormat | None, ...] = ()

    def read(self, items: list[Any]) -> None:
        """Read the items in order. Raises `ClientRequestError`, `Unsupported` for items that no other dialect has."""
        self._first, self._mark = len(self.turns), len(self._losses)
        number, last = -1, _UNKNOWN
        while (number := self._builder.read_compact(items, number + 1)) < len(items):
            item, at = items[number], ("input", number)
            if type(item) is not dict:
                raise ClientRequestError(at, f"expected an item (an object), got {kind_of(item)}")
            kind = item.get("type")
            reader = _READERS.get(kind) if type(kind) is str else None
            if reader is not None:
                reader(self, item, at)
            elif kind is None and "role" in item:
                self._message(item, at)
            elif kind == COMPACTION and unwrap_history(item) is not None:
                number = self._expand(items)
            else:
                if last == _UNKNOWN:
                    last = last_history(items)
                if kind != TRIGGER or number > last:
                    _reject(item, at)  # but not a trigger that has been answered

    def _expand(self, items: list[Any]) -> int:
        """Read the items up to the last compacted history again, with what it stands for in place of those it covers.

        Returns its index.
        """
        last = last_history(items)
        self._builder.restart(self._first)
        self._losses.rewind(self._mark)
        for place, item, _ in expand(items[: last + 1]):
            at = ("input", place)
            if type(item) is not dict:
                raise ClientRequestError(at, f"expected an item (an object), got {kind_of(item)}")
            kind = item.get("type")
            reader = _READERS.get(kind) if type(kind) is str else None
            if reader is not None:
                reader(self, item, at)
            elif kind is None and "role" in item:
                self._message(item, at)
            else:
                _reject(item, at)
        return last

    # --- messages -----------------------------------------------------------------------------------------------------

    def _message(self, item: Json, at: Path) -> None:
        losses = self._losses
        if not _MESSAGE_KEYS.issuperset(item):
            note_unknown(item, _MESSAGE_KEYS, at, losses)
        if "phase" in item and one_of(item, "phase", _PHASES, at) is not None:
            losses.add(LossCode.PHASE, (*at, "phase"))
        role, content, where = item.get("role"), item.get("content"), (*at, "content")
        if content is None:
            raise ClientRequestError(where, "is required (a string or an array of parts)")
        plain = type(content) is str
        if role == "user":
            self._builder.add_turn(Turn(_USER, read_content(content, USER, where, losses), at, "", plain))
        elif role == "assistant":
            parts = read_content(content, ASSISTANT, where, losses)
            turn_parts = self._builder.assistant_parts(at, plain=plain)
            if turn_parts and parts and type(first := parts[0]) is Text:
                first.apart = True
            turn_parts.extend(parts)
        elif role == "developer" or role == "system":
            parts = read_content(content, INSTRUCTION, where, losses)
            self._builder.add_turn(Turn(_INSTRUCTION, parts, at, role, plain))
        else:
            word = required(item, "role", str, at)
            hint = "; a tool's result is an item of type function_call_output" if word in ("tool", "function") else ""
            raise ClientRequestError(
                (*at, "role"), f"expected one of user, assistant, developer, system; got {word!r}{hint}"
            )

    def _reasoning(self, item: Json, at: Path) -> None:
        reasoning = read_reasoning_item(item, at, self._losses)
        self._builder.assistant_parts(at).append(Reasoning(*reasoning))

    # --- calls and their outputs --------------------------------------------------------------------------------------

    def _function_call(self, item: Json, at: Path) -> None:
        call_id, name, namespace = self._call(item, _CALL_KEYS, at)
        arguments = item.get("arguments")
        if type(arguments) is not str:
            arguments = optional(item, "arguments", str, at) or ""
        self._builder.assistant_parts(at).append(ToolCall(call_id, name, arguments, at, False, None, namespace))

    def _custom_call(self, item: Json, at: Path) -> None:
        call_id, name, namespace = self._call(item, _CUSTOM_KEYS, at)
        text = required(item, "input", str, at)
        self._builder.assistant_parts(at).append(ToolCall(call_id, name, text, at, True, None, namespace))

    def _call(self, item: Json, known: frozenset[str], at: Path) -> tuple[str, str, str | None]:
        """Returns a call's id, name and namespace."""
        if not known.issuperset(item):
            note_unknown(item, known, at, self._losses)
        name = item.get("name")
        if type(name) is not str or not name:
            required(item, "name", str, at)
            raise ClientRequestError((*at, "name"), "must not be empty")
        namespace = optional(item, "namespace", str, at) if "namespace" in item else None
        if "caller" in item:
            self._caller(item, at)
        if item.get("async"):
            self._losses.add(LossCode.CALL_META, (*at, "async"))
        return _call_id(item, at), name, namespace or None

    def _caller(self, item: Json, at: Path) -> None:
        caller = optional(item, "caller", dict, at)
        if caller is not None and caller != _DIRECT:
            self._losses.add(LossCode.CALL_META, (*at, "caller"))

    def _output(self, item: Json, at: Path) -> None:
        if not _OUTPUT_KEYS.issuperset(item):
            note_unknown(item, _OUTPUT_KEYS, at, self._losses)
        if "caller" in item:
            self._caller(item, at)
        output = item.get("output")
        content = output if type(output) is str else read_output(output, (*at, "output"), self._losses)
        custom = item["type"] == "custom_tool_call_output"
        self._builder.add_result(ToolResult(_call_id(item, at), content, at, custom=custom))

    # --- tools that appear later --------------------------------------------------------------------------------------

    def _search_call(self, item: Json, at: Path) -> None:
        note_unknown(item, _SEARCH_KEYS, at, self._losses)
        if not _by_client(item, at):
            self._builder.assistant_parts(at).append(
                Native(DIALECT, "tool_search_call", item, LossCode.TOOL_SEARCH, at)
            )
            return
        arguments = item.get("arguments")
        # An object here, JSON text in every other call.
        text = arguments if type(arguments) is str else "" if arguments is None else dumps(arguments).decode()
        call = ToolCall(_call_id(item, at), TOOL_SEARCH, text, at, search=True)
        self._builder.assistant_parts(at).append(call)

    def _search_output(self, item: Json, at: Path) -> None:
        """Read the tools that a search found, by client or provider: they are declared nowhere else (mapping §8.4)."""
        note_unknown(item, _SEARCH_KEYS, at, self._losses)
        references = self._tools.add_found(required(item, "tools", list, at), (*at, "tools"))
        if _by_client(item, at):
            self._builder.add_result(ToolResult(_call_id(item, at), [*references], at, search=True))
        else:
            self._builder.assistant_parts(at).append(
                Native(DIALECT, "tool_search_output", item, LossCode.TOOL_SEARCH, at)
            )

    def _additional_tools(self, item: Json, at: Path) -> None:
        note_unknown(item, _TOOLS_KEYS, at, self._losses)
        one_of(item, "role", ("developer",), at)
        self._tools.declare(required(item, "tools", list, at), (*at, "tools"))
        if self._builder.has_conversation:
            self._losses.add(LossCode.TOOL_TIMELINE, at, "declared from the start")

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _configuration_update(self, item: Json, at: Path) -> None:
        """Read new settings. The last ones apply to the reply; that earlier ones differed is a loss."""
        note_unknown(item, _UPDATE_KEYS, at, self._losses)
        thinking = read_effort(item, at, self._losses)
        if thinking is not None:
            self.effort = thinking
            self._losses.add(LossCode.PER_TURN_EFFORT, thinking.at, "the last one counts for the whole conversation")
        text = optional(item, "text", dict, at)
        if text is None:
            return
        note_unknown(text, _FORMAT, (*at, "text"), self._losses)
        if text.get("format") is not None:
            self.format = (read_format(text, (*at, "text"), self._losses),)
            self._losses.add(
                LossCode.PER_TURN_EFFORT, (*at, "text", "format"), "the last format counts for the whole conversation"
            )

    def _hosted(self, item: Json, at: Path) -> None:
        self._builder.assistant_parts(at).append(Native(DIALECT, item["type"], item, LossCode.HOSTED_HISTORY, at))


# Functions, not bound methods: a table of those in each reader would be a reference cycle.
_READERS: Final[dict[str, Callable[[ItemsReader, Json, Path], None]]] = {
    "message": ItemsReader._message,
    "function_call": ItemsReader._function_call,
    "function_call_output": ItemsReader._output,
    "reasoning": ItemsReader._reasoning,
    "custom_tool_call": ItemsReader._custom_call,
    "custom_tool_call_output": ItemsReader._output,
    "tool_search_call": ItemsReader._search_call,
    "tool_search_output": ItemsReader._search_output,
    "additional_tools": ItemsReader._additional_tools,
    "configuration_update": ItemsReader._configuration_update,
    **dict.fromkeys(_HOSTED, ItemsReader._hosted),
}


def _reject(item: Json, at: Path) -> None:
    kind = item.get("type")
    if kind is None and type(item.get("id")) is str:  # the SDKs send a reference without its type
        kind = "item_reference"
    if type(kind) is not str:
        required(item, "type", str, at)
    why = _UNSUPPORTED.get(str(kind)) or "no other dialect has such an item; leave it out of `input`"
    raise Unsupported((*at, "type") if "type" in item else at, f"an item of type {kind!r} cannot be sent: {why}")


def _call_id(item: Json, at: Path) -> str:
    call_id = item.get("call_id")
    if type(call_id) is not str or not call_id:
        required(item, "call_id", str, at)
        raise ClientRequestError((*at, "call_id"), "must not be empty")
    return call_id


def _by_client(item: Json, at: Path) -> bool:
    """True if the client ran this search: `execution` is `client`, or missing in an item with a `call_id`."""
    execution = one_of(item, "execution", ("server", "client"), at)
    return execution == "client" or (execution is None and item.get("call_id") is not None)
