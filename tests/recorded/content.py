"""The content of a reply, whole or streamed, read plainly: visible text and the calls that a client must run.

It knows nothing of the engine's readers. A vendor's deviations are tolerated where their meaning is clear.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, NamedTuple

Json = dict[str, Any]


DECLINED = "The model declined to answer."
"""The text that the translators show in place of a refusal without a text."""
WITHHELD = "The upstream withheld the reply ("
"""The beginning of the text for a block of Gemini's without a message of its own."""


class Content(NamedTuple):
    """`error` is the message of the error that ends the reply, or empty."""

    text: str
    calls: list[tuple[str, Any]]
    error: str = ""


def of_reply(dialect: str, body: bytes) -> Content:
    """Return what the first choice of a whole reply states."""
    return _READERS[dialect](json.loads(body))


def of_stream(dialect: str, data: bytes) -> Content:
    """Return what a stream states."""
    lines = [line[5:].strip() for line in data.decode("utf-8", "replace").split("\n") if line.startswith("data:")]
    events = [json.loads(line) for line in lines if line not in ("[DONE]", "")]
    events = [event for event in events if isinstance(event, dict)]
    error = next((_message(event["error"]) for event in events if event.get("error")), "")
    return _STREAMS[dialect](events)._replace(error=error) if error else _STREAMS[dialect](events)


def arguments_of(text: Any) -> Any:
    """Arguments by their meaning, or as they are if they are no JSON."""
    if not isinstance(text, str):
        return text or {}
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def _message(error: Any) -> str:
    return str(error.get("message") or error) if isinstance(error, dict) else str(error)


def _parts(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if part.get("type") in ("text", "output_text"))
    return content or ""


def _chat(reply: Json) -> Content:
    message = (reply.get("choices") or [{}])[0].get("message") or {}
    calls = message.get("tool_calls") or []
    if (message.get("function_call") or {}).get("name"):
        calls = [*calls, {"function": message["function_call"]}]
    return Content(
        _parts(message.get("content")) + (message.get("refusal") or ""), [_chat_call(call) for call in calls]
    )


def _chat_call(call: Json) -> tuple[str, Any]:
    if (custom := call.get("custom")) and custom.get("name"):
        return custom["name"], custom["input"]
    return call["function"]["name"], arguments_of(call["function"].get("arguments"))


def _chat_stream(events: list[Json]) -> Content:
    text = ""
    calls: dict[Any, Json] = {}
    for event in events:
        for choice in event.get("choices") or ():
            if choice.get("index", 0) != 0:
                continue
            delta = choice.get("delta") or {}
            text += _parts(delta.get("content")) + (delta.get("refusal") or "")
            legacy = [{"index": "legacy", "function": delta["function_call"]}] if delta.get("function_call") else []
            for call in [*(delta.get("tool_calls") or ()), *legacy]:
                function = call.get("function") or {}
                key = call.get("index")
                # Several vendors number every call 0 and send each whole: a new id is a new call.
                known = calls.get(key)
                if known is not None and call.get("id") and known["id"] and call["id"] != known["id"]:
                    key = call["id"]
                held = calls.setdefault(key, {"id": call.get("id"), "name": "", "arguments": ""})
                custom = call.get("custom") or {}
                held["custom"] = bool(custom) or held.get("custom", False)
                held["name"] = held["name"] or function.get("name") or custom.get("name") or ""
                held["arguments"] += _argument_text(function.get("arguments")) + (custom.get("input") or "")
    held_calls = [
        (call["name"], call["arguments"] if call["custom"] else arguments_of(call["arguments"]))
        for call in calls.values()
    ]
    return Content(text, held_calls)


def _argument_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""


def _messages(reply: Json) -> Content:
    blocks = reply.get("content") or []
    text = "".join(block["text"] for block in blocks if block.get("type") == "text")
    if not text and reply.get("stop_reason") == "refusal":
        text = (reply.get("stop_details") or {}).get("explanation") or ""
    return Content(text, [(block["name"], block.get("input")) for block in blocks if block.get("type") == "tool_use"])


