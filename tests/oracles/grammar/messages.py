"""A Messages stream as its client puts it together."""

from __future__ import annotations

import json

from dragoman.stages.grammar.messages import MessagesGrammar, check_error

from .accumulated import UNLIMITED, Accumulated, Call, Json, judged

__all__ = ("check", "check_error")

_KIND = {"text": "text", "thinking": "reasoning", "redacted_thinking": "redacted", "tool_use": "tool"}
_TEXT = ("text", "thinking", "partial_json")


class _Client:
    def __init__(self) -> None:
        self.result = Accumulated()
        self.blocks: list[Json] = []

    def event(self, event: Json) -> None:
        result = self.result
        match event["type"]:
            case "ping":
                result.pings += 1
            case "error":
                result.error = event["error"]
            case "message_start":
                message = event["message"]
                result.id, result.model, result.usage = message["id"], message["model"], dict(message["usage"])
            case "content_block_start":
                self.blocks.append({"content": "", **event["content_block"]})
            case "content_block_delta":
                self.delta(self.blocks[event["index"]], event["delta"])
            case "message_delta":
                delta = event["delta"]
                result.finish, result.sequence = delta["stop_reason"], delta["stop_sequence"]
                result.stop_details = delta.get("stop_details")
                # Values are cumulative: they overwrite those of message_start, absent or null ones leave them.
                assert result.usage is not None
                result.usage.update({name: value for name, value in event["usage"].items() if value is not None})

    def delta(self, block: Json, delta: Json) -> None:
        if block["type"] not in _KIND:
            return
        if "citation" in delta:
            self.result.annotations.append(delta["citation"])
        elif "signature" in delta:
            self.result.signatures.append(delta["signature"])
        else:
            block["content"] += next(delta[name] for name in _TEXT if name in delta)

    def end(self) -> Accumulated:
        result = self.result
        for block in self.blocks:
            kind = _KIND.get(block["type"], "opaque")
            content = block["data"] if kind == "redacted" else "" if kind == "opaque" else block["content"]
            result.blocks.append((kind, content))
            if kind == "text":
                result.text += content
            elif kind == "reasoning":
                result.reasoning += content
            elif kind == "tool":
                result.calls.append(Call(block["id"], block["name"], content))
        return result


def check(data: bytes, *, include_usage: bool = True, overlapping: bool = False) -> Accumulated:
    """Judge a whole stream of Dragoman's. Blocks follow one another; with `overlapping` several may be open.

    `include_usage` is there for likeness with the other dialects: a Messages stream always has its counts.
    """
    client = _Client()
    for item in judged(MessagesGrammar(overlapping=overlapping, limit=UNLIMITED), data):
        if item.data is None:
            client.result.pings += 1
        else:
            client.event(json.loads(item.data))
    return client.end()
