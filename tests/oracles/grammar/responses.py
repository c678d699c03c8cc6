"""The strict grammar of a Responses stream, and of a whole response (responses §7, §8, §8.3, §9)."""

from __future__ import annotations

from typing import Any

from . import sse
from .accumulated import Accumulated, Json, integer, keys, parse_object, require, string
from .responses_items import (
    CALLS,
    CHANGING,
    PART_OF,
    TEXT_KEY,
    accumulate,
    call_of,
    check_annotation,
    check_end,
    check_item,
    check_logprobs,
    check_part,
    check_response,
    paired,
)

TERMINALS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}
_AT = {"type", "sequence_number", "item_id", "output_index"}


class _Part:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.text = ""
        self.annotations: list[Any] = []
        self.text_done = False
        self.done: Json | None = None

    def judge(self, raw: Any) -> None:
        part = check_part(raw, self.kind)
        require(part[TEXT_KEY[self.kind]] == paired(self.text), f"a part that is not what its deltas were: {raw!r}")
        require(part.get("annotations", []) == self.annotations, f"annotations differ: {raw!r}")


class _Item:
    def __init__(self, item: Json) -> None:
        self.id: str = item["id"]
        self.type: str = item["type"]
        self.start = item
        self.parts: list[_Part] = []
        self.summaries: list[_Part] = []
        self.arguments = ""
        self.arguments_done = False
        self.done: Json | None = None


