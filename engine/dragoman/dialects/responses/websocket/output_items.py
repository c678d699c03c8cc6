"""The items of a response, collected from the events of its stream, for the turn that continues it."""

from __future__ import annotations

from typing import Any, Final

from dragoman.wire.json_codec import dumps, loads_exact

_CREATED: Final = "response.created"
_ITEM_DONE: Final = "response.output_item.done"
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_READ: Final = frozenset({_CREATED, _ITEM_DONE, "", *_ENDS})
"""The events that are read. Some servers send no event names."""
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})


class OutputItems:
    """Collects the output items of one response, up to `limit` bytes.

    `response_id` is its id; "" while it is unknown. `complete` is True once the response has ended so that it can be
    continued: not in an error, and within the limit.
    """

    __slots__ = ("_items", "_left", "complete", "response_id")

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._items: list[bytes] = []
        self.response_id = ""
        self.complete = False

    def add(self, event: str, data: bytes) -> bool:
        """Process one event of the stream: its SSE event name, "" if it has none, and its data.

        Return True for the event that makes the response `complete`.
        """
        if event not in _READ or self.complete:
            return False
        if event in _ENDS and self.response_id and self._items:
            self.complete = self._left >= 0  # the snapshot repeats what is known
            return self.complete
        try:
            payload = loads_exact(data)
        except ValueError:
            return False
        if type(payload) is not dict:
            return False
        kind = event or payload.get("type")
        if kind == _ITEM_DONE:
            self._add_item(payload.get("item"))
        elif kind == _CREATED or kind in _ENDS:
            self._add_response(payload.get("response"), kind in _ENDS)
        return self.complete

    def _add_item(self, item: Any) -> None:
        if type(item) is not dict or (item.get("type") in _CALLS and item.get("status") == "incomplete"):
            return
        data = dumps(item)
        self._left -= len(data)
        if self._left < 0:
            self._items.clear()
        else:
            self._items.append(data)

    def _add_response(self, response: Any, ended: bool) -> None:
        if type(response) is not dict:
            return
        if type(found := response.get("id")) is str:
            self.response_id = found
        if ended:
            output = response.get("output")
            if not self._items and type(output) is list:
                for item in output:
                    self._add_item(item)
            self.complete = self._left >= 0 and bool(self.response_id)

    def join(self) -> bytes:
        """Return the items as JSON, with commas between them."""
        return b",".join(self._items)
