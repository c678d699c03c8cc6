"""The shape of a stream's frame: the types and lengths in it, without its texts.

Only words of a fixed form are taken from a frame, and only at places where the dialects have types: a prompt, a
completion, an argument and a name of a tool are never at these places.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from dragoman.wire import SSEFrame, json_loads

_WORD = re.compile(r"[a-z][a-z0-9_.]{0,63}\Z")
_TYPED = ("delta", "content_block", "item", "part", "error")
"""Members whose `type` is the kind of content that a frame of Messages or Responses carries."""
_CHAT_DELTAS = ("role", "content", "reasoning_content", "reasoning", "refusal", "tool_calls", "audio")
_TEXTS = ("text", "thinking", "partial_json", "content", "reasoning_content", "reasoning", "refusal", "signature")
_GEMINI_PARTS = ("text", "thought", "functionCall", "inlineData", "thoughtSignature")
SHAPED_MAX = 65_536
"""Longest data of a frame that is parsed, in bytes; of longer ones only the name is used."""


class FrameShape(NamedTuple):
    """A frame without its texts.

    `name` is the event's name or type, `detail` the types within it, `size` the bytes of its data, and `text` the
    characters of text or arguments that it adds.
    """

    name: str
    detail: str
    size: int
    text: int


def shape_of(frame: SSEFrame) -> FrameShape:
    """Return the shape of a frame."""
    if frame.fault is not None:
        return FrameShape("fault", frame.fault.failure.kind.value, 0, 0)
    if frame.data is None:
        return FrameShape("comment", "", 0, 0)
    name, size = _word(frame.event), len(frame.data)
    if size > SHAPED_MAX:
        return FrameShape(name or "data", "", size, 0)
    if frame.data == b"[DONE]":
        return FrameShape("[DONE]", "", size, 0)
    try:
        payload = json_loads(frame.data)
    except ValueError:
        return FrameShape(name or "data", "not JSON", size, 0)
    if not isinstance(payload, dict):
        return FrameShape(name or "data", "", size, 0)
    if "candidates" in payload or "usageMetadata" in payload:
        detail, text = _gemini(payload)
    else:
        detail, text = _chat(payload) if "choices" in payload else _typed(payload)
    return FrameShape(name or _word(payload.get("type")) or _word(payload.get("object")) or "data", detail, size, text)


def _gemini(payload: dict[str, Any]) -> tuple[str, int]:
    """Return types and length of text of a chunk of Gemini's API."""
    found: list[str] = []
    text = 0
    candidates = payload.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        content = candidate.get("content") if isinstance(candidate, dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                found += [kind for kind in _GEMINI_PARTS if part.get(kind)]
                text += len(part["text"]) if isinstance(part.get("text"), str) else 0
        if isinstance(candidate, dict) and isinstance(reason := candidate.get("finishReason"), str):
            found += filter(None, (_word(reason.lower()),))
    if isinstance(payload.get("usageMetadata"), dict):
        found.append("usage")
    return " ".join(found), text


def _typed(payload: dict[str, Any]) -> tuple[str, int]:
    """Return types and length of text of a frame of Messages or Responses."""
    found: list[str] = []
    text = 0
    for member in _TYPED:
        part = payload.get(member)
        if isinstance(part, dict):
            found += filter(None, (_word(part.get("type")), _word(part.get("stop_reason"))))
            text += _length(part)
        elif isinstance(part, str) and member == "delta":
            text += len(part)
    response = payload.get("response")
    if isinstance(response, dict):
        found += filter(None, (_word(response.get("status")),))
    if isinstance(payload.get("usage"), dict):
        found.append("usage")
    return " ".join(found), text


def _chat(payload: dict[str, Any]) -> tuple[str, int]:
    """Return types and length of text of a chunk of Chat Completions."""
    found: list[str] = []
    text = 0
    choices = payload["choices"]
    for choice in choices[:1] if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        delta = choice.get("delta")
        if isinstance(delta, dict):
            found += [key for key in _CHAT_DELTAS if delta.get(key) not in (None, "")]
            text += _length(delta)
            calls = delta.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict) and isinstance(function.get("arguments"), str):
                    text += len(function["arguments"])
        found += filter(None, (_word(choice.get("finish_reason")),))
    if isinstance(payload.get("usage"), dict):
        found.append("usage")
    return " ".join(found), text


def _length(part: dict[str, Any]) -> int:
    return sum(len(value) for key in _TEXTS if isinstance(value := part.get(key), str))


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _WORD.match(value) else ""
