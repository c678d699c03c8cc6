"""The items of a forwarded stream in the form that clients read, where the server sent them in another."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
OF_PARTS: Final = frozenset(("response.content_part.added", "response.output_text.done", "response.content_part.done"))
"""Events with a part of a message, or its whole text."""
OTHER_FORM: Final = "an item lacked a member that clients read, or had it in another form"


def is_odd(item: Any) -> bool:
    """True for the first item of a stream that has to be looked at: a call, or one without its parts."""
    return type(item) is dict and type(item.get(_LISTS.get(str(item.get("type")), ""))) is not list


def parts_of(events: Iterable[Json], texts: list[str] | None) -> list[Json]:
    """Return the parts of a message, which came in these events, or as texts; none if they are empty."""
    parts: dict[Any, Json] = {}
    if texts:
        parts[0] = {"type": "output_text", "text": "".join(texts), "annotations": [], "logprobs": []}
    for event in events:
        place, part = event.get("content_index"), event.get("part")
        if part is None and (started := parts.get(place)):
            part = {**started, "text": event.get("text")}
        if type(part) is dict and (part.get("text") or part.get("refusal") or place not in parts):
            parts[place] = part
    return [part for part in parts.values() if part.get("text") or part.get("refusal")]


class Repairs:
    """Repairs the events of one stream.

    After `read`, an event is sent with the member `changed` (its name and new value), after the event `before`, or not
    at all (`dropped`). It is held until the next one if it is an empty object that may come before the arguments:
    `held` is the index of its call. With `replaced`, the next one takes its place and number. With `renumbers` all
    events get another `sequence_number`, since some had none, or were left out or added. `on_run` is that of the
    `Observer`. `note` states what was repaired last, for a row.
    """

    __slots__ = (
        "_arguments",
        "_budget",
        "_empty",
        "_ids",
        "before",
        "changed",
        "contents",
        "dropped",
        "held",
        "note",
        "on_run",
        "renumbers",
        "replaced",
        "response_id",
    )

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        self.note = ""
        self.before: Json | None = None
        self.changed: tuple[str, Any] | None = None
        self.dropped = self.renumbers = self.replaced = False
        self.held: int | None = None
        self.contents: dict[int, list[Json]] = {}
        """Index → the parts of a message whose finished item has none."""
        self.on_run: RunCallback | None = None
        self._budget = ReplyBudget(DEFAULT_LIMITS)
        self._arguments: dict[int, Arguments] = {}
        self._ids: dict[int, Json] = {}
        """Index → the ids and the name of a call, as the client knows them."""
        self._empty: set[int] = set()
        """Indexes of calls of which an empty object was sent, or is held."""

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
        held, self.held = self.held, None
        if name in TERMINALS:
            if type(response := payload.get("response")) is dict and not response.get("error"):
                self._read_output(payload, response.get("output"), data, finished)
        elif type(index) is not int:
            return
        elif name == "response.output_item.added":
            if (start := self._start(index, payload.get("item"))) is not None:
                self.change(payload, "item", start)
        elif name == "response.output_item.done":
            if type(item := payload.get("item")) is dict:
                self._send(index, self._rest(index))
                if not is_usual_item(item, cut=item.get("status") == "incomplete") or index in self.contents:
                    self.change(payload, "item", self.finish(index, loads_exact(data)["item"]))
                self._send_whole(index, payload["item"].get("arguments"))
        elif (arguments := self._arguments.get(index)) is None:
            return
        elif name == "response.function_call_arguments.delta":
            passed = arguments.pass_on(call_text(payload, "delta"))
            if held == index and passed:
                self._empty.discard(index)
                self.replaced = self.renumbers = True
            if not passed and arguments.is_empty_object():
                self._empty.add(index)  # it may be all: a call without arguments
                self.held = index if held is None and arguments.count == 1 else None
            elif passed != payload.get("delta"):
                self.dropped = not passed
                self.change(payload, "delta", passed)
            self.on_run = arguments.add_all
        elif name == "response.function_call_arguments.done":
            self._send(index, self._rest(index))
            text = payload.get("arguments")
            if type(text) is not str or text != arguments.text():
                call = {"type": "function_call", "arguments": loads_exact(data).get("arguments")}
                if (usual := self.finish(index, call)["arguments"]) != text:
                    self.change(payload, "arguments", usual)
            self._send_whole(index, payload.get("arguments"))

    def _send_whole(self, index: int, text: Any) -> None:
        """Send the arguments of a call that ends as a delta if there was none: some clients read nothing else."""
        arguments = self._arguments.get(index)
        if arguments is not None and not arguments and type(text) is str and text:
            arguments.add(text)
            self._send(index, text)
            self.note = "a call had no deltas"

    def _send(self, index: int, text: str) -> None:
        """Send arguments of a call before the last event."""
        if text:
            name = "response.function_call_arguments.delta"
            self.before = {"type": name, "item_id": self._ids[index]["id"], "output_index": index, "delta": text}

    def open_part(self, delta: Json) -> list[str]:
        """Send the start of a message's part before the last event, its first delta. Return a list for its texts."""
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        place = {key: delta.get(key) for key in ("item_id", "output_index", "content_index")}
        self.before = {"type": "response.content_part.added", **place, "part": part}
        self.note = "a part came without content_part.added"
        return []

    def keep(self, texts: list[str], text: Any) -> None:
        """Add the text of a delta to the list of its part, up to the size budget."""
        if type(text) is str and self._budget.fits(len(text)):
            texts.append(text)

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
            self.change(payload, "response", {**response, "output": usual})

    def change(self, payload: Json, key: str, value: Any) -> None:
        """Send the last event with this member."""
        payload[key] = value
        self.changed = key, value
        if not self.dropped:
            self.note = self.note or OTHER_FORM

    def rewritten(self, data: bytes, event: str, number: int) -> tuple[bytes, bytes, int]:
        """Return the frames of an event in their place, its data, and its number; `number` is the next one."""
        payload: Json = loads_exact(data)
        before = b""
        if self.before is not None:
            self.renumbers = True
            name = self.before["type"]
            before = encode(Frame(name, dumps({"type": name, "sequence_number": number, **self.before})))
            number += 1
        if self.changed is not None:
            key, value = self.changed
            payload[key] = value
        payload["sequence_number"] = number
        self.before = self.changed = None
        data = dumps(payload)
        return before + encode(Frame(event, data)), data, number

    def _start(self, index: int, item: Any) -> Json | None:
        """Record the start of an item. Return it in the form that clients read if it has another."""
        if type(item) is not dict or type(kind := item.get("type")) is not str or kind not in _PREFIXES:
            return None
        needed = _STARTS.get(kind, {})
        usual = {**item, **{key: value for key, value in needed.items() if type(item.get(key)) is not type(value)}}
        if type(item.get("id")) is not str:
            usual["id"] = f"{_PREFIXES[kind]}_{self.response_id.removeprefix('resp_')}{index}"
        if whole := (item.get("arguments") if kind == "function_call" else None):
            usual["arguments"] = ""  # those of its end, or its deltas, follow
        if kind == "function_call" or kind == "custom_tool_call":
            if type(item.get("call_id")) is not str or not item["call_id"]:
                usual["call_id"] = mint_call_id(None, self.response_id, index, "output", self._record_id)
            if index not in self._ids and len(self._ids) < DEFAULT_LIMITS.blocks:
                self._ids[index] = {"id": usual["id"], "call_id": usual["call_id"], "name": usual.get("name")}
                if whole:
                    self._ids[index]["arguments"] = whole
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
        if (content := self.contents.get(index)) is not None and not item.get("content"):
            stated = {**stated, "content": content}
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
