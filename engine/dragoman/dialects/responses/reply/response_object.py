"""The Response object: what the first and the last event of a stream hold, and what a whole reply is (responses §7).

It has every key that the Open Responses specification and OpenAI's schema require. What the request set is repeated
(`ReplyContext.echo`), as clients check their own settings in it; for the rest there are the API's defaults: numbers
where the schema wants numbers, null where it allows null.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id

ID_PREFIX: Final = "resp_"
_DEFAULT_TIER: Final = "default"
_DEFAULTS: Final[Json] = {
    "id": "",
    "object": "response",
    "created_at": 0,
    "model": "",
    "status": "in_progress",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "reasoning": None,
    "text": {"format": {"type": "text"}},
    "truncation": "disabled",
    "background": False,
    "service_tier": _DEFAULT_TIER,
    "safety_identifier": None,
    "prompt_cache_key": None,
    "user": None,
    "previous_response_id": None,
    "store": False,
}
"""Every key of a reply whose request set nothing, in the order in which they are written."""
_OWN: Final[Json] = {
    "object": "response",
    "status": "in_progress",
    "output": [],
    "error": None,
    "incomplete_details": None,
    "background": False,
    "previous_response_id": None,
    "store": False,
    "usage": None,
    "completed_at": None,
}
"""What the request cannot set: nothing is stored here, so nothing can be built on.

The validator's fast path needs the keys that only the last snapshot fills in at the end of the object.
"""


class ResponseObject:
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
        context = self._context
        told = {**_DEFAULTS, **context.echo, **_OWN}
        if told["service_tier"] != _DEFAULT_TIER and LossCode.SERVICE_TIER in context.losses.counts:
            told["service_tier"] = _DEFAULT_TIER  # The wish was not sent to the upstream.
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
