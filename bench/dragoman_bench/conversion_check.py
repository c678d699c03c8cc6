"""Content of a request, read without the engine, to check conversions before they are timed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

Part = tuple[str, ...]
"""`text` and its text; `call`, its id, name and arguments; or `result`, its id and content."""

_ROLES = ("user", "assistant", "tool")


def read_content(dialect: str, body: Any) -> list[Part]:
    """Return the texts, calls and results of a body, in order, without reasoning and instructions."""
    if dialect == "responses":
        return [entry for item in body["input"] for entry in _item(item)]
    read = _chat if dialect == "chat" else _messages
    return [entry for message in body["messages"] if message["role"] in _ROLES for entry in read(message)]


def declared(dialect: str, body: Any) -> list[str]:
    """Return the names of a body's tools, without namespaces; hosted tools have no name."""
    tools = [inner for tool in body.get("tools", ()) for inner in tool.get("tools", (tool,))]
    if dialect == "chat":
        tools = [tool[tool["type"]] for tool in tools]
    return [tool["name"] for tool in tools if "name" in tool]


def lost(wanted: Sequence[Part], found: Sequence[Part]) -> str:
    """Return a note if parts are missing or changed, else an empty string."""
    gone = (Counter(wanted) - Counter(found)).total()
    return f"{gone} of {len(wanted)} texts, calls and results lost or changed" if gone else ""


def undeclared(wanted: Sequence[str], found: Sequence[str]) -> str:
    """Return a note if tools are missing, else an empty string. A name may have got its namespace as a prefix."""
    gone = [name for name in wanted if not any(other.endswith(name) for other in found)]
    return f"tools lost or renamed: {', '.join(gone)}" if gone else ""


def _texts(content: Any) -> Iterator[Part]:
    if type(content) is str:
        yield "text", content
    for part in content if type(content) is list else ():
        if "text" in part:
            yield "text", part["text"]


def _chat(message: Any) -> Iterator[Part]:
    if message["role"] == "tool":
        yield "result", message["tool_call_id"], _joined(message["content"])
        return
    yield from _texts(message["content"])
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield "call", call["id"], function["name"], _compact(function["arguments"])


def _messages(message: Any) -> Iterator[Part]:
    for block in message["content"] if type(message["content"]) is list else ():
        if block["type"] == "tool_use":
            yield "call", block["id"], block["name"], json.dumps(block["input"])
        elif block["type"] == "tool_result":
            yield "result", block["tool_use_id"], _joined(block["content"])
        else:
            yield from _texts([block])
    if type(message["content"]) is str:
        yield "text", message["content"]


def _item(item: Any) -> Iterator[Part]:
    kind = item.get("type", "message")
    if kind == "message" and item["role"] in _ROLES:
        yield from _texts(item["content"])
    elif kind == "function_call":
        yield "call", item["call_id"], item["name"], _compact(item["arguments"])
    elif kind == "function_call_output":
        yield "result", item["call_id"], _joined(item["output"])


def _joined(content: Any) -> str:
    """Return the text of a result; with a cache mark it is an array of parts."""
    return content if type(content) is str else "".join(part["text"] for part in content)


def _compact(arguments: str) -> str:
    return json.dumps(json.loads(arguments))
