"""A reply that clients would misread, completed with the members of one that was written for them.

Both are of one dialect, and mean the same.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import parse_object


def completed(stated: Any, written: Any, key: str = "") -> Any:
    """Return what a server `stated`, with what was `written` in place of all that is missing, null or of another type.

    Members that are in `stated` only are kept. `key` is the name of both.
    """
    if stated is None or written is None:
        return written if stated is None else stated
    if type(stated) is not type(written):
        return written
    if type(stated) is dict:
        more = {name: completed(stated.get(name), value, name) for name, value in written.items()}
        return {**stated, **more}
    if type(stated) is list:
        return _completed_list(stated, written)
    return written if key == "arguments" and parse_object(stated) is None else stated


def _completed_list(stated: list[Any], written: list[Any]) -> list[Any]:
    """Return a list whose objects are completed in order; `written` itself if they are others.

    Objects of a type that was not written are kept.
    """
    members: list[Any] = []
    at = 0
    for member in stated:
        if at < len(written) and _is_of_type(member, written[at]):
            members.append(completed(member, written[at]))
            at += 1
        elif member is not None:
            members.append(member)
    return members if at == len(written) else written


def _is_of_type(stated: Any, written: Any) -> bool:
    if type(stated) is not dict or type(written) is not dict:
        return type(stated) is type(written)
    return stated.get("type") in (None, written.get("type"))


def has_all(value: Json, *keys: str) -> bool:
    """True if an object has these members, and none of them is null."""
    return all([value.get(key) is not None for key in keys])


def are_calls_usual(ids: list[Any], arguments: list[Any], *, cut: bool) -> bool:
    """True if each call has an id of its own, and its arguments are the text of an object, unless the reply was cut."""
    if not all([type(call_id) is str and call_id for call_id in ids]) or len(set(ids)) < len(ids):
        return False
    return all([type(text) is str and (cut or parse_object(text) is not None) for text in arguments])
