"""References to stored items in the input of a request: `{"type": "item_reference", "id": …}`.

The id of an item contains that of its response (`ItemFactory`, `shown_input`), so no index is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.errors.redact import quote
from dragoman.errors import ClientRequestError
from dragoman.threads.item_list import shown_input
from dragoman.threads.node import Node

_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{32})_?\d+\Z")


def references(payload: Json) -> dict[int, str]:
    """Returns the references in a request's `input`: their places, and the ids of the items."""
    given = payload.get("input")
    if type(given) is not list:
        return {}
    return {place: item["id"] for place, item in enumerate(given) if _is_reference(item)}


def response_of(item_id: str) -> str | None:
    """Returns the id of the response that an item belongs to, or None for an id of another form."""
    found = _ITEM_ID.match(item_id)
    return f"resp_{found[1]}" if found is not None else None


def find_item(node: Node, item_id: str) -> Any:
    """Returns an item of a response, as upstreams get it, or None."""
    for shown, item in zip(shown_input(node), node.input_items(), strict=True):
        if shown["id"] == item_id:
            return item
    return next((item for item in node.output_items() if item.get("id") == item_id), None)


def with_items(payload: Json, places: Mapping[int, str], items: Mapping[str, Any]) -> Json:
    """Returns the request with these items in place of the references. Raises ClientRequestError for one without."""
    given = list(payload["input"])
    for place, item_id in places.items():
        item = items.get(item_id)
        if item is None:
            message = f"there is no stored item of the id '{quote(item_id)}'; send the item itself"
            raise ClientRequestError(("input", place, "id"), message)
        given[place] = item
    return {**payload, "input": given}


def _is_reference(item: Any) -> bool:
    # The SDKs may leave out the type.
    return (
        type(item) is dict and type(item.get("id")) is str and (item.get("type") == "item_reference" or len(item) == 1)
    )
