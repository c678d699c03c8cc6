"""The Response object: the content of a stream's first and last events, and a whole reply (responses §7).

It has every key that the Open Responses specification and OpenAI's schema require. Settings of the request are repeated
(`ReplyContext.echo`), because clients check them; other keys have the API's defaults: numbers where the schema requires
numbers, null where it allows null.
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
"""Every key of a reply to a request without settings, in the order in which they are written."""
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
"""Keys that the request cannot set. Without a store, `store` is False and there is no previous response.

The validator's fast path needs the keys that only the last snapshot sets at the end of the object.
"""


def stored_id(request_id: str) -> str:
    """Returns the id of a stored response, which must be unique and not be guessed, whatever ids the upstream has.

    It is that of the gateway's request, `req_…`, in the form of a response's.
    """
    return ID_PREFIX + request_id.removeprefix("req_")


class ResponseObject:
    """Builds the Response object of one reply. `base` is its id without the prefix; the ids of its items contain it."""

    __slots__ = ("_context", "_created", "_model", "base")

    def __init__(self, context: ReplyContext, upstream_id: str, model: str, created: int | None) -> None:
        if context.stored is None:
            self.base = reply_id(upstream_id or context.request_id, "")
        else:
            self.base = stored_id(context.request_id).removeprefix(ID_PREFIX)
        self._context = context
        self._model = context.model if context.knobs.echo_model == "requested" or not model else model
        self._created = context.created if created is None else created

    def started(self) -> Json:
        """Returns the object while the reply is in progress.

        It is built again at the end: keeping it would cost a kilobyte per open stream.
        """
        context = self._context
        response = {**_DEFAULTS, **context.echo, **_OWN}
        if context.stored is not None:
            response.update(context.stored.fields)
        if response["service_tier"] != _DEFAULT_TIER and LossCode.SERVICE_TIER in context.losses.counts:
            response["service_tier"] = _DEFAULT_TIER  # the requested tier was not sent to the upstream
        response["id"] = ID_PREFIX + self.base
        response["created_at"] = self._created
        response["model"] = self._model
        return response

    def ended(
        self,
        status: str,
        output: Any,
        *,
        usage: Json | None = None,
        reason: str | None = None,
        error: Json | None = None,
    ) -> Json:
        """Returns the finished object. `reason` belongs to the status `incomplete`, `error` to `failed`."""
        response, clock = self.started(), self._context.clock
        if status == "completed" and clock is not None:
            response["completed_at"] = int(clock())
        response["status"] = status
        response["output"] = output
        response["error"] = error
        response["incomplete_details"] = None if reason is None else {"reason": reason}
        response["usage"] = usage
        return response
