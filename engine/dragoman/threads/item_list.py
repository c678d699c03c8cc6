"""The list of the input items of a stored response, in pages (`GET /v1/responses/{id}/input_items`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.errors import ClientRequestError
from dragoman.short_repr import changed_fields
from dragoman.threads.node import Node

LIMIT_MAX: Final = 100
_LIMIT: Final = 20
_ORDERS: Final = ("asc", "desc")
_PREFIXES: Final = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
    "compaction": "cmp_",
}


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One page of a list: `limit` items, those after the item `after`, in `order`."""

    __repr__ = changed_fields

    limit: int = _LIMIT
    order: str = "desc"
    after: str | None = None

    @classmethod
    def read(cls, query: Mapping[str, str]) -> ItemPage:
        """Return the page that a query names. Raises ClientRequestError."""
        limit = query.get("limit", str(_LIMIT))
        if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= LIMIT_MAX):
            raise ClientRequestError("limit", f"expected a number from 1 to {LIMIT_MAX}")
        order = query.get("order", "desc")
        if order not in _ORDERS:
            raise ClientRequestError("order", "expected asc or desc")
        return cls(int(limit), order, query.get("after") or None)


def page_of(items: list[Json], page: ItemPage) -> Json:
    """Return one page of a list of items, which is oldest first.

    Raises ClientRequestError for an `after` that is not among them.
    """
    items = items.copy()
    if page.order == "desc":
        items.reverse()
    if page.after is not None:
        places = [number for number, item in enumerate(items) if item["id"] == page.after]
        if not places:
            raise after_not_found()
        items = items[places[0] + 1 :]
    return page_from(items, page.limit)


def page_from(items: Sequence[Json], limit: int) -> Json:
    """Return the first `limit` of these items as a page."""
    shown = items[:limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(items) > len(shown),
    }


def after_not_found() -> ClientRequestError:
    """Return the error for an `after` that names no item of the list."""
    return ClientRequestError("after", "there is no item of this id in the list")


def input_items(path: Sequence[Node]) -> list[Json]:
    """Return these items, each with its type and a unique id, oldest first."""
    found: list[Json] = []
    for node in path:
        found += shown_input(node)
        if node is not path[-1]:
            found += node.output_items()
    return found


def shown_input(node: Node) -> list[Json]:
    """Return the items of a node's input in the full form of the API, each with a unique id."""
    return shown_items(node.input_items(), node.id)


def shown_items(items: Sequence[Json], node_id: str) -> list[Json]:
    """Return items that a client sent in the full form of the API, each with an id that contains that of a node."""
    found: list[Json] = []
    for item_id, item in zip(item_ids(items, node_id), items, strict=True):
        item = {**item, "type": item.get("type") or "message", "id": item_id}
        found.append(_message(item) if item["type"] == "message" else item)
    return found


def item_ids(items: Sequence[Json], node_id: str) -> list[str]:
    """Return the ids of the items that a client sent with a node, which contain the node's."""
    base = node_id.partition("_")[2]
    kinds = (item.get("type") or "message" for item in items)
    return [f"{_PREFIXES.get(kind, 'item_')}{base}_{number}" for number, kind in enumerate(kinds)]


def _message(item: Json) -> Json:
    """Return a message in the full form of the API: a list of parts, and a status."""
    content: Any = item["content"]
    if type(content) is str:
        if item["role"] == "assistant":
            content = [{"type": "output_text", "text": content, "annotations": []}]
        else:
            content = [{"type": "input_text", "text": content}]
    return {"status": "completed", **item, "content": content}
