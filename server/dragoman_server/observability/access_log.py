"""The line that each request leaves in the log, as text or as typed fields.

What a client or an upstream said is in it only as far as it can do no harm: names and the gateway's own words, in one
line. An upstream's words for an error may quote the request, so its class stands for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dragoman.dialects.errors.redact import quote, redact
from dragoman.errors import DragomanError, Failure, LimitExceeded, UpstreamTimeout, UpstreamUnreachable
from dragoman.losses import LossCode
from dragoman.tokens.stream_usage import usage_so_far
from dragoman.translate import Translation
from dragoman_server.observability.receipts import Receipt

OUR_WORDS = (LimitExceeded, UpstreamTimeout, UpstreamUnreachable)
"""Errors of an upstream that the gateway tells in words of its own."""
_WORD_MAX = 40
_NAMES = {"tokens_in": "input_total", "tokens_out": "output_total"}


class RequestLine(NamedTuple):
    """One request. Given to the logger as the message: `str` makes the text, `fields` is for JSON.

    `words` say how it ended, `because` why if it failed, `note` what else there is to do. `duration` and `first_event`
    are seconds since the request came; `first_event` is that of a stream. `estimated` names the token counts that are
    no upstream's.
    """

    request_id: str
    words: str
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
    because: str
    note: str

    def __str__(self) -> str:
        line = f"{self.request_id} {self.words} status={self.status} duration={self.duration:.3f}"
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
        if self.because:
            line += f": {self.because}"
        if self.losses:
            line += f"; losses: {', '.join(f'{code}={count}' for code, count in sorted(self.losses.items()))}"
        return line + self.note

    @property
    def fields(self) -> dict[str, Any]:
        """The line for JSON; what there is nothing of is left out."""
        told = self._asdict()
        words, because, note = told.pop("words"), told.pop("because"), told.pop("note")
        told["message"] = f"{words}{because and f': {because}'}{note}"
        for name in ("model", "upstream_model"):
            told[name] = told[name] and quote(told[name])
        told["duration"] = round(self.duration, 6)
        told["first_event"] = None if self.first_event is None else round(self.first_event, 6)
        told["estimated"] = [name for name, count in _NAMES.items() if count in self.estimated]
        told["losses"] = {str(code): count for code, count in self.losses.items()}
        return {"event": "request"} | {name: value for name, value in told.items() if value not in (None, "", [], {})}


def request_line(
    receipt: Receipt,
    words: str,
    ended: str,
    status: int,
    *,
    error: Failure | None = None,
    because: str = "",
    note: str = "",
) -> RequestLine:
    """The line of a request that has just ended; its receipt still has its translation."""
    translation = receipt.translation
    upstream = model = upstream_model = stream = tokens_in = tokens_out = None
    estimated: tuple[str, ...] = ()
    losses: Mapping[LossCode, int] = {}
    if translation is not None:
        context = translation.context
        upstream, stream = translation.direction.upstream.dialect.value, translation.stream
        model, upstream_model = context.model, translation.upstream_model
        usage, estimated = usage_so_far(context)
        if usage is not None:
            tokens_in, tokens_out = usage.input_total, usage.output_total
        if context.losses:
            losses = context.losses.counts
    else:
        model = receipt.model
    return RequestLine(
        receipt.request_id,
        words,
        ended,
        status,
        receipt.seconds(),
        receipt.client.value,
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
        None if error is None else word(error),
        because,
        note,
    )


def word(failure: Failure) -> str:
    """What sort of error it is: its code where that is a plain word (an upstream's may be anything), else its class."""
    code = failure.code or ""
    plain = len(code) <= _WORD_MAX and code.isascii() and code.replace("_", "").isalnum()
    return code if plain else failure.kind


def way(translation: Translation) -> str:
    """From whom to whom, and by which names: `messages→chat claude-x → qwen3`."""
    return f"{translation.direction} {quote(translation.context.model)} → {quote(translation.upstream_model)}"


def before_reply(receipt: Receipt, what: str) -> str:
    """The words for a request that ended before its reply: `messages→chat claude-x → qwen3 failed`."""
    if receipt.translation is not None:
        return f"{way(receipt.translation)} {what}"
    model = f" {quote(receipt.model)}" if receipt.model else ""
    return f"{receipt.client}{model} {what}"


def reason(receipt: Receipt, error: DragomanError, failure: Failure) -> str:
    """Why a request got no reply: the gateway's own words, or the class of the upstream's error."""
    if receipt.translation is None or isinstance(error, OUR_WORDS):
        return quote(redact(failure.message))
    return word(failure)
