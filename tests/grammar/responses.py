"""The strict grammar of a Responses stream (responses §7, §8, §8.3, §9)."""

from __future__ import annotations

from typing import Any

from . import sse
from .accumulated import Accumulated, Call, Json, integer, keys, parse_object, require, string

TERMINALS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}
INCOMPLETE_REASONS = {"max_output_tokens", "content_filter", "max_messages", "steered"}
_REQUIRED = {
    "id",
    "object",
    "created_at",
    "error",
    "incomplete_details",
    "instructions",
    "metadata",
    "model",
    "output",
    "parallel_tool_calls",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
}
_ITEM_KEYS = {
    "message": ({"id", "type", "role", "status", "content"}, {"phase"}),
    "reasoning": ({"id", "type", "summary"}, {"content", "encrypted_content", "status"}),
    "function_call": ({"id", "type", "call_id", "name", "arguments", "status"}, {"namespace", "caller", "async"}),
    "custom_tool_call": ({"id", "type", "call_id", "name", "input"}, {"namespace", "status", "caller"}),
}
_PREFIX = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "custom_tool_call": "ctc_"}
_PART_OF = {"output_text": "message", "refusal": "message", "reasoning_text": "reasoning"}
_TEXT_KEY = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}
_AT = {"type", "sequence_number", "item_id", "output_index"}


def check_usage(raw: Any) -> Json:
    """A usage object with every detail (the SDK's types require them). Raises GrammarError."""
    details = {"input_tokens_details", "output_tokens_details"}
    usage = keys(raw, {"input_tokens", "output_tokens", "total_tokens", *details}, set(), "usage")
    total = integer(usage["input_tokens"], "input_tokens") + integer(usage["output_tokens"], "output_tokens")
    require(integer(usage["total_tokens"], "total_tokens") == total, f"a wrong total: {usage}")
    spent = keys(usage["input_tokens_details"], {"cached_tokens", "cache_write_tokens"}, set(), "input_tokens_details")
    made = keys(usage["output_tokens_details"], {"reasoning_tokens"}, set(), "output_tokens_details")
    for name, count in {**spent, **made}.items():
        integer(count, name)
    return usage


