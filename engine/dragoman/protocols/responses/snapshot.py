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
_OWN: Final = frozenset(
    {
        "id",
        "object",
        "created_at",
        "completed_at",
        "model",
        "status",
        "output",
        "error",
        "incomplete_details",
        "usage",
        "store",
        "previous_response_id",
    }
)
"""Keys that are the reply's own, whatever the echo says: nothing is stored here, so nothing can be built on."""
_NEVER_NULL: Final = frozenset({"parallel_tool_calls", "tool_choice", "tools"})


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
        fields: Json = {
            "id": ID_PREFIX + self.base,
            "object": "response",
            "created_at": self._created,
            "model": self._model,
            "status": "in_progress",
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "temperature": None,
            "top_p": None,
            "previous_response_id": None,
            "store": False,
        }
        for key, value in self._context.echo.items():
            if key not in _OWN and (value is not None or key not in _NEVER_NULL):
                fields[key] = value
        fields["usage"] = None
        return fields

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
        return {
            **told,
            "status": status,
            "output": output,
            "error": error,
            "incomplete_details": None if reason is None else {"reason": reason},
            "usage": usage,
        }
