"""Mutations that keep the structure of an input: of a JSON tree, and of a stream whose events hold JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 1.5, -0.0, 1e308, 10**30, 2**63, "", " ", "x", "\ud83d", "\0", "a\u2028b", "[DONE]"),
    *([], [None], ["x"], [[]], {}, {"type": "x"}, {"type": None}, {"type": "text"}, {"text": 1}, {"": {}}),
)
"""Stand where something else is expected. Half a surrogate pair is legal JSON when it is escaped."""
_FRAME = re.compile(rb"(?:[^\r\n]+(?:\r\n|\n|\r|\Z))+(?:\r\n|\n|\r)?|[\r\n]+")
_DATA = re.compile(rb"(data: ?)([^\r\n]*)")
_EXTRA_FRAMES = (
    *(b": c\n\n", b"\n", b"data: [DONE]\n\n", b"data: {\n\n", b"data: [1]\n\n", b"id: 7\nretry: 10\n\n", b"data:\n\n"),
    *(b"\xef\xbb\xbf", b"da\xffta: {}\n\n", b"data: {}\n\n", b'{"error":{"message":"no"}}\n\n', b"event: error\n"),
    b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n',
    b'data: {"error":{"message":"no","type":"server_error","code":500}}\n\n',
)


class Trees:
    """Changes JSON values: members are removed, retyped, doubled, swapped, renamed, or taken from other values.

    Args:
        words: Names that stand for others.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def changed(self, value: Any, other: Any, random: Random) -> Any:
        """Return an object or array with one to four changes; `other` gives members."""
        value = deepcopy(value)
        for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
            places = _places(value)
            if not places:
                return deepcopy(other)
            holder, key = random.choice(places)
            self._change(holder, key, places, other, random)
        return value

    def _change(self, holder: Any, key: Any, places: list[tuple[Any, Any]], other: Any, random: Random) -> None:
        match random.choice(("remove", "retype", "word", "edit", "edit", "double", "rename", "swap", "take", "add")):
            case "remove":
                del holder[key]
            case "retype":
                holder[key] = deepcopy(random.choice(ODD_VALUES))
            case "word":
                holder[key] = random.choice(self._words)
            case "double" if isinstance(holder, list):
                holder.insert(key, deepcopy(holder[key]))
            case "rename" if isinstance(holder, dict):
                holder[random.choice(self._words)] = holder.pop(key)
            case "swap":
                giver, at = random.choice(places)
                holder[key] = deepcopy(giver[at])
            case "take" if taken := _places(other):
                giver, at = random.choice(taken)
                _put(holder, at if isinstance(at, str) else key, deepcopy(giver[at]))
            case "add":
                _put(holder, random.choice(self._words), deepcopy(random.choice(ODD_VALUES)))
            case _:
                holder[key] = _edited(holder[key], random)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return each holder and key or index within a value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict | list):
            for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
                found.append((holder, key))
                waiting.append(holder[key])
    return found


def _put(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, dict):
        holder[str(key)] = value
    else:
        holder.append(value)


def _edited(value: Any, random: Random) -> Any:
    """Return a value of the same type that differs a little."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return random.choice((-value, value + 1, value - 1, 0, str(value)))
    if isinstance(value, str):
        at = random.randrange(len(value) + 1)
        return random.choice(
            (value[:at], value[at:], value + value, value[:at] + random.choice('é😀"\\\n\0 ') + value[at:])
        )
    if isinstance(value, list):
        return random.choice((value[::-1], value[:1], value + value, {"0": value}))
    return [value]


def written(value: Any, random: Random) -> bytes:
    """Return JSON in one of the forms that senders use."""
    plain = random.randrange(2) == 0
    text = json.dumps(value, ensure_ascii=plain, separators=(",", ":") if random.randrange(3) else (", ", ": "))
    return text.encode("utf-8", "surrogatepass")


def changed_json(trees: Trees, data: bytes, other: bytes, random: Random) -> bytes | None:
    """Return a JSON body with changes; None for bytes that are not JSON."""
    try:
        return written(trees.changed(json.loads(data), json.loads(other), random), random)
    except (ValueError, RecursionError):
        return None


def changed_stream(trees: Trees, data: bytes, other: bytes, random: Random) -> bytes | None:
    """Return a stream with changes: of the JSON in an event, or of the events and their order."""
    frames, others = _FRAME.findall(data), _FRAME.findall(other)
    if not frames or not others:
        return None
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(frames)) if frames else 0
        match random.choice(("json", "json", "json", "json", "drop", "double", "swap", "late", "cut", "take", "extra")):
            case "json" if frames:
                frames[at] = _changed_frame(trees, frames[at], random.choice(others), random)
            case "drop" if frames:
                del frames[at]
            case "double" if frames:
                frames.insert(at, frames[at])
            case "swap" if frames:
                place = random.randrange(len(frames))
                frames[at], frames[place] = frames[place], frames[at]
            case "late" if frames:
                frames.append(frames.pop(at))
            case "cut":
                del frames[at + 1 :]
            case "take":
                begin = random.randrange(len(others))
                frames[at:at] = others[begin : begin + random.choice((1, 1, 2, 9))]
            case _:
                frames.insert(at, random.choice(_EXTRA_FRAMES))
    end = random.choice((b"\n",) * 12 + (b"\r\n", b"\r"))
    joined = b"".join(frames)
    return joined if end == b"\n" else joined.replace(b"\r\n", b"\n").replace(b"\n", end)


def _changed_frame(trees: Trees, frame: bytes, other: bytes, random: Random) -> bytes:
    mine, theirs = _DATA.search(frame), _DATA.search(other)
    if mine is None:
        return frame
    try:
        value, given = json.loads(mine[2]), json.loads(theirs[2]) if theirs is not None else {}
    except (ValueError, RecursionError):
        return frame
    return frame[: mine.start(2)] + written(trees.changed(value, given, random), random) + frame[mine.end(2) :]
