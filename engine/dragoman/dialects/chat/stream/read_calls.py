"""The calls of a Chat stream, which may be open side by side.

The dialect ends them all at the finish; here a call that is whole ends when another block starts (`early_ends`).
Fragments are told apart by `index`. Servers leave it out, give every call the same one, or number with gaps; they send
no id, or one id twice; they repeat the name or the whole call. What has one meaning only is read as that and told as a
loss; where it could mean two things it stays an error, as agents run whatever call ends well.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import BlockEnd, BlockKind, BlockStart, Delta, Event
from dragoman.canonical.request import Json
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.stream_codec import StreamReader
from dragoman.dialects.shared.tool_arguments import Arguments, Room
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id, sanitize_call_id
from dragoman.wire.json_codec import dumps

_AT: Final = ("choices", 0, "delta", "tool_calls")
_LONGEST_MINTED_ID: Final = 40

LEGACY: Final = -1
"""The key of a legacy `function_call`, which has no index."""


class Call:
    """A tool call in flight. `block` is None until its name is known; `id` is the upstream's, if it gave one."""

    __slots__ = ("arguments", "block", "custom", "held", "id", "name", "plain")

    def __init__(self, room: Room) -> None:
        self.block: int | None = None
        self.id = ""
        self.name = ""
        self.custom = False
        self.held = ""
        self.arguments = Arguments(room)
        self.plain = False
        """Was its last fragment nothing but more of its arguments."""

    def is_whole(self) -> bool:
        """Are the arguments so far a JSON object: may nothing follow but another call."""
        return not self.custom and self.arguments.is_whole()


