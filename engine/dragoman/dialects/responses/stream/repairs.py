"""The items of a forwarded stream in the form that clients read, where the server sent them in another."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read import read_reply
from dragoman.dialects.responses.reply.read_items import call_text
from dragoman.dialects.responses.reply.usual import is_usual_item
from dragoman.dialects.responses.reply.write import write_reply
from dragoman.dialects.responses.stream.phases import TERMINALS
from dragoman.dialects.shared.completed_reply import completed
from dragoman.dialects.shared.streamed_arguments import Arguments, ReplyBudget
from dragoman.errors import Path
from dragoman.limits import DEFAULT_LIMITS
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.duplicate_call_ids import mint_call_id
from dragoman.wire.delta_template import RunCallback
from dragoman.wire.json_codec import dumps, loads_exact
from dragoman.wire.sse import Frame, encode

_STARTS: Final[dict[str, Json]] = {
    "message": {"role": "assistant", "content": []},
    "reasoning": {"summary": []},
    "function_call": {"arguments": ""},
}
"""Type of an item → the members that its start must have, besides its ids."""
_PREFIXES: Final = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_LISTS: Final = {"message": "content", "reasoning": "summary"}
"""Type of an item → its member that is an array."""
_NOTHING: Final[Json] = {}
OTHER_FORM: Final = "an item lacked a member that clients read, or had it in another form"


def is_odd(item: Any) -> bool:
    """True for the first item of a stream that has to be looked at: a call, or one without its parts."""
    return type(item) is dict and type(item.get(_LISTS.get(str(item.get("type")), ""))) is not list


class Repairs:
    """Repairs the events of one stream.

    After `read`, an event is sent with the member `changed` (its name and new value), after the arguments `before`, or
    not at all (`dropped`). With `renumbers` all events get another `sequence_number`, since some had none, or were left
    out or added. `on_run` is that of the `Observer`. `note` states what was repaired last, for a row.
    """

    __slots__ = (
        "_arguments",
        "_budget",
        "_empty",
        "_ids",
        "before",
        "changed",
        "dropped",
        "note",
        "on_run",
        "renumbers",
        "response_id",
    )

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        self.note = self.before = ""
        self.changed: tuple[str, Any] | None = None
        self.dropped = self.renumbers = False
        self.on_run: RunCallback | None = None
        self._budget = ReplyBudget(DEFAULT_LIMITS)
        self._arguments: dict[int, Arguments] = {}
        self._ids: dict[int, Json] = {}
        """Index → the ids and the name of a call, as the client knows them."""
        self._empty: set[int] = set()
        """Indexes of calls of which an empty object was sent. If it came before the arguments, the last events of the
        call, which clients read, are without it."""

    def _record(self, note: str) -> None:
        self.note = note

    def _record_id(self, code: LossCode, at: Path | str, note: str) -> None:
        self.note = note

    def number(self) -> None:
        """Number the events, of which one had no number."""
        if not self.renumbers:
            self.renumbers, self.note = True, "events had no sequence_number"

    def is_known(self, index: int, item: Any) -> bool:
        """True if an item is the call that started at this index."""
        known = self._ids.get(index)
        return known is not None and type(item) is dict and known["call_id"] == item.get("call_id")

    def drop(self, note: str) -> None:
        """Leave out the last event."""
        self.dropped, self.note = True, note

    def read(self, name: str, index: Any, payload: Json, data: bytes, finished: Collection[int]) -> None:
        """Put what an event means into `payload`. `finished` are the indexes of items that are done.

        Raises DragomanError.
        """
        if name in TERMINALS:
            if type(response := payload.get("response")) is dict and not response.get("error"):
                self._read_output(payload, response.get("output"), data, finished)
        elif type(index) is not int:
            return
        elif name == "response.output_item.added":
            if (start := self._start(index, payload.get("item"))) is not None:
                self._change(payload, "item", start)
        elif name == "response.output_item.done":
            if type(item := payload.get("item")) is dict:
                self.before = self._rest(index)
                if not is_usual_item(item, cut=item.get("status") == "incomplete"):
                    self._change(payload, "item", self.finish(index, loads_exact(data)["item"]))
        elif (arguments := self._arguments.get(index)) is None:
            return
        elif name == "response.function_call_arguments.delta":
            passed = arguments.pass_on(call_text(payload, "delta"))
            if not passed and arguments.is_empty_object():
                self._empty.add(index)  # sent as it is: the usual delta of a call without arguments
            elif passed != payload.get("delta"):
                self.dropped = not passed
                self._change(payload, "delta", passed)
            self.on_run = arguments.add_all
        elif name == "response.function_call_arguments.done":
            self.before = self._rest(index)
            text = payload.get("arguments")
            if type(text) is not str or text != arguments.text():
                call = {"type": "function_call", "arguments": loads_exact(data).get("arguments")}
                if (usual := self.finish(index, call)["arguments"]) != text:
                    self._change(payload, "arguments", usual)

    def _read_output(self, payload: Json, output: Any, data: bytes, finished: Collection[int]) -> None:
        """Repair the items of the last snapshot. The arguments of those that are done were looked at."""
        if type(output) is not list:
            return
        done = len(output) == len(finished)
        if done and not self.note and all([is_usual_item(item, cut=True) for item in output]):
            return
        response: Json = loads_exact(data)["response"]
        stated = response["output"]
        places = sorted(finished) if done else range(len(stated))
        items = [(place, item) for place, item in zip(places, stated, strict=True) if item is not None]
        usual = [self.finish(place, item) for place, item in items]
        if usual != stated:
            self._change(payload, "response", {**response, "output": usual})

    def _change(self, payload: Json, key: str, value: Any) -> None:
        payload[key] = value
        self.changed = key, value
        if not self.dropped:
            self.note = self.note or OTHER_FORM

    def rewritten(self, data: bytes, event: str, number: int) -> tuple[bytes, bytes, int]:
        """Return the frames of an event in their place, its data, and its number; `number` is the next one."""
        payload: Json = loads_exact(data)
        delta = b""
        if self.before:
            self.renumbers = True
            name = "response.function_call_arguments.delta"
            place: Json = {key: payload[key] for key in ("item_id", "output_index") if key in payload}
            more = {"type": name, "sequence_number": number, **place, "delta": self.before}
            delta = encode(Frame(name, dumps(more)))
            number += 1
        if self.changed is not None:
            key, value = self.changed
            payload[key] = value
        payload["sequence_number"] = number
        self.before, self.changed = "", None
        data = dumps(payload)
        return delta + encode(Frame(event, data)), data, number

    def _start(self, index: int, item: Any) -> Json | None:
        """Record the start of an item. Return it in the form that clients read if it has another."""
        if type(item) is not dict or type(kind := item.get("type")) is not str or kind not in _PREFIXES:
            return None
        needed = _STARTS.get(kind, {})
        usual = {**item, **{key: value for key, value in needed.items() if type(item.get(key)) is not type(value)}}
        if type(item.get("id")) is not str:
            usual["id"] = f"{_PREFIXES[kind]}_{self.response_id.removeprefix('resp_')}{index}"
        if kind == "function_call" or kind == "custom_tool_call":
            if type(item.get("call_id")) is not str or not item["call_id"]:
                usual["call_id"] = mint_call_id(None, self.response_id, index, "output", self._record_id)
            if index not in self._ids and len(self._ids) < DEFAULT_LIMITS.blocks:
                self._ids[index] = {"id": usual["id"], "call_id": usual["call_id"], "name": usual.get("name")}
                if kind == "function_call":
                    self._arguments[index] = Arguments(self._budget, str(usual.get("name")), self._record)
        return None if usual == item else usual

    def _rest(self, index: int) -> str:
        """Return the arguments that were kept back of a call that ends."""
        arguments = self._arguments.get(index)
        rest = "" if arguments is None else arguments.rest()
        return "" if index in self._empty else rest

    def finish(self, index: int, item: Any) -> Any:
        """Return a finished item in the form that clients read; itself if it has that. Raises UpstreamProtocolError."""
        if type(item) is not dict:
            return item
        known = self._ids.get(index, _NOTHING)
        stated: Json = item
        if any([not item.get(key) for key in known]):
            stated = {**known, **{key: value for key, value in item.items() if value}}
        streamed = self._arguments.get(index)
        if streamed and (not (given := item.get("arguments")) or given == streamed.received()):
            stated = {**stated, "arguments": streamed.text()}
        if is_usual_item(stated, cut=item.get("status") == "incomplete"):
            return item if stated == item else stated
        context = ReplyContext("", request_id=self.response_id)
        written = write_reply(read_reply({"status": "completed", "output": [stated]}, context), context)
        self.note = next(
            (loss.done for loss in context.losses.rows if loss.code is LossCode.REPLY_REPAIRED), OTHER_FORM
        )
        output: list[Json] = completed([stated], loads_exact(dumps(written["output"])))
        return output[0] if output else item
