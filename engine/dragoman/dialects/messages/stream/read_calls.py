"""The tool calls of an upstream Messages stream: their ids, names, arguments and ends."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import BlockEnd, BlockStart, Delta, Event
from dragoman.canonical.request import Json
from dragoman.dialects.messages.reply_fields import ARGUMENTS
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.streamed_arguments import Arguments, ReplyBudget
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.duplicate_call_ids import mint_call_id
from dragoman.wire.json_codec import dumps


class CallReader:
    """Reads the `tool_use` blocks of one reply. `key` is always the upstream's index of a block.

    Args:
        blocks: the open blocks of the reply.
        budget: the size budget that the reply's arguments share.
        context: the reply's parameters and losses.
    """

    __slots__ = ("_blocks", "_budget", "_context", "_ids", "_initial_input", "_pending", "all", "arguments", "early")

    def __init__(self, blocks: BlockMap, budget: ReplyBudget, context: ReplyContext) -> None:
        self._blocks, self._budget, self._context = blocks, budget, context
        self.early = EarlyEnds(blocks, context)
        self.arguments: dict[int, Arguments] = {}
        """The arguments of the last call at each key."""
        self.all: list[Arguments] = []
        """The arguments of all calls."""
        self._ids: set[str] | None = None
        """The ids of all calls."""
        self._initial_input: dict[int, str] = {}
        """Arguments that came in the start of a call. They count only if no fragments follow."""
        self._pending: tuple[int, Arguments] | None = None
        """The canonical index and the arguments of a call that ended while these were not whole. Its end is emitted
        once it is known if the reply was cut there."""

    def start(self, key: int, block: Json, message_id: str, out: list[Event]) -> None:
        """Start a call. Raises UpstreamProtocolError if it has no name."""
        call_id, name = block.get("id"), block.get("name")
        if type(name) is not str or not name:
            raise UpstreamProtocolError("upstream started a tool_use block without a name")
        index = self._blocks.start(key, "tool")
        if self._ids is None:
            self._ids = set()
        if type(call_id) is not str or not call_id or call_id in self._ids:  # a result has to name exactly one call
            given = call_id if type(call_id) is str else ""
            call_id = mint_call_id(given, message_id, index, "content", self._context.losses.add_once)
        self._ids.add(call_id)
        out.append(BlockStart(index, "tool", call_id, self._context.names.get(name, name)))
        arguments = self.arguments[key] = Arguments(self._budget, name, self.record_repair)
        self.all.append(arguments)
        self.early.watch(key, arguments)
        initial = block.get("input")
        if initial is None and (initial := block.get("arguments")):
            self.record_repair(ARGUMENTS)
        if initial:
            self._initial_input[key] = initial if type(initial) is str else dumps(initial).decode()

    def repair_fragment(self, fragment: Any) -> str:
        """Return the text of a fragment that is an object, which the server did not serialize, or null."""
        self.record_repair(
            "arguments were an object instead of text" if fragment else "a fragment of arguments is null"
        )
        return "" if fragment is None else dumps(fragment).decode()

    def is_late(self, key: int, delta: Any) -> bool:
        """True for white space after a call that was ended early. Raises UpstreamProtocolError for anything else."""
        text = delta.get("partial_json") if type(delta) is dict else None
        name = self.arguments[key].name if key in self.arguments else ""
        return self.early.late(key, text if type(text) is str else "?", name)

    def flush(self, key: int, index: int, out: list[Event]) -> None:
        """Emit the arguments that came in the start of a call, if no fragments followed, and those kept back."""
        initial = self._initial_input.pop(key, None)
        arguments = self.arguments[key]
        if initial is not None and not arguments:
            self.record_repair("the arguments of a call were complete in content_block_start")
            if passed := arguments.pass_on(initial):
                out.append(Delta(index, passed))
        if rest := arguments.rest():
            out.append(Delta(index, rest))

    def end(self, key: int, index: int, out: list[Event], *, last: bool) -> None:
        """End a call. If its arguments are not whole and it is the last block so far, its end waits for `end_pending`.

        Clients run a call when it ends. Raises UpstreamProtocolError for invalid arguments of an earlier block.
        """
        arguments = self.arguments[key]
        if not arguments.ends_whole():
            if last:
                self._pending = index, arguments
                return
            arguments.check()
        out.append(BlockEnd(index))

    def end_pending(self, out: list[Event], *, complete: bool = True) -> None:
        """Emit the end that waits, now that another block or the reply's end follows it.

        Raises UpstreamProtocolError for invalid arguments of a complete call.
        """
        if self._pending is not None:
            index, arguments = self._pending
            if complete:
                arguments.check()
            out.append(BlockEnd(index, complete))
            self._pending = None

    def record_repair(self, done: str) -> None:
        """Record a fault that has only one possible meaning and was read so."""
        self._context.losses.add_once(LossCode.REPLY_REPAIRED, "content", done)
