"""The line that is logged for each request, as text or as typed fields.

It holds names and Dragoman's own messages, with control characters escaped. An upstream's error message may quote the
request, so the error's code or kind is logged instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dragoman import Dialect, DragomanError, Failure, Losses, Translation, Usage
from dragoman.errors import FailureKind, FailureOrigin, LimitExceeded, UpstreamTimeout, UpstreamUnreachable
from dragoman.gateway import quote, redact
from dragoman_server.receipt import Receipt

OWN_ERRORS = (LimitExceeded, UpstreamTimeout, UpstreamUnreachable)
"""Errors of upstreams whose messages are Dragoman's own, so they can be logged and shown."""
_WORD_MAX = 40
_COUNTS = {"tokens_in": "input_total", "tokens_out": "output_total"}


@dataclass(slots=True, repr=False)  # a repr would show the request
class RequestLine:
    """One request, passed to the logger as the message: `str` returns the text, `fields` the fields for JSON.

    `translation` is that of the receipt, which drops it when the request ends. `duration` is the time in seconds since
    the request arrived. `summary` is the direction and the result, `cause` the reason of a failure, `note` an addition
    for the operator, `limit` the name of the key's limit that rejected it.
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
    limit: str

    def __str__(self) -> str:
        receipt = self.receipt
        first_event = tokens = losses = ""
        if receipt.begun_at is not None:
            first_event = f" first_event={receipt.begun_at - receipt.opened_at:.3f}"
        if (facts := receipt.facts) is not None:
            if facts.usage is not None:
                tokens = _tokens_text(facts.usage, facts.estimated)
            if facts.rest is not None and self.translation is not None:
                losses = _losses_text(self.translation.context.losses)
        attempts = f" attempts={len(receipt.attempts)} first:{receipt.attempts[0].outcome}" if self._repeated else ""
        skipped = f" skipped={','.join(receipt.skipped)}" if receipt.skipped else ""
        target = _target_text(receipt.provider, receipt.route) if receipt.provider is not None else ""
        profile = f" client={receipt.client_profile}" if receipt.client_profile is not None else ""
        key = f" key={quote(receipt.key.name)}" if receipt.key is not None else ""
        tag = f" tag={receipt.tag}" if receipt.tag is not None else ""
        limit = f" limit={self.limit}" if self.limit else ""
        trace = f" trace_id={self.trace_id}" if self.trace_id is not None else ""
        cause = f": {self.cause}" if self.cause else ""
        # One text of all parts, as each addition to a text copies it.
        return (
            f"{receipt.request_id} {self.summary} status={self.status} duration={self.duration:.3f}"
            f"{first_event}{tokens}{target}{attempts}{skipped}{profile}{key}{tag}{limit}{trace}{cause}{losses}{self.note}"
        )

    @property
    def _repeated(self) -> bool:
        return len(self.receipt.attempts) > 1

    @property
    def fields(self) -> dict[str, Any]:
        """The fields for JSON, without empty ones."""
        receipt, translation = self.receipt, self.translation
        first_event = None if receipt.begun_at is None else round(receipt.begun_at - receipt.opened_at, 6)
        usage, estimated = (None, ()) if receipt.facts is None else (receipt.facts.usage, receipt.facts.estimated)
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
            "attempts": len(receipt.attempts) if self._repeated else None,
            "first_outcome": receipt.attempts[0].outcome if self._repeated else None,
            "skipped": list(receipt.skipped),
            "client_profile": receipt.client_profile,
            "losses": {str(code): count for code, count in losses.items()},
            "key": None if receipt.key is None else quote(receipt.key.name),
            "tag": receipt.tag,
            "limit": self.limit,
            "error": self.error,
            "trace_id": self.trace_id,
            "endpoint": receipt.endpoint,
            "message": f"{self.summary}{self.cause and f': {self.cause}'}{self.note}",
        }
        return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _tokens_text(usage: Usage, estimated: tuple[str, ...]) -> str:
    sent, written = usage.input_total, usage.output_total
    if sent is not None and written is not None and not estimated:
        return f" tokens_in={sent} tokens_out={written}"
    return _estimates_text(usage, estimated)


def _estimates_text(usage: Usage, estimated: tuple[str, ...]) -> str:
    return "".join(
        f" {name}={'~' if count in estimated else ''}{getattr(usage, count)}"
        for name, count in _COUNTS.items()
        if getattr(usage, count) is not None
    )


def _losses_text(losses: Losses) -> str:
    if not losses:
        return ""
    return f"; losses: {', '.join(f'{code}={count}' for code, count in sorted(losses.counts.items()))}"


@lru_cache(256)
def _target_text(provider: str, route: str) -> str:
    """Return the provider and the route, both names of the configuration."""
    return f" provider={provider} route={quote(route)}"


@lru_cache
def _direction_text(client: Dialect, upstream: Dialect) -> str:
    return f"{client}→{upstream}"


def request_line(
    receipt: Receipt,
    summary: str,
    ended: str,
    status: int,
    duration: float,
    *,
    error: Failure | None = None,
    cause: str = "",
    note: str = "",
) -> RequestLine:
    """Return the line of a request that has just ended. Its receipt must still have its translation.

    `duration` is in seconds since the request arrived.
    """
    translation = receipt.translation
    if translation is not None:
        receipt.keep_facts(translation)
    return RequestLine(
        receipt,
        translation,
        duration,
        receipt.trace_id,
        summary,
        ended,
        status,
        None if error is None else error_word(error),
        cause or ("" if error is None else _own_message(error)),
        note,
        "" if error is None else limit_of(error),
    )


def limit_of(failure: Failure) -> str:
    """Return the name of the limit of a key that a request is rejected for; else an empty text."""
    own = failure.origin is FailureOrigin.CLIENT and failure.kind is FailureKind.RATE_LIMIT
    return (failure.reason or "") if own else ""


def error_word(failure: Failure) -> str:
    """Return the error's code if it is a plain word (an upstream may send any text), else its kind."""
    code = failure.code or ""
    plain = len(code) <= _WORD_MAX and code.isascii() and code.replace("_", "").isalnum()
    return code if plain else failure.kind


def direction_text(translation: Translation) -> str:
    """Return the direction and the model's names: `messages→chat claude-x → qwen3`."""
    direction = _direction_text(translation.direction.client.dialect, translation.direction.upstream.dialect)
    return f"{direction} {quote(translation.context.model)} → {quote(translation.upstream_model)}"


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
    return _own_message(failure) or error_word(failure)


def _own_message(failure: Failure) -> str:
    """Return the message of a failure that is not an upstream's; else an empty text."""
    return "" if failure.origin is FailureOrigin.UPSTREAM else quote(redact(failure.message))
