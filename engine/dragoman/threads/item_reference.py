"""References to stored items in the input of a request: `{"type": "item_reference", "id": …}`.

The id of an item contains that of its response (`ItemFactory`, `shown_input`), so no index is needed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.errors.redact import quote
from dragoman.errors import ClientRequestError
from dragoman.threads.item_list import item_ids
from dragoman.threads.node import Node

REFERENCES_MAX: Final = 10_000
"""Most references of a request."""
_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{32})(_?)\d+\Z")
_FIELDS_MAX = 2
"""Fields of a reference: its id, and its type, which the SDKs may leave out."""


def references(payload: Json) -> dict[int, str]:
    """Return the references in a request's `input`: their places, and the ids of the items.

    Raises ClientRequestError for more than `REFERENCES_MAX`.
    """
    given = payload.get("input")
    if type(given) is not list:
        return {}
    try:
        if min(map(len, given), default=0) > _FIELDS_MAX:  # a request may have thousands of items
            return {}
    except TypeError:  # an item that is no object is rejected when the request is read
        pass
    places = {place: item["id"] for place, item in enumerate(given) if _is_reference(item)}
    if len(places) > REFERENCES_MAX:
        message = f"has {len(places)} references to items; at most {REFERENCES_MAX} are possible: send items themselves"
        raise ClientRequestError("input", message)
    return places


def response_of(item_id: str) -> str | None:
    """Return the id of the response that an item belongs to, or None for an id of another form."""
    found = _ITEM_ID.match(item_id)
    return f"resp_{found[1]}" if found is not None else None


def is_sent_item(item_id: str) -> bool:
    """True if an item of this id was sent by a client, False if it is of a reply."""
    found = _ITEM_ID.match(item_id)
    return found is not None and found[2] == "_"


def find_item(node: Node, item_id: str) -> Any:
    """Return an item of a response, as upstreams get it, or None."""
    return find_items(node, (item_id,)).get(item_id)


def find_items(node: Node, wanted: Collection[str]) -> dict[str, Any]:
    """Return those of these items that a response has, as upstreams get them. Each part is parsed once at most."""
    found: dict[str, Any] = {}
    if any(map(is_sent_item, wanted)):
        items = node.input_items()
        pairs = zip(item_ids(items, node.id), items, strict=True)
        found = {item_id: item for item_id, item in pairs if item_id in wanted}
    if len(found) < len(wanted):
        for item in node.output_items():
            if (item_id := item.get("id")) in wanted:
                found.setdefault(item_id, item)
    return found


def with_items(payload: Json, places: Mapping[int, str], items: Mapping[str, Any]) -> Json:
    """Return the request with these items in place of the references. Raises ClientRequestError for one without."""
    given = list(payload["input"])
    for place, item_id in places.items():
        if items.get(item_id) is None:
            raise item_not_stored(place, item_id)
        given[place] = items[item_id]
    return {**payload, "input": given}


def item_not_stored(place: int, item_id: str) -> ClientRequestError:
    """Return the error for a reference to an item that is not stored. `place` is its own in the `input`."""
    message = f"there is no stored item of the id '{quote(item_id)}'; send the item itself"
    return ClientRequestError(("input", place, "id"), message)


def _is_reference(item: Any) -> bool:
    if type(item) is not dict or len(item) > _FIELDS_MAX:
        return False
    return type(item.get("id")) is str and (item.get("type") == "item_reference" or len(item) == 1)
