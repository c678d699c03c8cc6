"""Raw Responses streams with what they mean, by a renderer of the tests' own (see `upstreams`).

A block becomes an item, or, for text and refusals, sometimes a part of one message. `quirks` adds what only some
compatible servers do (streams §9): whole steps left out, texts that come only with a later event, other terminators.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Opaque,
    Start,
    Usage,
)
from dragoman.errors import Failure

from .responses_items import (
    INCOMPLETE,
    PROSE,
    Item,
    counted,
    failed_error,
    items_of,
    overlaps,
    response_object,
    responses_usage,
)
from .strategies import RESPONSES, Shape, event_streams
from .upstreams import Upstream, Wire, known_usage, wires

Json = dict[str, Any]


class _Server:
    """One stream as its server sends it."""

    def __init__(self, wire: Wire, notes: Json, events: list[Event], joined: list[bool]) -> None:
        self.wire, self.notes = wire, notes
        self.out: list[bytes] = []
        self.sequence = 0
        self.response: Json = {}
        self.items = items_of(events, joined)
        self.kinds = {event.index: event.kind for event in events if isinstance(event, BlockStart)}
        self.native = {e.index: e.payload for e in events if isinstance(e, Opaque)}
        self.texts = dict.fromkeys(self.items, "")
        self.pieces: dict[int, list[str]] = {index: [] for index in self.items}
        self.part_of: dict[int, Json] = {}
        self.open_parts: set[int] = set()
        self.meant: list[Event] = []
        """The events as this server's stream means them."""
        hidden = self.items[max(self.items)] if self.items and notes["hidden"] else None
        self.hidden = hidden if hidden is not None and hidden.kind != "opaque" else None
        self.held: list[Event] = []
        finish = next((event for event in events if isinstance(event, Finish)), None)
        self.stop = finish.stop.reason if finish is not None else None

    def send(self, kind: str, **fields: Any) -> None:
        payload: Json = {"type": kind, "sequence_number": self.sequence, **fields}
        if self.notes["no_sequence"]:
            del payload["sequence_number"]
        if self.notes["nulls"]:
            payload = {"error": None, "obfuscation": None, **payload}
        self.sequence += 1
        event = "" if self.notes["no_event_lines"] else kind
        self.out.append(self.wire.frame(self.wire.json(payload), event, event_last=self.notes["event_last"]))

    def at(self, index: int, **more: Any) -> Json:
        item = self.items[index]
        where: Json = {"item_id": item.id, "output_index": item.output_index}
        if self.notes["no_item_ids"]:
            del where["item_id"]
        return where | more

    def on(self, event: Event) -> None:
        if isinstance(event, BlockStart | Delta | Annotation | Opaque | BlockEnd):
            item = self.items[event.index]
            if item is self.hidden:
                self.held.append(event)
            else:
                self.meant.append(event)
            self.block_event(event, item)
            return
        match event:
            case Start():
                extras = {"background": False, "store": True, "service_tier": "default", "truncation": "disabled"}
                self.response = response_object(event, **(extras if self.notes["extras"] else {}))
                for kind in ("created", *(["queued"] if self.notes["queued"] else []), "in_progress"):
                    status = "queued" if kind == "queued" else "in_progress"
                    self.send(f"response.{kind}", response=self.response | {"status": status})
                self.meant.append(event)
            case Finish():
                usage = counted(event.usage) if event.usage is not None else None
                self.meant += [*self.held, replace(event, usage=usage)]
            case End(usage=usage):
                self.meant.append(End(counted(usage) if usage is not None else None))
            case Error():
                self.fail(event.failure)
                self.meant.append(event)
            case _:
                pass

    # --- blocks ------------------------------------------------------------------------------------------------------

    def block_event(self, event: BlockStart | Delta | Annotation | Opaque | BlockEnd, item: Item) -> None:
        match event:
            case BlockStart():
                self.start(event, item)
            case Delta(index=index, text=text):
                self.delta(index, text, item)
            case Annotation(index=index, citation=citation):
                notes = self.part_of[index]["annotations"]
                notes.append(citation.native)
                where = self.at(index, content_index=self.place(index), annotation_index=len(notes) - 1)
                self.state(item, "output_text.annotation.added", **where, annotation=citation.native)
            case Opaque(form="encrypted_content", payload=proof):
                item.value["encrypted_content"] = proof
            case BlockEnd():
                self.end(event, item)
            case _:
                pass

    def state(self, item: Item, kind: str, /, **fields: Any) -> None:
        """Send an event of an item, unless the item is only in the snapshot."""
        if item is not self.hidden:
            self.send(f"response.{kind}", **fields)

    def place(self, index: int) -> int:
        return self.items[index].blocks.index(index)

    def start(self, event: BlockStart, item: Item) -> None:
        index = event.index
        if not item.value:
            self.add(event, item)
        if event.kind in PROSE:
            part: Json = {"type": "refusal", "refusal": ""}
            if event.kind == "text":
                part = {"type": "output_text", "text": "", "annotations": []}
                if self.notes["extras"]:
                    part["logprobs"] = []
            self.part_of[index] = part
            item.parts.append(part)
            if not self.notes["late_parts"]:
                self.state(
                    item, "content_part.added", **self.at(index, content_index=self.place(index)), part=dict(part)
                )

    def add(self, event: BlockStart, item: Item) -> None:
        item.output_index = len(self.response["output"])
        value: Json = {"id": item.id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        match item.kind:
            case "reasoning":
                value = {"id": item.id, "type": "reasoning", "summary": []}
                if self.notes["provisional"]:
                    value["encrypted_content"] = "provisional"
            case "tool":
                call: Json = {"call_id": event.call_id, "name": event.name, "status": "in_progress"}
                value = {"id": item.id, "type": "function_call", "arguments": "", **call}
                if event.search:
                    del call["name"]
                    value = {"id": item.id, "type": "tool_search_call", "execution": "client", **call}
                    value["arguments"] = {}
                elif event.custom:
                    value = {"id": item.id, "type": "custom_tool_call", "input": "", **call}
                if event.namespace is not None:
                    value["namespace"] = event.namespace
            case "opaque":
                value = {"id": item.id, "status": "in_progress", **self.native[event.index]}
            case _:
                pass
        if self.notes["nulls"]:
            value = {"phase": None, "namespace": None, "encrypted_content": None, "caller": None} | value
        self.response["output"].append(value)
        item.value = value
        self.state(item, "output_item.added", output_index=item.output_index, item=json.loads(json.dumps(value)))
        value.pop("encrypted_content", None)
        if item.kind == "opaque":
            self.state(item, f"{value['type']}.in_progress", output_index=item.output_index, item_id=item.id)

    def delta(self, index: int, text: str, item: Item) -> None:
        kind = self.kinds[index]
        if kind == "reasoning" and self.pieces[index] and self.notes["summary"] == "parts" and text:
            # Another part: a blank line separates it from the text before, if there is any.
            if self.texts[index]:
                (self.held if item is self.hidden else self.meant).insert(-1, Delta(index, "\n\n"))
                self.texts[index] += "\n\n"
            self.close_summary(index, item)
        self.texts[index] += text
        noted = self.notes["texts"] == "deltas"
        extra: Json = {"obfuscation": "aZ09"} if self.notes["obfuscation"] else {}
        if kind == "text" and not self.notes["bare_deltas"]:
            extra["logprobs"] = []
        match kind:
            case "text" | "refusal":
                name = "output_text" if kind == "text" else "refusal"
                self.part_of[index]["text" if kind == "text" else "refusal"] += text
                where = self.at(index, content_index=self.place(index))
                if noted:
                    self.state(item, f"{name}.delta", **where, delta=text, **extra)
            case "reasoning":
                self.open_reasoning(index, item)
                self.pieces[index][-1] += text
                if self.notes["summary"] == "text":
                    where = self.at(index, content_index=0)
                    self.state(item, "reasoning_text.delta", **where, delta=text, **extra)
                else:
                    where = self.at(index, summary_index=len(self.pieces[index]) - 1)
                    self.state(item, "reasoning_summary_text.delta", **where, delta=text, **extra)
            case "tool" if not item.first.search and noted:
                name = "custom_tool_call_input" if item.first.custom else "function_call_arguments"
                self.state(item, f"{name}.delta", **self.at(index), delta=text, **extra)
            case _:
                pass

    def open_reasoning(self, index: int, item: Item) -> None:
        """A part of the reasoning, if none is open."""
        if index in self.open_parts:
            return
        self.open_parts.add(index)
        self.pieces[index].append("")
        if self.notes["summary"] != "text":
            where = self.at(index, summary_index=len(self.pieces[index]) - 1)
            self.state(item, "reasoning_summary_part.added", **where, part={"type": "summary_text", "text": ""})
        elif not self.notes["late_parts"]:
            part = {"type": "reasoning_text", "text": ""}
            self.state(item, "content_part.added", **self.at(index, content_index=0), part=part)

    def close_summary(self, index: int, item: Item) -> None:
        if index not in self.open_parts:
            return
        self.open_parts.discard(index)
        text = self.pieces[index][-1]
        if self.notes["summary"] == "text":
            where, part = self.at(index, content_index=0), {"type": "reasoning_text", "text": text}
            item.value["content"] = [part]
            self.state(item, "reasoning_text.done", **where, text=text)
            if not self.notes["late_parts"]:
                self.state(item, "content_part.done", **where, part=part)
        else:
            where = self.at(index, summary_index=len(self.pieces[index]) - 1)
            part = {"type": "summary_text", "text": text}
            item.value["summary"].append(part)
            self.state(item, "reasoning_summary_text.done", **where, text=text)
            self.state(item, "reasoning_summary_part.done", **where, part=part)

    def end(self, event: BlockEnd, item: Item) -> None:
        index, kind, status = event.index, self.kinds[event.index], "completed"
        match kind:
            case "text" | "refusal":
                name, key = ("output_text", "text") if kind == "text" else ("refusal", "refusal")
                part, where = self.part_of[index], self.at(index, content_index=self.place(index))
                self.state(
                    item, f"{name}.done", **where, **{key: part[key]}, **({"logprobs": []} if key == "text" else {})
                )
                self.state(item, "content_part.done", **where, part=part)
                if self.stop in INCOMPLETE and self.notes["cut_text"]:
                    status = "incomplete"
            case "reasoning":
                self.close_summary(index, item)
            case "tool":
                status = "completed" if event.complete else "incomplete"
                self.end_call(event, item)
            case _:
                pass
        item.waiting.discard(index)
        if item.waiting:
            return
        if item.kind in PROSE:
            item.value["content"] = item.parts
        if "status" in item.value:
            item.value["status"] = status
        self.state(item, "output_item.done", output_index=item.output_index, item=item.value)

    def end_call(self, event: BlockEnd, item: Item) -> None:
        text = self.texts[event.index]
        if item.first.search:
            item.value["arguments"] = json.loads(text)
            return
        key = "input" if item.first.custom else "arguments"
        item.value[key] = text
        if not event.complete or self.notes["texts"] == "item":
            return
        if item.first.custom:
            self.state(item, "custom_tool_call_input.done", **self.at(event.index), input=text)
        else:
            name = {} if self.notes["bare_deltas"] else {"name": item.first.name}
            self.state(item, "function_call_arguments.done", **self.at(event.index), arguments=text, **name)

    # --- the end -----------------------------------------------------------------------------------------------------

    def terminal(self, usage: Usage | None) -> None:
        reason = INCOMPLETE.get(self.stop) if self.stop is not None else None
        status = "incomplete" if reason else "completed"
        self.response["status"] = status
        self.response["incomplete_details"] = {"reason": reason} if reason else None
        self.response["usage"] = responses_usage(usage) if usage is not None else None
        noted = self.response
        if self.notes["empty_output"] and self.hidden is None:
            noted = self.response | {"output": []}
        self.send("response.done" if self.notes["alias"] else f"response.{status}", response=noted)
        if self.notes["done_mark"]:
            self.out.append(self.wire.frame(b"[DONE]"))

    def fail(self, failure: Failure) -> None:
        error = failed_error(failure)
        if self.notes["error"] == "flat":
            self.send("error", **error, param=None)
        elif self.notes["error"] == "nested" or not self.response:
            self.send("error", error={"type": "server_error", "param": None, **error})
        else:
            self.response |= {"status": "failed", "error": error}
            self.send("response.failed", response=self.response)


@st.composite
def responses_streams(draw: st.DrawFn, shape: Shape = RESPONSES, *, quirks: bool = True) -> Upstream:
    """A raw Responses stream. `notes["response"]` is the terminal snapshot: the same reply as a whole body."""
    coin, seldom = st.booleans(), st.sampled_from((False, False, False, quirks))
    events = draw(event_streams(replace(shape, pings=False)))
    wire = draw(wires())
    in_order = not overlaps(events)
    notes: dict[str, Any] = {name: draw(coin) for name in ("extras", "obfuscation", "event_last", "cut_text")}
    notes |= {
        name: draw(seldom)
        for name in ("queued", "provisional", "nulls", "no_sequence", "no_event_lines", "no_item_ids", "bare_deltas")
    }
    notes |= {name: draw(seldom) for name in ("alias", "done_mark", "empty_output", "hidden")}
    # A block without `content_part.added` starts with its first fragment: where others run, later than it states.
    notes["late_parts"] = draw(seldom) and in_order
    notes["summary"] = draw(st.sampled_from(("text", "one", "parts")))
    notes["texts"] = draw(st.sampled_from(("deltas", "deltas", "done", "item"))) if quirks else "deltas"
    notes["error"] = draw(st.sampled_from(("failed", "nested", "flat")))
    server = _Server(wire, notes, events, draw(st.lists(coin, min_size=1, max_size=3)))
    for event in events:
        server.on(event)
    if not isinstance(events[-1], Error):
        server.terminal(known_usage(events))
    data = (b"\xef\xbb\xbf" if wire.bom else b"") + b"".join(server.out)
    return Upstream(data, server.meant, notes | {"wire": wire, "response": server.response})