class _Checker:
    def __init__(self) -> None:
        self.result = Accumulated()
        self.next = 0
        self.echo: Json | None = None
        self.items: dict[int, _Item] = {}
        self.output: list[Json] = []
        self.over = False

    def item(self, item: sse.Item) -> None:
        require(not self.over, f"something after the terminal event: {item!r}")
        if item.data is None:
            self.result.pings += 1
            return
        require(item.data != b"[DONE]", "`[DONE]` in a Responses stream")
        event = parse_object(item.data)
        kind = string(event.get("type"), "type")
        require(item.event == kind, f"event {item.event!r}, but type {kind!r}")
        if kind == "keepalive" and event.get("sequence_number") == max(self.next - 1, 0):
            return  # the number of the last event: a forwarded stream leaves no room for another one
        require(event.get("sequence_number") == self.next, f"sequence_number {event.get('sequence_number')!r}")
        self.next += 1
        if kind == "keepalive":  # OpenAI's backend sends it to Codex
            return
        require("error" not in event, "a truthy top-level error makes the SDK raise; `response.failed` is used")
        require((self.echo is None) == (kind == "response.created"), f"{kind}: response.created is first, once")
        if kind in ("response.created", "response.in_progress", "response.queued"):
            self.begin(kind, self.response(event))
            return
        if kind in TERMINALS:
            self.terminal(kind, self.response(event))
            return
        handler = getattr(self, "on_" + kind.removeprefix("response.").replace(".", "_"), None)
        require(handler is not None, f"unknown event {kind!r}")
        assert handler is not None
        handler(event)

    # --- the response ------------------------------------------------------------------------------------------------

    def response(self, event: Json) -> Json:
        keys(event, {"type", "sequence_number", "response"}, set(), "lifecycle event")
        response = check_response(event["response"])
        echo = {key: value for key, value in response.items() if key not in CHANGING}
        if self.echo is None:
            self.echo = echo
            self.result.id, self.result.model = response["id"], response["model"]
        if response["status"] == "failed" and echo.get("store") is False:
            echo["store"] = self.echo.get("store")  # a response that has failed is not stored
        require(echo == self.echo, f"the snapshot changed: {self.echo} to {echo}")
        return response

    def begin(self, kind: str, response: Json) -> None:
        require(not self.items, f"{kind} after the first item")
        require(response["output"] == [], "output before any item")
        require(response["status"] in ("in_progress", "queued"), f"status {response['status']!r}")
        for key in ("error", "incomplete_details", "usage", "completed_at"):
            require(response.get(key) is None, f"{kind} with {key}")

    def terminal(self, kind: str, response: Json) -> None:
        status = TERMINALS[kind]
        require(response["status"] == status, f"{kind}, but status {response['status']!r}")
        self.over = True
        check_end(response, self.result)
        output = response["output"]
        require(len(output) == len(self.items), f"{len(output)} items in the snapshot")
        for raw, item in zip(output, self.items.values(), strict=True):
            # Codex runs free text that is marked as done, whatever its status: one that was cut must not be.
            if item.type == "custom_tool_call" and item.done is not None:
                require(item.done.get("status") != "incomplete", f"item {item.id!r} was cut, but told as done")
            if item.done is not None:
                require(raw == item.done, f"the snapshot's item differs: {raw!r} and {item.done!r}")
            else:
                withheld = status == "incomplete" and item.type == "custom_tool_call"
                require(status == "failed" or withheld, f"item {item.id!r} was never done")
                require(raw.get("status") == "incomplete", f"an open item in the snapshot as {raw.get('status')!r}")
                self.same(check_item(raw), item)
        self.output = output

    # --- items -------------------------------------------------------------------------------------------------------

    def on_output_item_added(self, event: Json) -> None:
        keys(event, {"type", "sequence_number", "output_index", "item"}, set(), "output_item.added")
        index = integer(event["output_index"], "output_index")
        # The SDK tolerates gaps, but then the snapshot's positions are not the indexes.
        require(index == len(self.items), f"output_index {index}, {len(self.items)} was due")
        start = check_item(event["item"])
        require(all(start["id"] != other.id for other in self.items.values()), f"item id {start['id']!r} twice")
        if "call_id" in start:
            calls = [other.start.get("call_id") for other in self.items.values()]
            require(start["call_id"] not in calls, f"call_id {start['call_id']!r} twice")
        for name in ("content", "summary", "arguments", "input"):
            require(not start.get(name), f"an item that starts with {name}: {start!r}")
        # The value at `.added` is provisional (responses §5): a client that takes it replays the wrong one.
        require(not start.get("encrypted_content"), "an item that starts with its encrypted_content")
        require(start.get("status", "in_progress") == "in_progress", f"starts with status {start.get('status')!r}")
        self.items[index] = _Item(start)

    def open_item(self, event: Json, *types: str) -> _Item:
        item = self.items.get(integer(event["output_index"], "output_index"))
        require(item is not None and item.done is None, f"no open item at output_index {event['output_index']}")
        assert item is not None
        require(event["item_id"] == item.id, f"item_id {event['item_id']!r}, but the item is {item.id!r}")
        require(item.type in types, f"{event['type']} on a {item.type} item")
        return item

    def on_output_item_done(self, event: Json) -> None:
        keys(event, {"type", "sequence_number", "output_index", "item"}, set(), "output_item.done")
        index = integer(event["output_index"], "output_index")
        item = self.items.get(index)
        require(item is not None and item.done is None, f"no open item at output_index {index}")
        assert item is not None
        done = check_item(event["item"])
        status = done.get("status", "completed")
        require(status in ("completed", "incomplete"), f"an item done with status {status!r}")
        require(item.type != "message" or item.parts, "a message without a part")
        require(all(part.done for part in item.parts), "output_item.done before content_part.done")
        require(all(part.done for part in item.summaries), "output_item.done before reasoning_summary_part.done")
        # Codex runs every call it has seen done; only an unfinished one may lack its own done event.
        if item.type in ("function_call", "custom_tool_call"):
            require(item.arguments_done == (status == "completed"), f"a call done as {status}")
        require(item.type != "compaction" or done["encrypted_content"], "a compaction without content")
        self.same(done, item)
        item.done = done

    def same(self, done: Json, item: _Item) -> None:
        """The finished item is what its events were."""
        for name in ("id", "type", "role", "call_id", "name", "namespace", "execution", "phase"):
            require(done.get(name) == item.start.get(name), f"{name} changed: {done!r}")
        for parts, raw in ((item.parts, done.get("content")), (item.summaries, done.get("summary"))):
            if raw is not None or parts:
                require(len(raw or []) == len(parts), f"{len(raw or [])} parts, but {len(parts)} were told: {done!r}")
                for part, value in zip(parts, raw or [], strict=True):
                    part.judge(value)
        if item.type in ("function_call", "custom_tool_call"):
            self.whole(done[CALLS[item.type]], item)

    # --- texts -------------------------------------------------------------------------------------------------------

    def part(self, event: Json, kind: str, more: set[str]) -> _Part:
        keys(event, {*_AT, "content_index", *more}, {"obfuscation"}, event["type"])
        item = self.open_item(event, PART_OF.get(kind, ""))
        index = integer(event["content_index"], "content_index")
        require(index < len(item.parts), f"{event['type']} without content_part.added: the SDK raises IndexError")
        part = item.parts[index]
        require(part.kind == kind and part.done is None, f"{event['type']} on a {part.kind} part, or a closed one")
        return part

    def delta(self, event: Json, kind: str, more: set[str] | None = None) -> None:
        part = self.part(event, kind, {"delta", *(more or set())})
        require(not part.text_done, "a delta after its done")
        part.text += string(event["delta"], "delta")

    def text_done(self, event: Json, kind: str, key: str, more: set[str] | None = None) -> None:
        part = self.part(event, kind, {key, *(more or set())})
        require(not part.text_done, "done twice")
        require(event[key] == paired(part.text), f"{event['type']} is not what its deltas were: {event[key]!r}")
        part.text_done = True

    def on_content_part_added(self, event: Json) -> None:
        keys(event, {*_AT, "content_index", "part"}, set(), "content_part.added")
        kind = event["part"].get("type")
        require(kind in PART_OF, f"part type {kind!r}")
        item = self.open_item(event, PART_OF[kind])
        require(not item.summaries, "reasoning as text and as summary")
        require(event["content_index"] == len(item.parts), f"content_index {event['content_index']}")
        _Part(kind).judge(event["part"])
        item.parts.append(_Part(kind))

    def on_content_part_done(self, event: Json) -> None:
        part = self.part(event, event.get("part", {}).get("type", ""), {"part"})
        require(part.text_done, "content_part.done before the text's done")
        part.judge(event["part"])
        part.done = event["part"]

    def on_output_text_delta(self, event: Json) -> None:
        self.delta(event, "output_text", {"logprobs"})
        check_logprobs(event["logprobs"], event["type"])

    def on_output_text_done(self, event: Json) -> None:
        self.text_done(event, "output_text", "text", {"logprobs"})
        check_logprobs(event["logprobs"], event["type"])

    def on_output_text_annotation_added(self, event: Json) -> None:
        part = self.part(event, "output_text", {"annotation_index", "annotation"})
        require(event["annotation_index"] == len(part.annotations), f"annotation_index {event['annotation_index']}")
        part.annotations.append(check_annotation(event["annotation"]))

    def on_refusal_delta(self, event: Json) -> None:
        self.delta(event, "refusal")

    def on_refusal_done(self, event: Json) -> None:
        self.text_done(event, "refusal", "refusal")

    def on_reasoning_text_delta(self, event: Json) -> None:
        self.delta(event, "reasoning_text")

    def on_reasoning_text_done(self, event: Json) -> None:
        self.text_done(event, "reasoning_text", "text")

    def summary(self, event: Json, more: set[str], optional: set[str] | None = None) -> _Part:
        keys(event, {*_AT, "summary_index", *more}, {"obfuscation", *(optional or set())}, event["type"])
        item = self.open_item(event, "reasoning")
        index = integer(event["summary_index"], "summary_index")
        require(index < len(item.summaries), f"{event['type']} without reasoning_summary_part.added")
        require(item.summaries[index].done is None, f"{event['type']} on a closed summary part")
        return item.summaries[index]

    def on_reasoning_summary_part_added(self, event: Json) -> None:
        keys(event, {*_AT, "summary_index", "part"}, set(), event["type"])
        item = self.open_item(event, "reasoning")
        require(not item.parts, "reasoning as text and as summary")
        require(event["summary_index"] == len(item.summaries), f"summary_index {event['summary_index']}")
        _Part("summary_text").judge(event["part"])
        item.summaries.append(_Part("summary_text"))

    def on_reasoning_summary_text_delta(self, event: Json) -> None:
        part = self.summary(event, {"delta"})
        require(not part.text_done, "a delta after its done")
        part.text += string(event["delta"], "delta")

    def on_reasoning_summary_text_done(self, event: Json) -> None:
        part = self.summary(event, {"text"})
        require(not part.text_done and event["text"] == paired(part.text), f"a wrong summary text: {event!r}")
        part.text_done = True

    def on_reasoning_summary_part_done(self, event: Json) -> None:
        part = self.summary(event, {"part"}, {"status"})
        require(part.text_done, "reasoning_summary_part.done before the text's done")
        part.judge(event["part"])
        part.done = event["part"]

    # --- calls -------------------------------------------------------------------------------------------------------

    def call_delta(self, event: Json, kind: str) -> None:
        keys(event, {*_AT, "delta"}, {"obfuscation"}, event["type"])
        item = self.open_item(event, kind)
        require(not item.arguments_done, "a delta after its done")
        item.arguments += string(event["delta"], "delta")

    def call_done(self, event: Json, kind: str, key: str, more: set[str]) -> None:
        keys(event, {*_AT, key, *more}, set(), event["type"])
        item = self.open_item(event, kind)
        require(not item.arguments_done, "done twice")
        self.whole(event[key], item)
        require(event.get("name", item.start["name"]) == item.start["name"], f"name {event.get('name')!r}")
        item.arguments_done = True

    def whole(self, text: Any, item: _Item) -> None:
        """A call without any delta may have the arguments `{}`: servers and clients count both as no arguments."""
        empty = item.type == "function_call" and not item.arguments and text == "{}"
        require(empty or text == paired(item.arguments), f"not what its deltas were: {text!r}")
        item.arguments = text

    def on_function_call_arguments_delta(self, event: Json) -> None:
        self.call_delta(event, "function_call")

    def on_function_call_arguments_done(self, event: Json) -> None:
        self.call_done(event, "function_call", "arguments", {"name"})

    def on_custom_tool_call_input_delta(self, event: Json) -> None:
        self.call_delta(event, "custom_tool_call")

    def on_custom_tool_call_input_done(self, event: Json) -> None:
        self.call_done(event, "custom_tool_call", "input", set())


def check(data: bytes, *, include_usage: bool = True) -> Accumulated:
    """Judge a whole stream that we wrote.

    `include_usage` is there for likeness with the other dialects: the terminal snapshot always has the key.
    """
    checker = _Checker()
    for item in sse.written(data):
        checker.item(item)
    require(checker.over, "no terminal event (T-23)")
    accumulate(checker.output, checker.result)
    return checker.result


def check_whole(raw: Any) -> Accumulated:
    """Judge the body of a reply that is not streamed. Raises GrammarError."""
    response = check_response(raw)
    items = [check_item(item) for item in response["output"]]
    ids = [item["id"] for item in items]
    require(len(set(ids)) == len(ids), f"an item id twice: {ids}")
    calls = [call_of(item).id for item in items if item["type"] in CALLS]
    require(len(set(calls)) == len(calls), f"a call_id twice: {calls}")
    require(all(item["content"] for item in items if item["type"] == "message"), "a message without a part")
    result = Accumulated(id=response["id"], model=response["model"])
    check_end(response, result)
    accumulate(items, result)
    return result
