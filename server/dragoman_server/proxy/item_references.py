"""References to stored items in a request: each response that is referred to is read once, and one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from dragoman import ClientRequestError
from dragoman.errors import LimitExceeded
from dragoman.threads import Node, find_items, item_not_stored, response_of, with_items
from dragoman.wire import Json, json_dumps
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.stored_history import READ_MAX
from dragoman_server.proxy.stored_responses import StoredResponses


async def with_stored_items(
    stored: StoredResponses, owner: str, payload: Json, places: Mapping[int, str], limit: int
) -> Json:
    """Return a request with the items of its references in their `places`.

    The bytes of the items are added first, each as often as it is referred to: LimitExceeded above `limit`. Raises
    other DragomanErrors too.
    """
    times = Counter(places.values())
    items: dict[str, Any] = {}
    read = size = 0
    for response_id, wanted in _by_response(places).items():
        node = await stored.get(owner, response_id) if response_id else None
        if node is not None:
            read += node.size
            if read > READ_MAX:
                message = f"refers to responses of more than {READ_MAX} bytes in all: send the items themselves"
                raise ClientRequestError("input", message)
            async with stored.history.reading(owner, node.size):
                found = await compute(node.size, partial(_found, node, wanted), owner)
            for item_id, (item, length) in found.items():
                size += length * times[item_id]
                items[item_id] = item
        for item_id, place in wanted.items():
            if item_id not in items:
                raise item_not_stored(place, item_id)
        if size > limit:
            raise _too_long(limit)
    return with_items(payload, places, items)


def _by_response(places: Mapping[int, str]) -> dict[str | None, dict[str, int]]:
    """Return the first place of each item, by the id of its response; None for an id of another form."""
    found: dict[str | None, dict[str, int]] = {}
    for place, item_id in places.items():
        found.setdefault(response_of(item_id), {}).setdefault(item_id, place)
    return found


def _found(node: Node, wanted: Collection[str]) -> dict[str, tuple[Any, int]]:
    """Return these items of a response, each with the bytes of its JSON."""
    return {item_id: (item, len(json_dumps(item))) for item_id, item in find_items(node, wanted).items()}


def _too_long(limit: int) -> LimitExceeded:
    error = LimitExceeded("request_body", limit, upstream=False)
    error.failure.message = f"input: the items referred to exceed the limit request_body = {limit}: refer to fewer"
    error.failure.param = "input"
    return error
