"""Merges consecutive user messages that result from writing a request (mapping §13).

For servers that reject two in a row, turns are merged before (`policies.alternate_roles`). A writer may then drop or
move what was between two of them, such as a late instruction or another model's reasoning, or add media of results.
"""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses


def join_users(messages: list[Json], text: str, at: Path, losses: Losses) -> list[Json]:
    """Return `messages` with consecutive user messages merged.

    `text` is the type of a text part, `at` the path for losses. Raises Unsupported for any change if losses are
    rejected.
    """
    kept: list[Json] = []
    joined = 0
    merged: Json | None = None
    for message in messages:
        last = kept[-1] if kept else None
        if last is None or message.get("role") != "user" or last.get("role") != "user":
            kept.append(message)
            continue
        joined += 1
        if last is not merged:  # the parts of one that joined others already are not copied again
            kept[-1] = merged = {**last, "content": list(_parts(last, text))}
        merged["content"] += _parts(message, text)
        if merged.get("name") != message.get("name"):
            losses.add(LossCode.PARTICIPANT_NAME, at, "a message now has two authors")
            merged.pop("name", None)
    if joined:
        losses.add(LossCode.TURNS_MERGED, at, f"{joined} of the user's joined those before them")
    return kept


def _parts(message: Json, text: str) -> list[Json]:
    content = message["content"]
    return [{"type": text, "text": content}] if type(content) is str else content