class StreamedCalls(StreamReader):
    """The calls of one stream; `ChatReader` reads everything else."""

    __slots__ = ("_blocks", "_calls", "_early", "_finish", "_id", "_ids", "_places", "_room")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._blocks = BlockMap(context.limits)
        self._early = EarlyEnds(self._blocks, context)
        self._id = ""
        self._finish: str | None = None
        self._room = Room(context.limits)
        self._calls: dict[Any, Call] = {}
        self._ids: set[str] | None = None
        """The ids that calls were given."""
        self._places: dict[int, Any] = {}
        """Position in the array → key of the call last seen there, for servers that send no `index`."""

    def hush(self, out: list[Event]) -> None:
        """Close what is open beside the calls."""
        raise NotImplementedError

    def mend(self, what: str, code: LossCode = LossCode.REPLY_REPAIRED, at: Any = _AT) -> None:
        """A row for what was read as the one thing that it can mean."""
        self.context.losses.add_once(code, at, what)

    def read_call(self, position: int, fragment: Any, out: list[Event]) -> None:
        """One fragment of a call, at its position in the array."""
        if type(fragment) is not dict:
            raise UpstreamProtocolError("upstream sent a tool call that is not an object")
        custom = fragment.get("custom")
        body = custom if type(custom) is dict else fragment.get("function")
        if type(body) is not dict:
            body = {}
        name, text = body.get("name"), body.get("input" if custom else "arguments")
        if name and type(name) is not str:
            raise UpstreamProtocolError("upstream sent a tool name that is not a string")
        if text is None:
            text = ""
        elif type(text) is not str:
            text = self._spelled(text)
        call = self._find(position, fragment, name or "", text)
        if call is None:
            return
        if name and not call.name:
            call.name = call.arguments.name = name
            call.custom = bool(custom)
        call.arguments.add(text)
        if call.block is None:
            if not call.name:
                call.held += text
                return
            text = call.held + text
            call.held = ""
            self._open(call, out)
        if text and call.block is not None:
            if id(call) not in self._blocks.open:
                if self._early.late(id(call), text, call.name):
                    return
                raise UpstreamProtocolError(f"upstream continued the call of {call.name!r} after its finish_reason")
            out.append(Delta(call.block, text))
            self._early.after_delta(id(call), out)

    def read_legacy(self, function: Any, out: list[Event]) -> None:
        """A `function_call`, which tool calls have replaced: one call without id."""
        if type(function) is not dict:
            raise UpstreamProtocolError("upstream sent a function_call that is not an object")
        self.mend("a legacy function_call was read as a tool call")
        self.read_call(0, {"index": LEGACY, "function": function}, out)

    def end_calls(self, out: list[Event], *, complete: bool) -> None:
        """Close the calls that are open. Raises UpstreamProtocolError for one that has no name, and for arguments that
        are not whole although the reply is."""
        if not self._calls:
            return
        if any(call.block is None for call in self._calls.values()):
            raise UpstreamProtocolError("upstream sent a tool call without a name")
        ending = [call for call in self._calls.values() if id(call) in self._blocks.open]
        if complete:
            for call in ending:
                if not call.custom:
                    call.arguments.check()
        out.extend(BlockEnd(index, complete) for index in sorted(self._blocks.end(id(call)) for call in ending))

    # --- which call a fragment belongs to ------------------------------------------------------------------------

    def _spelled(self, arguments: Any) -> str:
        """Arguments that the server forgot to encode."""
        if type(arguments) is not dict:
            raise UpstreamProtocolError("upstream sent tool arguments that are not a string")
        self.mend("arguments came as an object instead of its text")
        return dumps(arguments).decode()

    def _find(self, position: int, fragment: Json, name: str, text: str) -> Call | None:
        """The call of a fragment: by `index`; without one by id, else the last call at its position. None for a whole
        call that is told again."""
        call_id = str(fragment.get("id") or "")
        key = fragment.get("index")
        if key is None:
            self.mend("a call came without its index")
            key = self._unindexed(position, call_id)
        elif type(key) is not int:
            raise UpstreamProtocolError("upstream sent a tool call index that is not an integer")
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = Call(self._room)
        elif name or (call_id and call_id != call.id):
            again = self._told_again(call, key, call_id, name, text)
            if again is None:
                return None
            call = again
            call.plain = False
        else:
            call.plain = True
        if call_id and not call.id:
            call.id = call_id
        return call

    def _unindexed(self, position: int, call_id: str) -> Any:
        """The key of a fragment without `index`: some servers leave it out (chat §7.3)."""
        key = self._places.get(position, position)
        known = self._calls.get(key)
        if call_id and known is not None and known.id and known.id != call_id:
            key = next((other for other, call in self._calls.items() if call.id == call_id), call_id)
            self._places[position] = key
        return key

    def _told_again(self, call: Call, key: Any, call_id: str, name: str, text: str) -> Call | None:
        """The call of a fragment that brings a name, or another id than its index has: the same call as before,
        another one, or None for a call that is told a second time.

        Raises UpstreamProtocolError unless one of them is sure.
        """
        other_id, other_name = bool(call_id and call.id and call_id != call.id), bool(name and name != call.name)
        if other_id and (known := next((at for at, one in self._calls.items() if one.id == call_id), None)) is not None:
            self.mend("several calls have one index")
            key, call = known, self._calls[known]
            other_id, other_name = False, bool(name and name != call.name)
        if not call.name and not other_id:
            return call  # the name comes late
        if name and (other_id or other_name or text.lstrip().startswith("{")) and call.is_whole():
            if not other_id and not other_name and call.arguments.text() == text:
                self.mend("a whole call came twice")
                return None
            # Each call whole before the next begins: of these servers, all of them have the index 0.
            self.mend("several calls have one index")
            self._calls[key, len(self._calls)] = call
            call = self._calls[key] = Call(self._room)
            return call
        if other_id:
            raise UpstreamProtocolError(f"upstream changed the id of tool call {key} in the middle of it")
        if other_name:
            raise UpstreamProtocolError(f"upstream renamed the tool call {call.name!r} to {name!r}")
        if name:
            self.mend("a call's name came again")
        return call

    def _open(self, call: Call, out: list[Event]) -> None:
        self.hush(out)
        if self._finish is not None:
            self.mend("a call came after the finish_reason")
        call_id = call.id
        if self._ids is None:
            self._ids = set()
        if not call_id or call_id in self._ids:  # the result must name one, and only one
            self.mend("a call without an id" if not call_id else "a call with the id of another", LossCode.CALL_ID)
            call_id = sanitize_call_id(f"{reply_id(self._id, 'call_')}_{self._blocks.count}", _LONGEST_MINTED_ID)
        self._ids.add(call_id)
        self._early.before_start(out)
        call.block = self._blocks.start(id(call), BlockKind.TOOL)
        name = self.context.names.get(call.name, call.name)
        out.append(BlockStart(call.block, BlockKind.TOOL, call_id, name, call.custom))
        if not call.custom:
            self._early.watch(id(call), call.arguments)
