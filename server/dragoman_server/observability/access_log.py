"""The line that is logged for each request, as text or as typed fields.

It holds names and Dragoman's own messages, with control characters escaped. An upstream's error message may quote the
request, so the error's code or kind is logged instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dragoman import (
    DragomanError,
    Failure,
    LimitExceeded,
    Losses,
    Translation,
    UpstreamTimeout,
    UpstreamUnreachable,
    quote,
    redact,
)
from dragoman_server.observability.receipts import Receipt

OWN_ERRORS = (LimitExceeded, UpstreamTimeout, UpstreamUnreachable)
"""Errors of upstreams whose messages are Dragoman's own, so they can be logged and shown."""
_WORD_MAX = 40
_COUNTS = {"tokens_in": "input_total", "tokens_out": "output_total"}


@dataclass(slots=True, repr=False)  # a repr would show the request
class RequestLine:
    """One request, passed to the logger as the message: `str` returns the text, `fields` the fields for JSON.

    `translation` is that of the receipt, which drops it when the request ends. `duration` is the time in seconds since
    the request arrived. `summary` is the direction and the result, `cause` the reason of a failure, `note` an addition
    for the operator.
    """

    receipt: Receipt
    translation: Translation | None
    duration: float
    trace_id: str | None
    summary: str
    ended: str
    status: int
    error: str | None
    cause: str
    note: str

    def __str__(self) -> str:
        receipt, translation = self.receipt, self.translation
        line = f"{receipt.request_id} {self.summary} status={self.status} duration={self.duration:.3f}"
        if receipt.begun_at is not None:
            line = f"{line} first_event={receipt.begun_at - receipt.opened_at:.3f}"
        losses: Losses | None = None
        if translation is not None:
            losses = translation.context.losses
            usage, estimated = translation.usage_and_estimates()
            if usage is not None:
                if usage.input_total is not None:
                    line = f"{line} tokens_in={'~' if 'input_total' in estimated else ''}{usage.input_total}"
                if usage.output_total is not None:
                    line = f"{line} tokens_out={'~' if 'output_total' in estimated else ''}{usage.output_total}"
        if receipt.provider is not None:
            line = f"{line} provider={receipt.provider} route={quote(receipt.route)}"
        if receipt.client_profile is not None:
            line = f"{line} client={receipt.client_profile}"
        if self.trace_id is not None:
            line = f"{line} trace_id={self.trace_id}"
        if self.cause:
            line = f"{line}: {self.cause}"
        if losses:
            line = f"{line}; losses: {', '.join(f'{code}={count}' for code, count in sorted(losses.counts.items()))}"
        return line + self.note

    @property
    def fields(self) -> dict[str, Any]:
        """The fields for JSON, without empty ones."""
        receipt, translation = self.receipt, self.translation
        first_event = None if receipt.begun_at is None else round(receipt.begun_at - receipt.opened_at, 6)
        usage, estimated = (None, ()) if translation is None else translation.usage_and_estimates()
        losses = {} if translation is None else translation.losses.counts
        fields = {
            "event": "request",
            "request_id": receipt.request_id,
            "ended": self.ended,
            "status": self.status,
            "duration": round(self.duration, 6),
            "client": receipt.client,
            "upstream": None if translation is None else translation.direction.upstream.dialect,
            "model": quote((receipt.model if translation is None else translation.model) or ""),
            "upstream_model": None if translation is None else quote(translation.upstream_model),
            "stream": None if translation is None else translation.stream,
            "first_event": first_event,
            "tokens_in": None if usage is None else usage.input_total,
            "tokens_out": None if usage is None else usage.output_total,
            "estimated": [name for name, count in _COUNTS.items() if count in estimated],
            "provider": receipt.provider,
            "route": receipt.route,
            "client_profile": receipt.client_profile,
            "losses": {str(code): count for code, count in losses.items()},
            "error": self.error,
            "trace_id": self.trace_id,
            "endpoint": receipt.endpoint,
            "message": f"{self.summary}{self.cause and f': {self.cause}'}{self.note}",
        }
        return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def request_line(
    receipt: Receipt,
    summary: str,
    ended: str,
    status: int,
    *,
    error: Failure | None = None,
    cause: str = "",
    note: str = "",
) -> RequestLine:
    """Return the line of a request that has just ended. Its receipt must still have its translation."""
    return RequestLine(
        receipt,
        receipt.translation,
        receipt.seconds(),
        receipt.trace.trace_id if receipt.trace is not None else None,
        summary,
        ended,
        status,
        None if error is None else error_word(error),
        cause,
        note,
    )


def error_word(failure: Failure) -> str:
    """Return the error's code if it is a plain word (an upstream may send any text), else its kind."""
    code = failure.code or ""
    plain = len(code) <= _WORD_MAX and code.isascii() and code.replace("_", "").isalnum()
    return code if plain else failure.kind


def direction_text(translation: Translation) -> str:
    """Return the direction and the model's names: `messages→chat claude-x → qwen3`."""
    return f"{translation.direction} {quote(translation.context.model)} → {quote(translation.upstream_model)}"


def without_reply(receipt: Receipt, result: str) -> str:
    """Return the summary of a request that ended before its reply: `messages→chat claude-x → qwen3 failed`."""
    if receipt.translation is not None:
        return f"{exchange_text(receipt, receipt.translation)} {result}"
    model = f" {quote(receipt.model)}" if receipt.model else ""
    return f"{receipt.endpoint or receipt.client}{model} {result}"


def exchange_text(receipt: Receipt, translation: Translation) -> str:
    """Return the direction or the forwarded endpoint, and the model's names: `embeddings small → nomic-embed`."""
    if not receipt.endpoint:
        return direction_text(translation)
    if not translation.model:
        return receipt.endpoint
    return f"{receipt.endpoint} {quote(translation.model)} → {quote(translation.upstream_model)}"


def cause_of(receipt: Receipt, error: DragomanError, failure: Failure) -> str:
    """Return the cause of a failure before the reply: Dragoman's message, or the code or kind of the upstream's."""
    if receipt.translation is None or isinstance(error, OWN_ERRORS):
        return quote(redact(failure.message))
    return error_word(failure)
