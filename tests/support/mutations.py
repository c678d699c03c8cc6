"""Faults of a stream or a body on its way: frames lost, doubled, swapped, bytes flipped, fields gone."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from hypothesis import strategies as st

_FRAME = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r)", re.DOTALL)
_DATA = re.compile(rb"(data: ?)([^\r\n]*)")

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    7,
    1.5,
    10**30,
    "",
    " ",
    "x",
    "\ud83d",
    "[DONE]",
    [],
    [None],
    ["x"],
    [[]],
    {},
    {"type": "x"},
    {"type": None},
    {"type": "text"},
    {"text": 1},
)
"""Stand where something else is expected. Half a surrogate pair is legal JSON when it is escaped."""

odd_values = st.sampled_from(ODD_VALUES)


def frames_of(data: bytes) -> list[bytes]:
    """The raw frames with their blank lines, and what is left behind the last one."""
    frames = _FRAME.findall(data)
    rest = data[sum(map(len, frames)) :]
    return [*frames, rest] if rest else frames


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each (container, key or index) within a JSON value, parents first."""
    out: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        current = stack.pop()
        keys: Any = list(current) if isinstance(current, dict) else range(len(current))
        for key in keys:
            out.append((current, key))
            if isinstance(current[key], dict | list):
                stack.append(current[key])
    return out


@st.composite
def mutated_json(draw: st.DrawFn, value: Any, *, most: int = 3) -> Any:
    """A JSON object or array with one to `most` of its members removed, retyped, doubled, swapped or renamed."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, most))):
        found = places(value)
        if not found:
            break
        container, key = found[draw(st.integers(0, len(found) - 1))]
        match draw(st.sampled_from(("remove", "retype", "retype", "double", "swap", "rename"))):
            case "remove":
                del container[key]
            case "retype":
                container[key] = copy.deepcopy(draw(odd_values))
            case "double" if isinstance(container, list):
                container.insert(key, copy.deepcopy(container[key]))
            case "rename" if isinstance(container, dict):
                container["novelty"] = container.pop(key)
            case _:
                other, at = found[draw(st.integers(0, len(found) - 1))]
                container[key] = copy.deepcopy(other[at])
    return value


@st.composite
def _frame_with_odd_json(draw: st.DrawFn, frame: bytes) -> bytes:
    found = _DATA.search(frame)
    if found is None:
        return frame
    try:
        payload = json.loads(found[2])
    except ValueError:
        return frame
    if not isinstance(payload, dict):
        return frame
    odd = json.dumps(draw(mutated_json(payload, most=2))).encode()
    return frame[: found.start(2)] + odd + frame[found.end(2) :]


@st.composite
def mutated_streams(draw: st.DrawFn, data: bytes) -> bytes:
    """A stream with one to three things wrong with it."""
    for _ in range(draw(st.integers(1, 3))):
        frames = frames_of(data)
        if not frames:
            break
        at = draw(st.integers(0, len(frames) - 1))
        kind = draw(
            st.sampled_from(("json", "json", "json", "drop", "double", "swap", "late", "cut", "flip", "lose", "noise"))
        )
        match kind:
            case "json":
                frames[at] = draw(_frame_with_odd_json(frames[at]))
            case "drop":
                del frames[at]
            case "double":
                frames.insert(at, frames[at])
            case "swap":
                other = draw(st.integers(0, len(frames) - 1))
                frames[at], frames[other] = frames[other], frames[at]
            case "late":
                frames.append(frames.pop(at))
            case "cut":
                frames = [data[: draw(st.integers(0, len(data)))]]
            case "noise":
                frames.insert(at, draw(st.binary(max_size=20)))
            case _:
                place = draw(st.integers(0, len(data) - 1))
                piece = bytes([draw(st.integers(0, 255))]) if kind == "flip" else b""
                frames = [data[:place] + piece + data[place + 1 :]]
        data = b"".join(frames)
    return data
