"""The Response object: what the first and the last event of a stream hold, and what a whole reply is (responses §7).

It repeats the request (`ReplyContext.echo`), as clients check their own settings in it, and has every key that the
schema requires, null where nothing is known. `completed_at` is told where a clock is given: the cores have none.
"""

from __future__ import annotations

from typing import Any, Final

from ...context import ReplyContext
from ...model import Json
from ...names import reply_id

ID_PREFIX: Final = "resp_"
_OWN: Final[Json] = {
    "object": "response",
    "status": "in_progress",
    "output": [],
    "error": None,
    "incomplete_details": None,
    "previous_response_id": None,
    "store": False,
    "usage": None,
}
"""What is the reply's own, whatever the echo says: nothing is stored here, so nothing can be built on."""
_NEVER_NULL: Final[Json] = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
_ORDER: Final[Json] = dict.fromkeys(
    ("id", "object", "created_at", "model", "status", "output", *_NEVER_NULL, "error", "incomplete_details",
     "instructions", "metadata", "temperature", "top_p", "previous_response_id", "store")
) | _NEVER_NULL | {"metadata": {}}  # fmt: skip


class Snapshot:
    """The Response object of one reply. `base` is the body of its id, from which the items' ids are made."""

    __slots__ = ("_context", "_created", "_model", "base")

    def __init__(self, context: ReplyContext, upstream_id: str, model: str, created: int | None) -> None:
        self.base = reply_id(upstream_id or context.request_id, "")
        self._context = context
        self._model = context.model if context.knobs.echo_model == "requested" or not model else model
        self._created = context.created if created is None else created

    def started(self) -> Json:
        """The object while the reply is being made.

        Made anew at the end of it: kept, it would be a kilobyte of each open stream.
        """
        told = {**_ORDER, **self._context.echo, **_OWN}
        for key, usual in _NEVER_NULL.items():
            if told[key] is None:
                told[key] = usual
        told["id"] = ID_PREFIX + self.base
        told["created_at"] = self._created
        told["model"] = self._model
        return told

    def ended(
        self,
        status: str,
        output: Any,
        *,
        usage: Json | None = None,
        reason: str | None = None,
        error: Json | None = None,
    ) -> Json:
        """The object at the end. `reason` is why an `incomplete` one is, `error` why a `failed` one is."""
        told, clock = self.started(), self._context.clock
        if status == "completed" and clock is not None:
            told["completed_at"] = int(clock())
        told["status"] = status
        told["output"] = output
        told["error"] = error
        told["incomplete_details"] = None if reason is None else {"reason": reason}
        told["usage"] = usage
        return told
