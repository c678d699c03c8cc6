"""The line that is logged for each request, as text or as typed fields.

It holds names and Dragoman's own messages, with control characters escaped. An upstream's error message may quote the
request, so the error's code or kind is logged instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dragoman import (
    DragomanError,
    Failure,
    LimitExceeded,
    LossCode,
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
_NAMES = {"tokens_in": "input_total", "tokens_out": "output_total"}


class RequestLine(NamedTuple):
    """One request, passed to the logger as the message: `str` returns the text, `fields` the fields for JSON.

    `summary` is the direction and the result, `cause` the reason of a failure, `note` an addition for the operator.
    `duration` is the number of seconds since the request arrived, `first_event` that until the first event of a stream.
    `estimated` names the token counts that are Dragoman's estimates. `endpoint` is that of a request which is forwarded
    without translation.
    """

    request_id: str
    summary: str
    ended: str
    status: int
    duration: float
    client: str
    upstream: str | None
    model: str | None
    upstream_model: str | None
    stream: bool | None
    first_event: float | None
    tokens_in: int | None
    tokens_out: int | None
    estimated: tuple[str, ...]
    provider: str | None
    route: str
    client_profile: str | None
    losses: Mapping[LossCode, int]
    error: str | None
    cause: str
    note: str
    trace_id: str | None = None
    endpoint: str = ""

    def __str__(self) -> str:
        line = f"{self.request_id} {self.summary} status={self.status} duration={self.duration:.3f}"
        if self.first_event is not None:
            line += f" first_event={self.first_event:.3f}"
        if self.tokens_in is not None:
            line += f" tokens_in={'~' if 'input_total' in self.estimated else ''}{self.tokens_in}"
        if self.tokens_out is not None:
            line += f" tokens_out={'~' if 'output_total' in self.estimated else ''}{self.tokens_out}"
        if self.provider is not None:
            line += f" provider={self.provider} route={quote(self.route)}"
        if self.client_profile is not None:
            line += f" client={self.client_profile}"
        if self.trace_id is not None:
            line += f" trace_id={self.trace_id}"
        if self.cause:
            line += f": {self.cause}"
        if self.losses:
            line += f"; losses: {', '.join(f'{code}={count}' for code, count in sorted(self.losses.items()))}"
        return line + self.note

    @property
    def fields(self) -> dict[str, Any]:
        """The fields for JSON, without empty ones."""
        fields = self._asdict()
        summary, cause, note = fields.pop("summary"), fields.pop("cause"), fields.pop("note")
        fields["message"] = f"{summary}{cause and f': {cause}'}{note}"
        for name in ("model", "upstream_model"):
            fields[name] = fields[name] and quote(fields[name])
        fields["duration"] = round(self.duration, 6)
        fields["first_event"] = None if self.first_event is None else round(self.first_event, 6)
        fields["estimated"] = [name for name, count in _NAMES.items() if count in self.estimated]
        fields["losses"] = {str(code): count for code, count in self.losses.items()}
        return {"event": "request"} | {name: value for name, value in fields.items() if value not in (None, "", [], {})}


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
    translation = receipt.translation
    upstream = model = upstream_model = stream = tokens_in = tokens_out = None
    estimated: tuple[str, ...] = ()
    losses: Mapping[LossCode, int] = {}
    if translation is not None:
        context = translation.context
        upstream, stream = translation.direction.upstream.dialect, translation.stream
        model, upstream_model = context.model, translation.upstream_model
        usage, estimated = translation.usage_and_estimates()
        if usage is not None:
            tokens_in, tokens_out = usage.input_total, usage.output_total
        if context.losses:
            losses = context.losses.counts
    else:
        model = receipt.model
    return RequestLine(
        receipt.request_id,
        summary,
        ended,
        status,
        receipt.seconds(),
        receipt.client,
        upstream,
        model,
        upstream_model,
        stream,
        receipt.begun_at - receipt.opened_at if receipt.begun_at is not None else None,
        tokens_in,
        tokens_out,
        estimated,
        receipt.provider,
        receipt.route,
        receipt.client_profile,
        losses,
        None if error is None else error_word(error),
        cause,
        note,
        receipt.trace.trace_id if receipt.trace is not None else None,
        receipt.endpoint,
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
