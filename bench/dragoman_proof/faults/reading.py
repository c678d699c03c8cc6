"""Reads a streamed reply as its client does: texts, closed calls, and how the stream ended.

This code shares nothing with the readers and writers of the engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dragoman import Dialect

Json = dict[str, Any]


@dataclass(slots=True)
class Reply:
    """A reply as its client reads it. `calls` are those that were closed, by name and arguments."""

    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str | None = None
    """The stop reason, in the words of the dialect; None without one."""
    error: str | None = None
    ended: bool = False
    """True if the last event of the dialect came."""


class Unreadable(Exception):
    """The bytes are no stream of the dialect."""


def read(client: Dialect, body: bytes) -> Reply:
    """Read a whole stream. Raises Unreadable."""
    reply = Reply()
    take = _READERS[client](reply)
    for name, data in _frames(body):
        if data == "[DONE]" and client is Dialect.CHAT:
            reply.ended = True
            continue
        try:
            event = json.loads(data)
        except ValueError as error:
            raise Unreadable(f"{error}: {data[:80]}") from None
        if type(event) is not dict:
            raise Unreadable(f"no object: {data[:80]}")
        take(name, event)
    return reply


def _frames(body: bytes) -> Iterator[tuple[str, str]]:
    """Yield the name and the data of each event. Raises Unreadable for one without its blank line."""
    text = body.decode("utf-8", "replace").replace("\r\n", "\n")
    if text and not text.endswith("\n\n"):
        raise Unreadable(f"no blank line at the end: {text[-80:]}")
    for frame in text.split("\n\n"):
        fields = [line.partition(":")[::2] for line in frame.split("\n") if line and not line.startswith(":")]
        data = [value.removeprefix(" ") for name, value in fields if name == "data"]
        if data:
            yield next((value.strip() for name, value in fields if name == "event"), ""), "\n".join(data)


def _chat(reply: Reply) -> Callable[[str, Json], None]:
    calls: dict[int, list[str]] = {}

    def take(_: str, chunk: Json) -> None:
        if "error" in chunk:
            reply.error = str(chunk["error"])
            return
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            reply.text += (delta.get("content") or "") + (delta.get("refusal") or "")
            for call in delta.get("tool_calls") or ():
                function = call.get("function") or call.get("custom") or {}
                parts = calls.setdefault(call.get("index") or 0, ["", ""])
                parts[0] += function.get("name") or ""
                parts[1] += function.get("arguments") or function.get("input") or ""
            if choice.get("finish_reason"):
                reply.finish = choice["finish_reason"]
                # A client runs the calls of a turn that has a stop reason other than an error.
                reply.calls = [(name, arguments) for name, arguments in calls.values()]

    return take


def _messages(reply: Reply) -> Callable[[str, Json], None]:
    blocks: dict[int, Json] = {}

    def take(_: str, event: Json) -> None:
        kind = event.get("type")
        if kind == "error":
            reply.error = str(event["error"])
        elif kind == "content_block_start":
            blocks[event["index"]] = {**event["content_block"], "json": ""}
            reply.text += event["content_block"].get("text") or ""
        elif kind == "content_block_delta":
            delta = event["delta"]
            reply.text += delta.get("text") or ""
            blocks[event["index"]]["json"] += delta.get("partial_json") or ""
        elif kind == "content_block_stop":
            block = blocks[event["index"]]
            if block["type"] == "tool_use":
                reply.calls.append((block["name"], block["json"]))
        elif kind == "message_delta":
            reply.finish = event["delta"].get("stop_reason") or reply.finish
        elif kind == "message_stop":
            reply.ended = True

    return take


def _responses(reply: Reply) -> Callable[[str, Json], None]:
    def take(_: str, event: Json) -> None:
        kind = event.get("type")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            reply.text += event["delta"]
        elif kind == "response.output_item.done":
            item = event["item"]
            if item["type"] in ("function_call", "custom_tool_call") and item.get("status") == "completed":
                reply.calls.append((item["name"], item.get("arguments") or item.get("input") or ""))
        elif kind in ("response.completed", "response.incomplete"):
            reply.finish, reply.ended = event["response"]["status"], True
        elif kind in ("error", "response.failed"):
            reply.error = str(event.get("error") or event.get("message") or event.get("response", {}).get("error"))

    return take


_READERS: dict[Dialect, Callable[[Reply], Callable[[str, Json], None]]] = {
    Dialect.CHAT: _chat,
    Dialect.MESSAGES: _messages,
    Dialect.RESPONSES: _responses,
}
