"""Excerpts of stream frames and request bodies, short enough for one column of the terminal.

Every piece shown is the frame's own JSON; members that are equal in every frame (ids, model, wrappers, nulls) are
left out. A colour means the same kind of content in every dialect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.gateway import DEFAULT_DIALECT
from dragoman.wire import SSEFrame, json_dumps, json_loads
from dragoman_server.cli.demo.terminal import Line, StyledText, cells, wrap

_SAME_EVERYWHERE = frozenset(
    {
        "annotations",
        "content_index",
        "created",
        "encrypted_content",
        "item_id",
        "logprobs",
        "model",
        "modelVersion",
        "object",
        "obfuscation",
        "request_id",
        "responseId",
        "sequence_number",
        "serviceTier",
        "service_tier",
        "signature",
        "summary_index",
        "system_fingerprint",
        "totalTokenCount",
        "total_tokens",
    }
)
_COLOUR = (
    ("error", "red"),
    ("reasoning_content", "magenta"),
    ("thought", "magenta"),
    ("functionCall", "yellow"),
    ("finishReason", "blue"),
    ("thinking", "magenta"),
    ("arguments", "yellow"),
    ("partial_json", "yellow"),
    ("tool_calls", "yellow"),
    ("tool_use", "yellow"),
    ("function_call", "yellow"),
    ("custom_tool_call", "yellow"),
    ("reasoning", "magenta"),
    ("output_text", "green"),
    ("content", "green"),
    ("text", "green"),
    ("finish_reason", "blue"),
    ("stop_reason", "blue"),
)
_EVENT_COLOUR = (
    ("failed", "red"),
    ("completed", "blue"),
    ("incomplete", "blue"),
    ("function_call_arguments", "yellow"),
    ("custom_tool_call_input", "yellow"),
    ("reasoning", "magenta"),
    ("output_text", "green"),
)
"""Colours of Responses events: the event's name determines the kind of its `delta`."""
_RESPONSE = ("status", "incomplete_details", "error", "usage")
"""Members of a Response object that neither echo the request nor repeat earlier events."""
_PREFIX = "response."
_LONG_ID = 14
_LONG_REPEAT = 16
_NAME_COLUMN = 20
_ROWS = 3
_PLACE = {"delta": -5, "type": -4, "namespace": -3, "name": -2, "status": -1, "output_index": 1}


def frame_lines(frame: SSEFrame, width: int) -> list[Line]:
    """Return the lines of one frame, `width` columns wide: one line, or up to three for a long frame."""
    if frame.data is None:
        return [(StyledText(": ping", "dim"),)]
    raw = frame.data.decode("utf-8", "replace")
    label = "data: "
    if frame.event:
        label = frame.event.replace(_PREFIX, "…", 1) if frame.event.startswith(_PREFIX) else frame.event
        label = f"{label} ".ljust(_NAME_COLUMN)
    try:
        payload = json_loads(frame.data)
    except ValueError:
        return [(StyledText(label, "dim"), StyledText(raw))]
    room = width - cells(label)
    rows = [raw]
    if cells(raw) > room:
        pieces = [f'"{key}":{value}' for key, value in _pieces(payload, "", frame.event)] or ["{}"]
        rows = _rows(pieces, room)
        if pieces[0].startswith('"delta"') and cells(pieces[0]) <= room:
            rows = [" ".join(pieces)]  # deltas are many, and the important members come first: one line, cut at the end
    style = _colour(payload, frame.event)
    first, *more = rows
    head = StyledText(label, "cyan" if frame.event else "dim")
    return [(head, StyledText(first, style)), *((StyledText(" " * len(label)), StyledText(row, style)) for row in more)]


def body_text(body: Any) -> str:
    """Return a request's body as JSON, with long members shown as `[…]` and `{…}`."""
    if not isinstance(body, dict):
        return json_dumps(body).decode()
    members = []
    for key, value in body.items():
        text = json_dumps(value).decode()
        if key == "tools" and isinstance(value, list):
            text = f"[{','.join(map(_tool, value))}]"
        elif key == DEFAULT_DIALECT.facts.conversation and isinstance(value, list) and 1 < len(value) < 5:
            text = f"[{','.join(map(_turn, value))}]"
        elif len(text) > 40 and isinstance(value, (dict, list)):
            text = "[…]" if isinstance(value, list) else "{…}"
        members.append(f'"{key}":{text}')
    return "{" + ",".join(members) + "}"


