"""Items of `input` that no other dialect has: each is refused with what to do instead.

Before the current user turn they become text, unless they refer to another item.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import required
from dragoman.errors import Path, Unsupported

_APPROVAL: Final = "this upstream does not connect to MCP servers; leave the item out of `input`"
_PROGRAM: Final = "this upstream writes no programs that call tools; leave the item out of `input`"
_UNSUPPORTED: Final[dict[str, str]] = {
    **dict.fromkeys(("mcp_approval_request", "mcp_approval_response"), _APPROVAL),
    **dict.fromkeys(("program", "program_output"), _PROGRAM),
    "compaction": "the compacted history can be read by the provider that made it only; send the items it stands for",
    "compaction_trigger": "it must be the last item, and only a gateway compacts; else ask for a summary in a message",
    "item_reference": (
        "no items are stored here; send the item itself, or set state.kind in the gateway's configuration "
        '(several workers need a shared store: "sqlite", "redis" or "postgresql")'
    ),
}


def reject_item(item: Json, at: Path) -> NoReturn:
    """Raise ClientRequestError for an item that no other dialect has, or that has no type."""
    kind = item.get("type")
    if kind is None and type(item.get("id")) is str:  # the SDKs send a reference without its type
        kind = "item_reference"
    if type(kind) is not str:
        required(item, "type", str, at)
    why = _UNSUPPORTED.get(str(kind)) or "no other dialect has such an item; leave it out of `input`"
    raise Unsupported((*at, "type") if "type" in item else at, f"an item of type {kind!r} cannot be sent: {why}")


def is_reference(item: Any) -> bool:
    """True if the item only names another one. Without that one the history would be incomplete."""
    if type(item) is not dict:
        return False
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and type(item.get("id")) is str and "role" not in item)


def current_turn(items: list[Any]) -> int:
    """Return the index at which the current user turn begins: the messages that are not the assistant's at the end."""
    number = len(items)
    while number and _is_asked(items[number - 1]):
        number -= 1
    return number if number < len(items) else number - 1


def _is_asked(item: Any) -> bool:
    """True for a message that is not the assistant's."""
    if type(item) is not dict or item.get("type", "message") != "message":
        return False
    return bool(item.get("role", "assistant") != "assistant")
