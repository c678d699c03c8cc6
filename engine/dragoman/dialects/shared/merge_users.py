"""The user's messages that come to stand beside each other while a request is written (mapping §13).

Servers that refuse two in a row get turns that are put together before (`policies.alternation`). What a writer then
moves from between two of them or leaves out, such as a late instruction or another model's reasoning, and the media
that it moves behind the results, make further neighbours.
"""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses


def join_users(messages: list[Json], text: str, at: Path, losses: Losses) -> list[Json]:
    """`messages` with each run of the user's as one; `text` is the type of a text part, `at` where the client had
    them. Raises `Unsupported` for any change if losses are refused."""
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
