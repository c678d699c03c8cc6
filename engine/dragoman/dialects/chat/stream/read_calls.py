"""Assembles the tool calls of a Chat stream, several of which may be open at a time.

Chat ends all calls at the finish. Here, a complete call ends when another block starts (`early_call_ends`). Fragments
belong to a call by their `index`. Compatible servers omit it, send the same one for all calls, or leave gaps; they send
no id, or one id twice; they repeat the name or the whole call. A deviation with one possible meaning is repaired and
recorded as a loss. Any other is an error, because agents execute each call that ends without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.canonical.events import BlockEnd, BlockStart, Delta, Event
from dragoman.canonical.request import Json
from dragoman.dialects.chat.call_body import call_body
from dragoman.dialects.chat.extra_content import EXTRA_KEY, read_signed
from dragoman.dialects.chat.odd_forms import nested_call
from dragoman.dialects.chat.reply_fields import CALL, CALL_BODY, record_unknown_call, record_unsigned
from dragoman.dialects.chat.stream.read_text import TextAssembler
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.json_fields import count_of
from dragoman.dialects.shared.streamed_arguments import Arguments, ReplyBudget
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.duplicate_call_ids import mint_call_id
from dragoman.wire.delta_template import RunCallback
from dragoman.wire.json_codec import dumps

_AT: Final = ("choices", 0, "delta", "tool_calls")

LEGACY: Final = -1
"""Key of a legacy `function_call`, which has no index."""


class Call:
    """A tool call. `block` is its index once the name is known; `id` is the upstream's, or empty."""

    __slots__ = ("arguments", "block", "custom", "extra", "id", "name", "pending", "plain", "written_id")

    def __init__(self, budget: ReplyBudget, record: Callable[[str], None]) -> None:
        self.block: int | None = None
        self.id = ""
        self.name = ""
        self.custom = False
        self.written_id = ""
        """The id of its block, which replaces one that is missing or used twice."""
        self.extra: Json | None = None
        """Signed `extra_content` that arrived before its block started."""
        self.pending = ""
        """Arguments that arrived before the name."""
        self.arguments = Arguments(budget, record=record)
        self.plain = False
        """True if its last fragment had arguments only."""

    def is_complete(self) -> bool:
        """True if the arguments are a JSON object, after which only another call can follow."""
        return not self.custom and self.arguments.is_whole()

    def is_blank(self) -> bool:
        """True for a call without a name, id and arguments: some servers send one that stands for none."""
        return not (self.name or self.id or self.pending)