def _turn(turn: Any) -> str:
    return f'{{"role":{json_dumps(turn.get("role")).decode()},…}}'


def _rows(pieces: list[str], room: int) -> list[str]:
    """Return the pieces in lines; a piece is not broken unless it is longer than a line."""
    if max(map(cells, pieces)) > room:
        return wrap(" ".join(pieces), room, _ROWS)
    rows = [pieces[0]]
    for piece in pieces[1:]:
        if cells(rows[-1]) + 1 + cells(piece) > room and len(rows) < _ROWS:
            rows.append(piece)
        else:
            rows[-1] += f" {piece}"
    return rows


def _tool(tool: Any) -> str:
    """Return a tool's type and name as JSON, with the members of a namespace."""
    members = []
    for key, value in tool.items():
        if key == "tools":
            members.append(f'"tools":[{",".join(map(_tool, value))}]')
        elif isinstance(value, dict) and "name" in value:
            members.append(f'"{key}":{_tool(value)}')
        elif key == "name" or (key == "type" and value != "function"):
            members.append(f'"{key}":{json_dumps(value).decode()}')
    return "{" + ",".join([*members, "…"]) + "}"


def _pieces(value: Any, parent: str, event: str) -> Iterator[tuple[str, str]]:
    """Yield the members to show, each with the JSON of its value."""
    if isinstance(value, list):
        for item in value:
            yield from _pieces(item, parent, event)
    if not isinstance(value, dict):
        return
    if parent == "response":
        value = {key: value[key] for key in _RESPONSE if key in value}
    elif parent == "item" and event.endswith(".done"):
        value = {key: member for key, member in value.items() if key != "content"}  # repeats its events
    for key, member in sorted(value.items(), key=_importance):
        if isinstance(member, (dict, list)) and member:
            yield from _pieces(member, key, event)
        elif _is_shown(key, member, parent, event):
            if key in ("id", "call_id", "thoughtSignature"):
                member = _head(member, _LONG_ID)
            elif event.endswith(".done") and isinstance(member, str):
                member = _head(member, _LONG_REPEAT)
            yield key, json_dumps(member).decode()


def _importance(member: tuple[str, Any]) -> int:
    """Return the sort key of a member: names precede ids and the rest, so that they are not cut off."""
    key, value = member
    return 0 if isinstance(value, dict) else _PLACE.get(key, 0)


def _head(text: str, size: int) -> str:
    return text if len(text) <= size else text[:size] + "…"


def _is_shown(key: str, value: Any, parent: str, event: str) -> bool:
    if value is None or value == "" or value in ([], {}) or key in _SAME_EVERYWHERE:
        return False
    if key == "type":
        return value not in (event, "function", "message") and not value.endswith("_delta")
    if key == "index":
        return parent not in ("choices", "candidates")
    if key == "id":
        return parent in ("tool_calls", "content_block")
    if key == "call_id":
        return event.endswith(".added")
    if key == "role" and parent == "content":  # of Gemini: each chunk has it
        return False
    if key in ("status", "role") and parent == "item":
        return event.endswith(".done") is (key == "status")
    return not (value == 0 and key.endswith("_tokens"))


def _colour(payload: Any, event: str) -> str:
    if event.startswith(_PREFIX):
        colour = next((colour for word, colour in _EVENT_COLOUR if event.startswith(word, len(_PREFIX))), None)
        if colour is not None:
            return colour
        payload = payload.get("item", payload.get("part", {}))
    found: set[str] = set()
    _words(payload, found)
    return next((colour for word, colour in _COLOUR if word in found), "")


def _words(value: Any, found: set[str]) -> None:
    """Collect the keys with a value, and the values of `type`."""
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