class _Part:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.text = ""
        self.annotations: list[Any] = []
        self.text_done = False
        self.done: Json | None = None


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
        self.head: tuple[Any, ...] | None = None
        self.items: dict[int, _Item] = {}
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
        require(event.get("sequence_number") == self.next, f"sequence_number {event.get('sequence_number')!r}")
        self.next += 1
        require("error" not in event, "a truthy top-level error makes the SDK raise; `response.failed` is used")
        require((self.head is None) == (kind == "response.created"), f"{kind}: response.created is first, once")
        if kind in ("response.created", "response.in_progress", "response.queued"):
            require(not self.items, f"{kind} after the first item")
            response = self.response(event)
            require(response["output"] == [], "output before any item")
            require(response.get("status") in ("in_progress", "queued"), f"status {response.get('status')!r}")
            return
        if kind in TERMINALS:
            self.terminal(kind, self.response(event))
            return
        handler = getattr(self, "on_" + kind.removeprefix("response.").replace(".", "_"), None)
        require(handler is not None, f"unknown event {kind!r}")
        assert handler is not None
        handler(event)

    def response(self, event: Json) -> Json:
        keys(event, {"type", "sequence_number", "response"}, set(), "lifecycle event")
        response = event["response"]
        require(type(response) is dict, "response is not an object")
        assert isinstance(response, dict)
        require(response.keys() >= _REQUIRED, f"response lacks {sorted(_REQUIRED - response.keys())}")
        require(response["object"] == "response", f"object {response['object']!r}")
        head = string(response["id"], "id", empty=False), response["created_at"], response["model"]
        if self.head is None:
            self.head = head
            self.result.id, self.result.model = head[0], string(response["model"], "model")
        require(head == self.head, f"id, created_at or model changed: {self.head} to {head}")
        return response

    def check_item(self, item: Any) -> Json:
        require(type(item) is dict and item.get("type") in _ITEM_KEYS, f"unknown item: {item!r}")
        assert isinstance(item, dict)
        required, optional = _ITEM_KEYS[item["type"]]
        keys(item, required, optional, item["type"])
        require(string(item["id"], "item id").startswith(_PREFIX[item["type"]]), f"item id {item['id']!r}")
        return item

    def on_output_item_added(self, event: Json) -> None:
        keys(event, {"type", "sequence_number", "output_index", "item"}, set(), "output_item.added")
        index = integer(event["output_index"], "output_index")
        # The SDK tolerates gaps, but then the snapshot's positions are not the indexes.
        require(index == len(self.items), f"output_index {index}, {len(self.items)} was due")
        start = self.check_item(event["item"])
        require(all(start["id"] != other.id for other in self.items.values()), f"item id {start['id']!r} twice")
        if "call_id" in start:
            calls = [other.start.get("call_id") for other in self.items.values()]
            require(start["call_id"] not in calls, f"call_id {start['call_id']!r} twice")
            string(start["name"], "name", empty=False)
        for name in ("content", "summary", "arguments", "input"):
            require(not start.get(name), f"an item that starts with {name}: {start!r}")
        require(start.get("status", "in_progress") == "in_progress", f"starts with status {start.get('status')!r}")
        self.items[index] = _Item(start)

    def open_item(self, event: Json, *types: str) -> _Item:
        item = self.items.get(integer(event["output_index"], "output_index"))
        require(item is not None and item.done is None, f"no open item at output_index {event['output_index']}")
        assert item is not None
        require(event["item_id"] == item.id, f"item_id {event['item_id']!r}, but the item is {item.id!r}")
        require(item.type in types, f"{event['type']} on a {item.type} item")
        return item

    def part(self, event: Json, kind: str, more: set[str]) -> _Part:
        keys(event, {*_AT, "content_index", *more}, {"obfuscation"}, event["type"])
        item = self.open_item(event, _PART_OF[kind])
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
        require(event[key] == part.text, f"{event['type']} is not what its deltas were: {event[key]!r}")
        part.text_done = True

    def on_content_part_added(self, event: Json) -> None:
        keys(event, {*_AT, "content_index", "part"}, set(), "content_part.added")
        kind = event["part"].get("type")
        require(kind in _PART_OF, f"part type {kind!r}")
        item = self.open_item(event, _PART_OF[kind])
        require(event["content_index"] == len(item.parts), f"content_index {event['content_index']}")
        self.check_part(event["part"], _Part(kind))
        item.parts.append(_Part(kind))

    def check_part(self, raw: Any, part: _Part) -> None:
        required = {"type", _TEXT_KEY[part.kind]}
        if part.kind == "output_text":
            required.add("annotations")
        keys(raw, required, {"logprobs"} if part.kind == "output_text" else set(), "part")
        require(raw["type"] == part.kind, f"part type {raw['type']!r} where {part.kind} was due")
        require(raw[_TEXT_KEY[part.kind]] == part.text, f"a part that is not what its deltas were: {raw!r}")
        require(raw.get("annotations", []) == part.annotations, f"annotations differ: {raw!r}")

    def on_content_part_done(self, event: Json) -> None:
        part = self.part(event, event.get("part", {}).get("type", ""), {"part"})
        require(part.text_done, "content_part.done before the text's done")
        self.check_part(event["part"], part)
        part.done = event["part"]

    def on_output_text_delta(self, event: Json) -> None:
        self.delta(event, "output_text", {"logprobs"})

    def on_output_text_done(self, event: Json) -> None:
        self.text_done(event, "output_text", "text", {"logprobs"})

    def on_output_text_annotation_added(self, event: Json) -> None:
        part = self.part(event, "output_text", {"annotation_index", "annotation"})
        require(event["annotation_index"] == len(part.annotations), f"annotation_index {event['annotation_index']}")
        part.annotations.append(event["annotation"])
        self.result.annotations.append(event["annotation"])

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
        require(event["summary_index"] == len(item.summaries), f"summary_index {event['summary_index']}")
        part = _Part("summary_text")
        self.check_part(event["part"], part)
        item.summaries.append(part)

    def on_reasoning_summary_text_delta(self, event: Json) -> None:
        part = self.summary(event, {"delta"})
        require(not part.text_done, "a delta after its done")
        part.text += string(event["delta"], "delta")

    def on_reasoning_summary_text_done(self, event: Json) -> None:
        part = self.summary(event, {"text"})
        require(not part.text_done and event["text"] == part.text, f"a wrong summary text: {event!r}")
        part.text_done = True

    def on_reasoning_summary_part_done(self, event: Json) -> None:
        part = self.summary(event, {"part"}, {"status"})
        require(part.text_done, "reasoning_summary_part.done before the text's done")
        self.check_part(event["part"], part)
        part.done = event["part"]

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

    def whole(self, spelled: Any, item: _Item) -> None:
        """A call without any delta may be spelled `{}`: servers and clients count both as no arguments."""
        empty = item.type == "function_call" and not item.arguments and spelled == "{}"
        require(empty or spelled == item.arguments, f"not what its deltas were: {spelled!r}")
        item.arguments = spelled

    def on_function_call_arguments_delta(self, event: Json) -> None:
        self.call_delta(event, "function_call")

    def on_function_call_arguments_done(self, event: Json) -> None:
        self.call_done(event, "function_call", "arguments", {"name"})

    def on_custom_tool_call_input_delta(self, event: Json) -> None:
        self.call_delta(event, "custom_tool_call")

    def on_custom_tool_call_input_done(self, event: Json) -> None:
        self.call_done(event, "custom_tool_call", "input", set())

    def on_output_item_done(self, event: Json) -> None:
        keys(event, {"type", "sequence_number", "output_index", "item"}, set(), "output_item.done")
        index = integer(event["output_index"], "output_index")
        item = self.items.get(index)
        require(item is not None and item.done is None, f"no open item at output_index {index}")
        assert item is not None
        done = self.check_item(event["item"])
        status = done.get("status", "completed")
        require(status in ("completed", "incomplete"), f"an item done with status {status!r}")
        whole = status == "completed"
        if whole:
            require(all(part.done for part in item.parts), "output_item.done before content_part.done")
            require(all(part.done for part in item.summaries), "output_item.done before reasoning_summary_part.done")
            if item.type in ("function_call", "custom_tool_call"):
                require(item.arguments_done, "a completed call without its done event")
            if item.type == "function_call":
                parse_object(item.arguments)
        self.same(done, item)
        item.done = done

    def same(self, done: Json, item: _Item) -> None:
        """The finished item is what its events were."""
        for name in ("id", "type", "role", "call_id", "name", "namespace"):
            require(done.get(name) == item.start.get(name), f"{name} changed: {done!r}")
        for parts, raw in ((item.parts, done.get("content")), (item.summaries, done.get("summary"))):
            if raw is not None or parts:
                require(len(raw or []) == len(parts), f"{len(raw or [])} parts, but {len(parts)} were told: {done!r}")
                for part, value in zip(parts, raw or [], strict=True):
                    self.check_part(value, part)
        if item.type == "function_call":
            self.whole(done["arguments"], item)
        elif item.type == "custom_tool_call":
            self.whole(done["input"], item)

    def terminal(self, kind: str, response: Json) -> None:
        status = TERMINALS[kind]
        require(response.get("status") == status, f"{kind}, but status {response.get('status')!r}")
        self.over = True
        self.result.finish = status
        output = response["output"]
        require(type(output) is list and len(output) == len(self.items), f"{len(output)} items in the snapshot")
        for raw, item in zip(output, self.items.values(), strict=True):
            if item.done is not None:
                require(raw == item.done, f"the snapshot's item differs: {raw!r} and {item.done!r}")
            else:
                require(status == "failed", f"item {item.id!r} was never done")
                require(raw.get("status") == "incomplete", f"an open item in the snapshot as {raw.get('status')!r}")
                self.same(self.check_item(raw), item)
        if status == "failed":
            error = keys(response["error"], {"code", "message"}, {"type", "param", "misalignment"}, "error")
            string(error["code"], "error.code", empty=False)
            string(error["message"], "error.message", empty=False)
            self.result.error = error
        else:
            require(response["error"] is None, f"{status} with an error")
        details = response["incomplete_details"]
        if status == "incomplete":
            reason = keys(details, {"reason"}, set(), "incomplete_details")["reason"]
            require(reason in INCOMPLETE_REASONS, f"reason {reason!r}")
            self.result.finish = f"incomplete/{reason}"
        else:
            require(details is None, f"{status} with incomplete_details")
        require("usage" in response, "the snapshot lacks the key `usage`")
        if response["usage"] is not None:
            self.result.usage = check_usage(response["usage"])

    def close(self) -> Accumulated:
        require(self.over, "no terminal event (T-23)")
        result = self.result
        for item in self.items.values():
            if item.type == "reasoning":
                words = "".join(part.text for part in (item.parts or item.summaries))
                result.blocks.append(("reasoning", words))
                result.reasoning += words
                proof = (item.done or {}).get("encrypted_content")
                if proof is not None:
                    result.signatures.append(proof)
            elif item.type == "message":
                for part in item.parts:
                    kind = "refusal" if part.kind == "refusal" else "text"
                    result.blocks.append((kind, part.text))
                    if kind == "text":
                        result.text += part.text
                    else:
                        result.refusal += part.text
            else:
                result.blocks.append(("tool", item.arguments))
                result.calls.append(Call(item.start["call_id"], item.start["name"], item.arguments))
        return result


def check(data: bytes, *, include_usage: bool = True) -> Accumulated:
    """Judge a whole stream that we wrote.

    `include_usage` is there for likeness with the other dialects: the terminal snapshot always has the key.
    """
    checker = _Checker()
    for item in sse.written(data):
        checker.item(item)
    return checker.close()
