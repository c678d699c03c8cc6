"""The part of a forwarded Responses stream that the gateway's own frames repeat: first snapshot, finished items."""

from __future__ import annotations

from typing import Any, Final

from orjson import Fragment

from dragoman.canonical.request import Json
from dragoman.dialects.responses.errors import response_error
from dragoman.dialects.responses.reply.response_object import ResponseObject
from dragoman.errors import Failure
from dragoman.knobs import Knobs
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps, loads

_MOST: Final = 256 * 1024
"""Bytes of the items, and bytes of the snapshot. A longer snapshot is kept without the fields of `_LONG`."""
_LONG: Final[Json] = {
    "instructions": None,
    "tools": [],
    "metadata": {},
    "text": {"format": {"type": "text"}},
    "prompt": None,
}
"""The fields of the request that may be long, with short values."""

# fmt: off
_ADDED: Final = (
    "id", "object", "created_at", "model", "status", "output", "parallel_tool_calls", "tool_choice", "tools", "error",
    "incomplete_details", "instructions", "metadata", "temperature", "top_p", "usage",
)
# fmt: on
"""Keys that OpenAI's schema requires, added to a first snapshot that lacks them. Other keys stay as the server sent
them, since a snapshot must not change within a stream."""


class SentResponse:
    """The part of one response that the client has.

    The SDK rejects an error frame whose id is not that of the first snapshot. Everything is kept for the
    length of the stream, as bytes: a third of the size of parsed objects.
    """

    __slots__ = ("_budget", "_items", "id", "snapshot")

    def __init__(self) -> None:
        self.snapshot: bytes | None = None
        """The first snapshot. None before the first event; empty if that has none, or one that is too long."""
        self._items: list[bytes] | None = None
        self._budget = _MOST
        self.id: str | None = None
        """The id in the first snapshot."""

    def begin(self, response: object) -> Json | None:
        """Record the first event, and return its snapshot. None if it has none, or another has been kept."""
        if type(response) is not dict or self.snapshot:
            self.snapshot = self.snapshot or b""
            return None
        if type(response_id := response.get("id")) is str:
            self.id = response_id
        kept = {**response, "output": []}
        encoded = dumps(kept)
        if len(encoded) > _MOST:
            encoded = dumps({**kept, **{key: short for key, short in _LONG.items() if key in kept}})
        # A copy: the serializer's buffer is several times as large.
        self.snapshot = bytes(memoryview(encoded)) if len(encoded) <= _MOST else b""
        return response

    def undo_empty(self) -> None:
        """Undo `begin` with an event that is not forwarded, if it had neither a snapshot nor an id."""
        if not self.snapshot and self.id is None:
            self.snapshot = None

    def add(self, item: object) -> None:
        """Keep a finished item. After the first that exceeds the budget no more are kept."""
        if type(item) is not dict or self._budget <= 0:
            return
        encoded = dumps(item)
        self._budget -= len(encoded)
        if self._budget > 0:
            if self._items is None:
                self._items = []
            self._items.append(bytes(memoryview(encoded)))  # a copy, as above

    def items(self, count: int) -> list[bytes] | None:
        """Return the JSON of all items, of which there are `count`. None without items, or if not all are kept."""
        return self._items if self._items is not None and len(self._items) == count else None

    def events(self, indexes: list[int]) -> list[Json]:
        """Return the events that bring a reader to this point. `indexes` are those of the items, as they ended."""
        if self.snapshot is None:
            return []
        response = loads(self.snapshot) if self.snapshot else {"id": self.id}
        events: list[Json] = [{"type": "response.created", "response": response}]
        for index, item in zip(indexes, self._items or (), strict=False):
            held = {"output_index": index, "item": Fragment(item)}
            events += [{"type": f"response.output_item.{step}", **held} for step in ("added", "done")]
        return events

    def failed(self, failure: Failure, knobs: Knobs, request_id: str | None) -> dict[str, Any]:
        """Return the response with an error, as the last event has it."""
        error = response_error(failure, knobs)
        response = unsent_response(request_id).ended("failed", [], error=error)
        if self.snapshot:
            added = {key: response[key] for key in _ADDED}
            response = {**added, **loads(self.snapshot), "status": "failed", "error": error}
        response["output"] = [Fragment(item) for item in self._items or ()]
        return response


def unsent_response(request_id: str | None) -> ResponseObject:
    """Return a response of the gateway's own, for a stream of which nothing was forwarded."""
    return ResponseObject(ReplyContext("", request_id=request_id or ""), "", "", None)
