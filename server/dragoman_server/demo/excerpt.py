"""A frame of a stream, shortened to what it is about.

Every piece shown is the frame's own JSON; what is the same in every frame (ids, model, wrappers, nulls) is left out.
The same colour means the same thing in every dialect, so that the eye finds what became of what.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.jsontext import dumps, loads
from dragoman.sse import Frame

from .terminal import Line, Span, cells

_SAME_EVERYWHERE = frozenset(
    {
        "created",
        "logprobs",
        "model",
        "object",
        "obfuscation",
        "request_id",
        "service_tier",
        "signature",
        "system_fingerprint",
        "total_tokens",
    }
)
_COLOUR = (
    ("error", "red"),
    ("reasoning_content", "magenta"),
    ("thinking", "magenta"),
    ("arguments", "yellow"),
    ("partial_json", "yellow"),
    ("tool_calls", "yellow"),
    ("tool_use", "yellow"),
    ("content", "green"),
    ("text", "green"),
    ("finish_reason", "blue"),
    ("stop_reason", "blue"),
)
_LONG_ID = 14
_NAME_COLUMN = 20


def frame_line(frame: Frame, width: int) -> Line:
    """One line for one frame."""
    if frame.data is None:
        return (Span(": a sign of life", "dim"),)
    raw = frame.data.decode("utf-8", "replace")
    label = f"{frame.event:<{_NAME_COLUMN}}" if frame.event else "data: "
    try:
        payload = loads(frame.data)
    except ValueError:
        return Span(label, "dim"), Span(raw)
    if cells(label) + cells(raw) > width:
        raw = " ".join(f'"{key}":{value}' for key, value in _pieces(payload, "", frame.event)) or "{}"
    return Span(label, "cyan" if frame.event else "dim"), Span(raw, _colour(payload))


def body_text(body: Any) -> str:
    """A request's body with its long parts shown as `[…]` and `{…}`."""
    if not isinstance(body, dict):
        return dumps(body).decode()
    members = []
    for key, value in body.items():
        text = dumps(value).decode()
        if len(text) > 40 and isinstance(value, (dict, list)):
            text = "[…]" if isinstance(value, list) else "{…}"
        members.append(f'"{key}":{text}')
    return "{" + ",".join(members) + "}"


def _pieces(value: Any, parent: str, event: str) -> Iterator[tuple[str, str]]:
    """The members worth showing, with the JSON of their values."""
    if isinstance(value, list):
        for item in value:
            yield from _pieces(item, parent, event)
    if not isinstance(value, dict):
        return
    for key, member in value.items():
        if isinstance(member, (dict, list)) and member:
            yield from _pieces(member, key, event)
        elif _worth(key, member, parent, event):
            if key == "id" and len(member) > _LONG_ID:
                member = member[:_LONG_ID] + "…"
            yield key, dumps(member).decode()


def _worth(key: str, value: Any, parent: str, event: str) -> bool:
    if value is None or value == "" or value in ([], {}) or key in _SAME_EVERYWHERE:
        return False
    if key == "type":
        return value not in (event, "function", "message") and not value.endswith("_delta")
    if key == "index":
        return parent != "choices"
    if key == "id":
        return parent in ("tool_calls", "content_block")
    return not (value == 0 and key.endswith("_tokens"))


def _colour(payload: Any) -> str:
    found: set[str] = set()
    _words(payload, found)
    return next((colour for word, colour in _COLOUR if word in found), "")


def _words(value: Any, found: set[str]) -> None:
    """The keys with something in them, and the types."""
    if isinstance(value, list):
        for item in value:
            _words(item, found)
    elif isinstance(value, dict):
        for key, member in value.items():
            if key == "type":
                found.add(str(member))
            elif member not in (None, "", [], {}):
                found.add(key)
                _words(member, found)
