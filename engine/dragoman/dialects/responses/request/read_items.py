"""`input` items to turns (mapping §4.2, §6.3, §6.4, §8.4).

Items are smaller than turns: a text, reasoning and calls of one assistant turn are separate items, and so are the
outputs of its calls. `turn_builder` joins them. Item ids and statuses belong to the provider and are not carried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.canonical.parts import Native, Part, Reasoning, Text, ToolCall, ToolResult
from dragoman.canonical.request import Json, OutputFormat, Thinking
from dragoman.canonical.turn import Turn
from dragoman.dialects.responses.built_in_items import BUILT_IN_CALLS, BUILT_IN_OUTPUTS, read_call
from dragoman.dialects.responses.built_in_items import read_output as read_built_in_output
from dragoman.dialects.responses.request.read_as_text import (
    COMPACTED,
    agent_message,
    computer_call,
    computer_output,
    lenient_parts,
    loose_output,
)
from dragoman.dialects.responses.request.read_content import (
    ASSISTANT,
    INSTRUCTION,
    RESULT,
    USER,
    read_content,
    read_output,
)
from dragoman.dialects.responses.request.read_reasoning import read_reasoning_item
from dragoman.dialects.responses.request.read_settings import read_effort, read_text_format
from dragoman.dialects.responses.request.read_tools import ToolList
from dragoman.dialects.responses.request.refused_items import current_turn, is_reference, reject_item
from dragoman.dialects.responses.request.turn_builder import TurnBuilder
from dragoman.dialects.responses.stop_and_usage import DIALECT, TOOL_SEARCH
from dragoman.dialects.shared.json_fields import (
    arguments_text,
    kind_of,
    note_unknown,
    one_of,
    optional,
    required,
    required_text,
)
from dragoman.dialects.shared.odd_history import item_text
from dragoman.errors import ClientRequestError, Path
from dragoman.losses import LossCode, Losses
from dragoman.reasoning.compacted_history import COMPACTION, TRIGGER, expand, last_history, unwrap_history

_UNKNOWN: Final = -2
"""The index of the last history before it was looked up."""

_MESSAGE_KEYS: Final = frozenset({"type", "role", "content", "id", "status", "phase"})
_CALL_KEYS: Final = frozenset({"type", "id", "call_id", "name", "arguments", "status", "namespace", "caller", "async"})
_CUSTOM_KEYS: Final = frozenset({"type", "id", "call_id", "name", "input", "status", "namespace", "caller", "async"})
# `name` and `namespace` of an output repeat those of its call.
_OUTPUT_KEYS: Final = frozenset({"type", "id", "call_id", "output", "status", "name", "namespace", "caller"})
_BUILT_IN_KEYS: Final = frozenset(
    {"type", "id", "call_id", "action", "operation", "status", "environment", "caller", "created_by"}
)
_BUILT_IN_OUTPUT_KEYS: Final = frozenset(
    {"type", "id", "call_id", "output", "status", "max_output_length", "caller", "created_by"}
)
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


class ItemsReader:
    """Reads the items of one request and adds them to `turns`.

    `effort` and `format` are those of the last `configuration_update`. `format` is a tuple of one element, or empty if
    no update has a format.
    """

    def __init__(self, tools: ToolList, losses: Losses, turns: list[Turn]) -> None:
        self._tools, self._losses = tools, losses
        self._builder = TurnBuilder(losses, turns)
        self.turns = turns
        self._first = self._mark = 0
        """The numbers of turns and of losses before the items."""
        self._current = -1
        """The index at which the current user turn begins; -1 until an item cannot be read."""
        self.effort: Thinking | None = None
        self.format: tuple[OutputFormat | None, ...] = ()

    def read(self, items: list[Any]) -> None:
        """Read the items in order.

        Raises `ClientRequestError` for an item of the current user turn that is malformed or that no other dialect has.
        Before that turn, such an item becomes text, as clients send it again with each request.
        """
        self._first, self._mark = len(self.turns), len(self._losses)
        number, last = -1, _UNKNOWN
        while (number := self._builder.read_compact(items, number + 1)) < len(items):
            item = items[number]
            if type(item) is dict and item.get("type") == COMPACTION and unwrap_history(item) is not None:
                number = self._expand(items)
                continue
            if type(item) is dict and item.get("type") == TRIGGER:
                if last == _UNKNOWN:
                    last = last_history(items)
                if number <= last:
                    continue  # it has been answered
            self._item(item, number, items)

    def _expand(self, items: list[Any]) -> int:
        """Read the items up to the last compacted history again, with what it stands for in place of those it covers.

        Returns its index.
        """
        last = last_history(items)
        self._builder.restart(self._first)
        self._losses.rewind(self._mark)
        for place, item, _ in expand(items[: last + 1]):
            self._item(item, place, items)
        return last

    def _item(self, item: Any, number: int, items: list[Any]) -> None:
        """Read one item, which stands at `number` in the client's input."""
        at = ("input", number)
        try:
            if type(item) is not dict:
                raise ClientRequestError(at, f"expected an item (an object), got {kind_of(item)}")
            kind = item.get("type")
            reader = _READERS.get(kind) if type(kind) is str else None
            if reader is not None:
                reader(self, item, at)
            elif kind is None and "role" in item:
                self._message(item, at)
            else:
                reject_item(item, at)
        except ClientRequestError as error:
            if self._current < 0:
                self._current = current_turn(items)
            if self._losses.strict or is_reference(item) or number >= self._current:
                raise
            self._replace(item, at, str(error))

    def _replace(self, item: Any, at: Path, why: str) -> None:
        """Put a text in the place of an item of the history that cannot be read; `why` is the reason."""
        losses = self._losses
        kind = item.get("type", "message") if type(item) is dict else None
        if kind == "reasoning":
            losses.add(LossCode.REASONING_UNSIGNED, at, why)
        elif kind == TRIGGER:
            losses.add(LossCode.COMPACTION_SHAPE, at, "dropped: it is not the last item")
        elif kind == COMPACTION or kind == "context_compaction":
            losses.add(LossCode.COMPACTION_SHAPE, at, "a placeholder was sent to upstreams of other providers")
            self._native(item, kind, [Text(COMPACTED, at)], LossCode.COMPACTION_SHAPE, at)
        elif kind == "message" and type(content := item.get("content")) is list:
            role = item.get("role")
            instruction = role == "developer" or role == "system"
            table = ASSISTANT if role == "assistant" else INSTRUCTION if instruction else USER
            before = len(losses)
            parts = lenient_parts(content, table, (*at, "content"), losses)
            if len(losses) == before:
                losses.add(LossCode.ITEM_SHAPE, at, f"only its content was sent: {why}")
            if role == "assistant":
                self._builder.assistant_parts(at).extend(parts)
            elif instruction:
                self._builder.add_turn(Turn("instruction", parts, at, role))
            else:
                self._builder.add_turn(Turn("user", parts, at))
        else:
            losses.add(LossCode.ITEM_SHAPE, at, f"became text: {why}")
            text = Text(item_text(item), at)
            if type(kind) is str and kind not in _READERS:
                self._native(item, kind, [text], LossCode.ITEM_SHAPE, at)
            else:
                self._builder.add_turn(Turn("user", [text], at))

    def _native(self, item: Json, kind: str, instead: list[Part], code: LossCode, at: Path) -> None:
        self._builder.add_turn(Turn("user", [Native(DIALECT, kind, item, code, at, instead)], at))

    # --- messages -----------------------------------------------------------------------------------------------------

    def _message(self, item: Json, at: Path) -> None:
        losses = self._losses
        if not _MESSAGE_KEYS.issuperset(item):
            note_unknown(item, _MESSAGE_KEYS, at, losses)
        if "phase" in item and one_of(item, "phase", _PHASES, at) is not None:
            losses.add(LossCode.PHASE, (*at, "phase"))
        role, content, where = item.get("role"), item.get("content"), (*at, "content")
        if content is None and role == "assistant":  # a reply without content, as a client kept it
            content = []
        if content is None:
            raise ClientRequestError(where, "is required (a string or an array of parts)")
        plain = type(content) is str
        if role == "user":
            self._builder.add_turn(Turn("user", read_content(content, USER, where, losses), at, "", plain))
        elif role == "assistant":
            parts = read_content(content, ASSISTANT, where, losses)
            turn_parts = self._builder.assistant_parts(at, plain=plain)
            if turn_parts and parts and type(first := parts[0]) is Text:
                first.apart = True
            turn_parts.extend(parts)
        elif role == "developer" or role == "system":
            parts = read_content(content, INSTRUCTION, where, losses)
            self._builder.add_turn(Turn("instruction", parts, at, role, plain))
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
        arguments = arguments_text(item.get("arguments"))
        self._builder.assistant_parts(at).append(ToolCall(call_id, name, arguments, at, False, None, namespace))

    def _custom_call(self, item: Json, at: Path) -> None:
        call_id, name, namespace = self._call(item, _CUSTOM_KEYS, at)
        text = arguments_text(item.get("input"))
        self._builder.assistant_parts(at).append(ToolCall(call_id, name, text, at, True, None, namespace))

    def _call(self, item: Json, known: frozenset[str], at: Path) -> tuple[str, str, str | None]:
        """Return a call's id, name and namespace."""
        if not known.issuperset(item):
            note_unknown(item, known, at, self._losses)
        name = item.get("name")
        if type(name) is not str or not name:
            name = required_text(item, "name", at)
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
        output, where, losses = item.get("output"), (*at, "output"), self._losses
        try:
            content = output if type(output) is str else read_output(output, where, losses)
        except ClientRequestError:
            # An output stands in the history from its first request on.
            if losses.strict or type(output) is not list:
                raise
            content = lenient_parts(output, RESULT, where, losses)
        if item.get("call_id"):
            custom = item["type"] == "custom_tool_call_output"
            self._builder.add_result(ToolResult(_call_id(item, at), content, at, custom=custom))
            return
        losses.add(LossCode.ITEM_SHAPE, at, "an output without a call became a message of the user")
        self._native(item, item["type"], loose_output(item, content, at), LossCode.ITEM_SHAPE, at)

    def _agent_message(self, item: Json, at: Path) -> None:
        losses = self._losses
        losses.add(LossCode.ITEM_SHAPE, at, "a message between agents became a message of the user")
        self._native(item, item["type"], agent_message(item, at, losses), LossCode.ITEM_SHAPE, at)

    def _built_in_call(self, item: Json, at: Path) -> None:
        note_unknown(item, _BUILT_IN_KEYS, at, self._losses)
        if "caller" in item:
            self._caller(item, at)
        self._builder.assistant_parts(at).append(read_call(item, _call_id(item, at), at))

    def _built_in_output(self, item: Json, at: Path) -> None:
        note_unknown(item, _BUILT_IN_OUTPUT_KEYS, at, self._losses)
        if "caller" in item:
            self._caller(item, at)
        # The output of a local shell names its call in `id`.
        call_id = item["id"] if not item.get("call_id") and item.get("id") else _call_id(item, at)
        self._builder.add_result(read_built_in_output(item, call_id, at))

    def _computer_call(self, item: Json, at: Path) -> None:
        self._losses.add(LossCode.ITEM_SHAPE, at, "the call of the computer tool became a function call")
        self._builder.assistant_parts(at).append(computer_call(item, _call_id(item, at), at))

    def _computer_output(self, item: Json, at: Path) -> None:
        self._losses.add(LossCode.ITEM_SHAPE, at, "the output of the computer tool became a function's result")
        self._builder.add_result(computer_output(item, _call_id(item, at), at))

    # --- tools that appear later --------------------------------------------------------------------------------------

    def _search_call(self, item: Json, at: Path) -> None:
        note_unknown(item, _SEARCH_KEYS, at, self._losses)
        if not _by_client(item, at):
            self._builder.assistant_parts(at).append(
                Native(DIALECT, "tool_search_call", item, LossCode.TOOL_SEARCH, at)
            )
            return
        # An object here, JSON text in every other call.
        text = arguments_text(item.get("arguments"))
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
            self.format = (read_text_format(text, (*at, "text"), self._losses),)
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
    "agent_message": ItemsReader._agent_message,
    **dict.fromkeys(BUILT_IN_CALLS, ItemsReader._built_in_call),
    **dict.fromkeys(BUILT_IN_OUTPUTS, ItemsReader._built_in_output),
    "computer_call": ItemsReader._computer_call,
    "computer_call_output": ItemsReader._computer_output,
    **dict.fromkeys(_HOSTED, ItemsReader._hosted),
}


def _call_id(item: Json, at: Path) -> str:
    call_id = item.get("call_id")
    if type(call_id) is not str or not call_id:
        call_id = required_text(item, "call_id", at)
    return call_id


def _by_client(item: Json, at: Path) -> bool:
    """True if the client ran this search: `execution` is `client`, or missing in an item with a `call_id`."""
    execution = one_of(item, "execution", ("server", "client"), at)
    return execution == "client" or (execution is None and item.get("call_id") is not None)
