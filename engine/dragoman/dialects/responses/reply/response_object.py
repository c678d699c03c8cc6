"""The Response object: the content of a stream's first and last events, and a whole reply (responses §7).

It has every key that the Open Responses specification and OpenAI's schema require. Settings of the request are repeated
(`ReplyContext.echo`), because clients check them; other keys have the API's defaults: numbers where the schema requires
numbers, null where it allows null.
"""

from __future__ import annotations

from typing import Any, Final

from orjson import Fragment

from dragoman.canonical.request import Json
from dragoman.dialects.openai.moderation import write_response_moderation
from dragoman.dialects.shared.service_report import openai_tier, tier_of
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id
from dragoman.wire.json_codec import dump_str, dumps

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
    "safety_identifier": None,
    "prompt_cache_key": None,
    "user": None,
    "previous_response_id": None,
    "store": False,
    "usage": None,
    "completed_at": None,
    "service_tier": _DEFAULT_TIER,
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
"""Keys that the request cannot set. Without a store, `store` is False and there is no previous response."""

_NUMERIC: Final = frozenset(
    ("max_output_tokens", "max_tool_calls", "parallel_tool_calls", "temperature", "top_logprobs", "top_p", "truncation")
)
"""Settings that contain no text of the user."""
_IDENTITY: Final = b'{"id":%b,"object":"response","created_at":%d,"model":%b,'
_OBJECT: Final = b'%b"status":"%b","output":[%b],%b,"usage":%b,"completed_at":%b,"service_tier":"%b"}'
_STORED: Final[Json] = {"previous_response_id": None, "store": True}
"""`StoredReply.fields` of a reply that continues no other."""
_ENCODED: Final[dict[bytes, bytes]] = {}
"""JSON of a request's settings, if they are numeric, and whether the reply is stored → the keys between `output` and
`usage` of its Response objects."""
_ENCODED_MAX: Final = 256


def _encoded_settings(echo: Json, store: bool) -> bytes:
    """Return the keys between `output` and `usage` of the object for numeric settings, as JSON without braces."""
    key = dumps(echo) + b"s" * store
    encoded = _ENCODED.get(key)
    if encoded is None:
        if len(_ENCODED) >= _ENCODED_MAX:
            _ENCODED.clear()
        settings = {**_DEFAULTS, **echo, **_OWN, "store": store}
        for own in ("id", "object", "created_at", "model", "status", "output", "usage", "completed_at", "service_tier"):
            del settings[own]
        encoded = _ENCODED[key] = dumps(settings)[1:-1]
    return encoded


def stored_id(request_id: str) -> str:
    """Return the id of a stored response, which must be unique and not be guessed, whatever ids the upstream has.

    It is that of the gateway's request, `req_…`, in the form of a response's.
    """
    return ID_PREFIX + request_id.removeprefix("req_")


class ResponseObject:
    """Builds the Response object of one reply. `base` is its id without the prefix; the ids of its items contain it."""

    __slots__ = ("_begun_tier", "_context", "_created", "_identity", "_model", "_settings", "base")

    def __init__(
        self, context: ReplyContext, upstream_id: str, model: str, created: int | None, tier: str | None = None
    ) -> None:
        if context.stored is None:
            self.base = reply_id(upstream_id or context.request_id, "")
        else:
            self.base = stored_id(context.request_id).removeprefix(ID_PREFIX)
        self._context = context
        self._begun_tier = openai_tier(tier, context.losses)
        """The tier that the upstream stated at the beginning."""
        self._model = context.model if context.knobs.echo_model == "requested" or not model else model
        self._created = context.created if created is None else created
        self._identity = self._settings = b""
        """The first keys and the settings as JSON, once `started_json` returned them; empty if they may change or are
        long. Settings are shared by all replies.
        """

    def started(self) -> Json:
        """Return the object while the reply is in progress.

        It is built again at the end: keeping it would cost a kilobyte per open stream.
        """
        context = self._context
        response = {**_DEFAULTS, **context.echo, **_OWN}
        if context.stored is not None:
            response.update(context.stored.fields)
        if self._begun_tier is not None:
            response["service_tier"] = self._begun_tier
        elif response["service_tier"] != _DEFAULT_TIER and LossCode.SERVICE_TIER in context.losses.counts:
            response["service_tier"] = _DEFAULT_TIER  # the requested tier was not sent to the upstream
        response["id"] = ID_PREFIX + self.base
        response["created_at"] = self._created
        response["model"] = self._model
        return response

    def _served_tier(self) -> str | None:
        """Return the tier that the upstream stated, None without one that the API has."""
        return openai_tier(tier_of(self._context), self._context.losses)

    def started_json(self) -> bytes:
        """Return the JSON of `started()`."""
        context = self._context
        stored = context.stored
        if (stored is not None and stored.fields != _STORED) or not _NUMERIC.issuperset(context.echo):
            return dumps(self.started())
        self._identity = _IDENTITY % (dump_str(ID_PREFIX + self.base), self._created, dump_str(self._model))
        self._settings = _encoded_settings(context.echo, stored is not None)
        tier = (self._begun_tier or _DEFAULT_TIER).encode()
        return _OBJECT % (self._identity, b"in_progress", b"", self._settings, b"null", b"null", tier)

    def ended_json(self, status: str, output: bytes, *, usage: Json | None, reason: str | None) -> bytes:
        """Return the JSON of `ended()` without an error. `output` is the JSON of the items, without brackets."""
        if status != "completed" or not self._settings or self._context.moderation is not None:
            return dumps(self.ended(status, Fragment(b"[%b]" % output), usage=usage, reason=reason))
        clock = self._context.clock
        completed_at = b"null" if clock is None else b"%d" % int(clock())
        return _OBJECT % (
            self._identity,
            b"completed",
            output,
            self._settings,
            dumps(usage),
            completed_at,
            self._tier_json(),
        )

    def _tier_json(self) -> bytes:
        return (self._served_tier() or _DEFAULT_TIER).encode()

    def ended(
        self,
        status: str,
        output: Any,
        *,
        usage: Json | None = None,
        reason: str | None = None,
        error: Json | None = None,
    ) -> Json:
        """Return the finished object. `reason` belongs to the status `incomplete`, `error` to `failed`."""
        response, clock = self.started(), self._context.clock
        if (served := self._served_tier()) is not None:
            response["service_tier"] = served
        if status == "completed" and clock is not None:
            response["completed_at"] = int(clock())
        response["status"] = status
        response["output"] = output
        response["error"] = error
        response["incomplete_details"] = None if reason is None else {"reason": reason}
        response["usage"] = usage
        if self._context.moderation is not None:
            response["moderation"] = write_response_moderation(self._context.moderation, self._context.losses)
        return response