def _messages_stream(events: list[Json]) -> Content:
    blocks: dict[int, Json] = {}
    end: Json = {}
    for event in events:
        if event.get("type") == "message_start":
            # The call of a program that goes on after its last call's result comes so.
            content = event["message"].get("content") or []
            blocks = {index: {**block, "json": ""} for index, block in enumerate(content)}
        elif event.get("type") == "message_delta":
            end |= event["delta"]
        elif event.get("type") == "content_block_start":
            blocks[event["index"]] = {**event["content_block"], "json": ""}
        elif event.get("type") == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            if delta["type"] == "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
            elif delta["type"] == "input_json_delta":
                block["json"] += delta["partial_json"]
    for block in blocks.values():
        if block["json"]:
            block["input"] = arguments_of(block["json"])
    return _messages({**end, "content": list(blocks.values())})


def _responses(reply: Json) -> Content:
    text, calls = "", []
    for item in reply.get("output") or ():
        match item.get("type"):
            case "message":
                text += "".join(part.get("text") or part.get("refusal") or "" for part in item.get("content") or ())
            case "function_call":
                calls.append((item["name"], arguments_of(item.get("arguments"))))
            case "custom_tool_call":
                calls.append((item["name"], item.get("input")))
    error = reply.get("error")
    return Content(text, calls, _message(error) if error else "")


def _responses_stream(events: list[Json]) -> Content:
    terminal: Json = {}
    items: dict[int, Json] = {}
    for event in events:
        if event.get("type") == "response.output_item.done":
            items[event.get("output_index", len(items))] = event["item"]
        elif event.get("type") in ("response.completed", "response.incomplete", "response.failed"):
            terminal = event.get("response") or {}
        elif event.get("type") == "error":
            return Content("", [], _message(event.get("error") or event))
    output = terminal.get("output") or [items[index] for index in sorted(items)]
    return _responses({**terminal, "output": output})


def _generate(reply: Json) -> Content:
    return _generate_stream([reply])


def _generate_stream(events: list[Json]) -> Content:
    text, calls, reason = "", [], ""
    for event in events:
        reason = reason or (event.get("promptFeedback") or {}).get("blockReasonMessage") or ""
        for candidate in event.get("candidates") or ():
            parts = (candidate.get("content") or {}).get("parts") or ()
            reason = reason or candidate.get("finishMessage") or ""
            for call in [part["functionCall"] for part in parts if "functionCall" in part]:
                if "name" in call:
                    calls.append((call["name"], dict(call.get("args") or {})))
                for piece in call.get("partialArgs") or ():
                    _add_piece(calls[-1][1], piece)
            text += "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    return Content(text if text or calls else reason, calls)


def _add_piece(arguments: Json, piece: Json) -> None:
    """Add a value, or a further piece of a text, at its path, such as `$.items[0].name`."""
    steps = [int(index) if index else name for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", piece["jsonPath"])]
    at: Any = arguments
    for step, following in itertools.pairwise(steps):
        inner: Any = [] if isinstance(following, int) else {}
        at = _member(at, step, inner)
    key = next((key for key in ("stringValue", "numberValue", "boolValue") if key in piece), "")
    before = _member(at, steps[-1], "") if key == "stringValue" else None
    at[steps[-1]] = before + piece[key] if isinstance(before, str) else piece.get(key)


def _member(holder: Any, step: Any, default: Any) -> Any:
    """Return a member of an array or an object, set to `default` if it is absent."""
    if isinstance(holder, dict):
        return holder.setdefault(step, default)
    holder.extend([default] if step == len(holder) else [])
    return holder[step]


_READERS = {"chat": _chat, "messages": _messages, "responses": _responses, "generate": _generate}
_STREAMS = {
    "chat": _chat_stream,
    "messages": _messages_stream,
    "responses": _responses_stream,
    "generate": _generate_stream,
}
