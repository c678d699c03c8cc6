"""Items of a stream that were never done, taken from its last snapshot, and those that are missing there.

SGLang's router sends no `response.output_item.done`. Agents act on that event only: without it a turn of Codex ends
silently, without a text and without its calls (responses §9). ChatGPT's backend and some gateways leave the output of
the last snapshot empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read_items import CALLS, is_cut
from dragoman.wire.json_codec import dumps
from dragoman.wire.json_edit import find_member
from dragoman.wire.sse import Frame, encode

RUN: Final = frozenset({*CALLS, "shell_call", "local_shell_call", "apply_patch_call", "computer_call"})
"""Calls that agents run."""
_EMPTY: Final = re.compile(rb"\[\s*\]|null")
_ACTED_ON: Final = RUN | {"message", "reasoning"}
"""Items that agents show or run. They know others, which are hosted, from the terminal event."""


class MissingItem(NamedTuple):
    """An item that was not done in the stream. `place` is its `output_index`; `announced` is True if it was added."""

    place: int
    item: Json
    announced: bool


def item_identity(item: object) -> str | None:
    """Return what an item is known by in all events: the id of its call, else its own; None without both."""
    if type(item) is not dict:
        return None
    identity = item.get("call_id") or item.get("id")
    return identity if type(identity) is str else None


def find_missing(started: Mapping[int, object], done: Mapping[int, object], output: object) -> list[MissingItem]:
    """Return the items of the last snapshot that are whole, and were not done.

    Args:
        started: index → type of the items that were added and not done.
        done: index → `item_identity` of the items that are done.
        output: the items of the snapshot.
    """
    if type(output) is not list:
        return []
    known = sorted({*started, *done})
    # A position is an `output_index`, except with servers that skip some indexes.
    skips = bool(known) and known[-1] >= len(output)
    indexes = known if len(known) == len(output) else range(len(output))
    identities = {identity for identity in done.values() if identity is not None}
    missing = []
    for index, item in zip(indexes, output, strict=True):
        if index in done or type(item) is not dict or is_cut(item, cut=False) or item_identity(item) in identities:
            continue
        kind = item.get("type")
        if index in started:
            if kind == started[index]:
                missing.append(MissingItem(index, item, True))
        elif not skips and type(kind) is str and kind in _ACTED_ON:
            missing.append(MissingItem(index, item, False))
    return missing


def missing_frames(missing: list[MissingItem], number: int) -> tuple[list[bytes], int]:
    """Return the events that end the missing items, from sequence number `number` on, and the number after them."""
    frames = []
    for place, item, announced in missing:
        steps = ("done",) if announced else ("added", "done")
        for step in steps:
            name = f"response.output_item.{step}"
            shown = item if step == "done" else {**item, "status": "in_progress"}
            event = {"type": name, "sequence_number": number, "output_index": place, "item": shown}
            frames.append(encode(Frame(name, dumps(event))))
            number += 1
    return frames, number


def with_output(data: bytes, items: list[bytes]) -> bytes | None:
    """Return the terminal event `data`, whose response has no items, with these; None if it repeats its keys."""
    output, response = b"[%b]" % b",".join(items), find_member(data, "response")
    if response is None or not data.startswith(b"{", response):
        return None
    at = find_member(data[response:], "output")
    if at is None:
        at = response + 1
        return data[:at] + b'"output":' + output + b"," + data[at:]
    empty = _EMPTY.match(data, response + at)
    return None if empty is None else data[: empty.start()] + output + data[empty.end() :]
