"""The calls of a reply: their ids, names and arguments. Calls come whole, unless their arguments are streamed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from dragoman.canonical.events import BlockEnd, BlockStart, Delta, Event
from dragoman.canonical.request import Json
from dragoman.dialects.generate.reply_fields import CALL, PARTS_AT
from dragoman.dialects.generate.stream.partial_arguments import PartialArguments
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.json_fields import kind_of, parse_object, record_unknown
from dragoman.dialects.shared.streamed_arguments import ReplyBudget
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.duplicate_call_ids import mint_call_id
from dragoman.wire.json_codec import dumps

_CALL_AT = (*PARTS_AT, "functionCall")


class CallReader:
    """Reads the `functionCall` parts of one reply.

    Args:
        blocks: the open blocks of the reply.
        budget: the size budget of what is kept until the end of the reply.
        context: the reply's parameters and losses.
    """

    __slots__ = ("_blocks", "_budget", "_context", "_given", "_ids", "_index", "_partial", "any")

    def __init__(self, blocks: BlockMap, budget: ReplyBudget, context: ReplyContext) -> None:
        self._blocks, self._budget, self._context = blocks, budget, context
        self._ids: set[str] = set()
        self._partial: PartialArguments | None = None
        """The arguments of the call that is open, if they are streamed."""
        self._given: Json = {}
        self._index = 0
        self.any = False
        """True if there was a call."""

    def continues(self, part: Json) -> bool:
        """True if a part belongs to the open call."""
        call = part.get("functionCall")
        return self._partial is not None and type(call) is dict and not call.get("name")

    def read(self, call: Any, reply_id: str, out: list[Event]) -> None:
        """Read the value of a `functionCall`. Raises UpstreamProtocolError, LimitExceeded."""
        if type(call) is not dict:
            raise UpstreamProtocolError(f"upstream sent a functionCall that is {kind_of(call)}")
        if not CALL.issuperset(call):
            record_unknown(call, CALL, _CALL_AT, self._context.losses)
        if self._partial is None or call.get("name"):
            self.end(out)
            self._start(call, reply_id, out)
        elif call.get("args"):
            self._given = {**self._given, **self._arguments(call)}
        if self._partial is not None:
            if pieces := call.get("partialArgs"):
                self._partial.add(pieces)
            if not call.get("willContinue"):
                self.end(out)

    def _start(self, call: Json, reply_id: str, out: list[Event]) -> None:
        name, call_id = call.get("name"), call.get("id")
        if type(name) is not str or not name:
            raise UpstreamProtocolError("upstream sent a functionCall without a name")
        arguments = self._arguments(call)
        self.any = True
        self._index = index = self._blocks.start("call", "tool")
        if type(call_id) is not str or not call_id or call_id in self._ids:
            given = call_id if type(call_id) is str else ""
            # Without an id of the reply, it is made of the call, so that it differs from those of other replies.
            seed = reply_id or sha256(dumps([name, arguments])).hexdigest()[:24]
            call_id = mint_call_id(given, seed, index, _CALL_AT, self._context.losses.add_once)
        self._ids.add(call_id)
        out.append(BlockStart(index, "tool", call_id, self._context.names.get(name, name)))
        self._given = arguments
        if call.get("willContinue") or call.get("partialArgs"):
            self._partial = PartialArguments(name, self._budget)
        else:
            self._write(arguments, out)

    def _arguments(self, call: Json) -> Json:
        given = call.get("args")
        if given is None or given == []:  # PHP writes an empty object so
            return {}
        if type(given) is str and (parsed := parse_object(given or "{}")) is not None:
            self._context.losses.add_once(
                LossCode.REPLY_REPAIRED, (*_CALL_AT, "args"), "arguments were text instead of an object"
            )
            given = parsed
        if type(given) is not dict:
            raise UpstreamProtocolError(f"upstream sent a functionCall whose args are {kind_of(given)}")
        return given

    def _write(self, arguments: Json, out: list[Event]) -> None:
        text = dumps(arguments).decode("utf-8", "surrogatepass")
        self._budget.take(len(text))
        out.append(Delta(self._index, text))
        out.append(BlockEnd(self._blocks.end("call")))

    def end(self, out: list[Event]) -> None:
        """End the call whose arguments were streamed, if there is one."""
        if self._partial is not None:
            arguments, self._partial = self._partial.whole(self._given), None
            self._write(arguments, out)

    def cut(self, out: list[Event]) -> None:
        """End the open call as one that was cut off."""
        if self._partial is not None:
            self._partial = None
            out.append(BlockEnd(self._blocks.end("call"), complete=False))