class ToolCallAssembler:
    """The calls of one stream. `text` closes the text block before a call starts.

    `reply_id` is the upstream's id of the reply, from which missing call ids are made.
    """

    __slots__ = ("_blocks", "_context", "_early_ends", "_ids", "_keys", "_reply_id", "_text", "calls")

    def __init__(self, context: ReplyContext, text: TextAssembler, reply_id: str) -> None:
        self._context = context
        self._text = text
        self._blocks = text.blocks
        self._early_ends = text.early_ends = EarlyEnds(text.blocks, context)
        self._reply_id = reply_id
        self.calls: dict[Any, Call] = {}
        """Calls by key: their `index`, or what replaces it."""
        self._ids: set[str] | None = None
        """Ids of the calls that started."""
        self._keys: dict[int, Any] = {}
        """Position in the array → key of the last call there, for servers that send no `index`."""

    def _repaired(self, repair: str) -> None:
        """Record a deviation that was repaired."""
        self._context.losses.add_once(LossCode.REPLY_REPAIRED, _AT, repair)

    def read(self, position: int, fragment: Any, out: list[Event]) -> None:
        """Read one fragment at its position in the `tool_calls` array."""
        if type(fragment) is not dict:
            raise UpstreamProtocolError("upstream sent a tool call that is not an object")
        custom, body = call_body(fragment)
        if not (CALL.issuperset(fragment) and CALL_BODY.issuperset(body)):
            fragment = nested_call(fragment, _AT, self._context.losses)
            custom, body = call_body(fragment)
            record_unknown_call(fragment, _AT, self._context.losses)
        name, text = body.get("name"), body.get("input" if custom else "arguments")
        if name and type(name) is not str:
            raise UpstreamProtocolError("upstream sent a tool name that is not a string")
        if text is None:
            text = ""
        elif type(text) is not str:
            text = self._encode_arguments(text)
        call = self._find(position, fragment, name or "", text)
        if call is None:
            return
        if EXTRA_KEY in fragment:
            if (extra := read_signed(fragment)) is None:
                record_unsigned(fragment, _AT, self._context.losses)
            elif call.block is None:
                call.extra = extra
            else:
                self._text.add_signature(call.written_id, extra)
        if name and not call.name:
            call.name = call.arguments.name = name
            call.custom = custom
        if call.custom:
            call.arguments.add(text)
        else:
            text = call.arguments.pass_on(text)
        is_new = call.block is None
        if is_new:
            if not call.name:
                call.pending += text
                return
            text = call.pending + text
            call.pending = ""
            self._start(call, out)
        if text and call.block is not None:
            if id(call) not in self._blocks.open:
                if self._early_ends.late(id(call), text, call.name):
                    return
                raise UpstreamProtocolError(f"upstream continued the call of {call.name!r} after its finish_reason")
            if self._text.phase == "FINISHED" and not is_new:
                self._repaired("a call continued after the finish_reason")
            out.append(Delta(call.block, text))
            self._early_ends.after_delta(id(call), out)
        elif call.arguments.is_held() and id(call) in self._blocks.open:
            self._early_ends.after_delta(id(call), out)

    def read_legacy(self, function: Any, out: list[Event]) -> None:
        """Read a fragment of a `function_call`: the deprecated form of a single call without an id."""
        if type(function) is not dict:
            raise UpstreamProtocolError("upstream sent a function_call that is not an object")
        self._repaired("a legacy function_call was read as a tool call")
        self.read(0, {"index": LEGACY, "function": function}, out)

    def any_started(self) -> bool:
        """True if the stream has a call."""
        return any(call.block is not None for call in self.calls.values())

    def close(self, out: list[Event], *, complete: bool, final: bool = True) -> None:
        """Close the open calls; unless the stream ends (`final`), only if the arguments of all are whole.

        Raises UpstreamProtocolError for a call without a name, and for invalid arguments in a complete reply.
        """
        if not self.calls:
            return
        if final and any(call.block is None and not call.is_blank() for call in self.calls.values()):
            raise UpstreamProtocolError("upstream sent a tool call without a name")
        ending = [call for call in self.calls.values() if id(call) in self._blocks.open]
        if not final and not all(call.custom or call.arguments.is_whole() for call in ending):
            return  # some servers send a finish_reason before the last fragments, or behind each of them
        out.extend(
            Delta(call.block, rest) for call in ending if call.block is not None and (rest := call.arguments.rest())
        )
        if complete:
            for call in ending:
                if not call.custom:
                    call.arguments.check()
        out.extend(BlockEnd(index, complete) for index in sorted(self._blocks.end(id(call)) for call in ending))

    # --- which call a fragment belongs to ------------------------------------------------------------------------

    def on_template(self, index: int) -> RunCallback | None:
        """See `StreamReader.follow`, for the call with this block index."""
        call = next((call for call in self.calls.values() if call.block == index), None)
        # A fragment with a name may start another call, depending on its arguments.
        if call is None or not call.plain or not self._early_ends.is_last(index):
            return None
        return call.arguments.add_all

    def _encode_arguments(self, arguments: Any) -> str:
        """Return the text of arguments that the server sent as an object."""
        if type(arguments) is not dict:
            raise UpstreamProtocolError("upstream sent tool arguments that are not a string")
        self._repaired("arguments were an object instead of text")
        return dumps(arguments).decode()

    def _find(self, position: int, fragment: Json, name: str, text: str) -> Call | None:
        """Return the call of a fragment: by `index`, else by id, else the last one at its position.

        None for the repetition of a complete call.
        """
        call_id = str(fragment.get("id") or "")
        key = fragment.get("index")
        if key is None:
            self._repaired("a call had no index")
            key = self._unindexed(position, call_id)
        elif type(key) is not int:
            if (count := count_of(key)) is None:
                raise UpstreamProtocolError("upstream sent a tool call index that is not an integer")
            self._repaired("the index of a call was not an integer")
            key = count
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = Call(self._text.budget, self._repaired)
        elif name or (call_id and call_id != call.id):
            call = self._resolve_conflict(call, key, call_id, name, text)
            if call is None:
                return None
            call.plain = False
        else:
            call.plain = True
        if call_id and not call.id:
            call.id = call_id
        return call

    def _unindexed(self, position: int, call_id: str) -> Any:
        """Return the key of a fragment without `index`, which some servers omit (chat §7.3)."""
        key = self._keys.get(position, position)
        known = self.calls.get(key)
        if call_id and known is not None and known.id and known.id != call_id:
            key = next((other for other, call in self.calls.items() if call.id == call_id), call_id)
            self._keys[position] = key
        return key

    def _resolve_conflict(self, call: Call, key: Any, call_id: str, name: str, text: str) -> Call | None:
        """Return the call of a fragment that has a name, or another id than the call at its index.

        It is that call, another one, or None for the repetition of a complete call. Raises UpstreamProtocolError if
        more than one of these is possible.
        """
        other_id, other_name = bool(call_id and call.id and call_id != call.id), bool(name and name != call.name)
        if (
            other_id
            and (known := next((k for k, other in self.calls.items() if other.id == call_id), None)) is not None
        ):
            self._repaired("several calls have one index")
            key, call = known, self.calls[known]
            other_id, other_name = False, bool(name and name != call.name)
        if not other_id and (not call.name or (call_id and not other_name and call.arguments.is_held())):
            return call  # the name arrives after the id, or the arguments after an empty object
        if name and (other_id or other_name or text.lstrip().startswith("{")) and call.is_complete():
            if not other_id and not other_name and call.arguments.text() == text:
                self._repaired("a whole call was sent twice")
                return None
            # Some servers send each call complete before the next, all with index 0.
            self._repaired("several calls have one index")
            self.calls[key, len(self.calls)] = call
            call = self.calls[key] = Call(self._text.budget, self._repaired)
            return call
        if other_id and not other_name and not call.is_complete() and not (name and text.lstrip().startswith("{")):
            self._repaired("the id of a call changed in the middle of it")
            return call
        if other_id:
            raise UpstreamProtocolError(f"upstream changed the id of tool call {key} in the middle of it")
        if other_name:
            raise UpstreamProtocolError(f"upstream renamed the tool call {call.name!r} to {name!r}")
        if name:
            self._repaired("a call's name was sent again")
        return call

    def _start(self, call: Call, out: list[Event]) -> None:
        call_id = call.id
        if self._ids is None:
            self._ids = set()
        if not call_id or call_id in self._ids:  # a result refers to its call by id
            position = self._blocks.count - self._text.signature_blocks
            call_id = mint_call_id(call_id, self._reply_id, position, _AT, self._context.losses.add_once)
        self._ids.add(call_id)
        call.written_id = call_id
        if call.extra is not None:
            self._text.add_signature(call_id, call.extra)
        self._text.before_start("a call", _AT, out)
        call.block = self._blocks.start(id(call), "tool")
        name = self._context.names.get(call.name, call.name)
        out.append(BlockStart(call.block, "tool", call_id, name, call.custom))
        if not call.custom:
            self._early_ends.watch(id(call), call.arguments)
