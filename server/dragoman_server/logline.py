"""The line that each request leaves in the log.

What a client or an upstream said is in it only as far as it can do no harm: names and the gateway's own words, in one
line. An upstream's words for an error may quote the request, so its class stands for them.
"""

from __future__ import annotations

from dragoman.errors import DragomanError, Failure, LimitExceeded, UpstreamTimeout, UpstreamUnreachable
from dragoman.protocols.masking import quote, redact
from dragoman.translate import Translation

from .receipts import Receipt

OUR_WORDS = (LimitExceeded, UpstreamTimeout, UpstreamUnreachable)
"""Errors of an upstream that the gateway tells in words of its own."""
_WORD_MAX = 40


def word(failure: Failure) -> str:
    """What sort of error it is: its code where that is a plain word (an upstream's may be anything), else its class."""
    code = failure.code or ""
    plain = len(code) <= _WORD_MAX and code.isascii() and code.replace("_", "").isalnum()
    return code if plain else failure.kind


def way(translation: Translation) -> str:
    """From whom to whom, and by which names: `messages→chat claude-x → qwen3`."""
    return f"{translation.direction} {quote(translation.context.model)} → {quote(translation.upstream_model)}"


def without_reply(receipt: Receipt, error: DragomanError) -> str:
    """How a request ended that was refused here, or whose upstream failed before its reply."""
    failure, translation = error.failure, receipt.translation
    if translation is None:
        model = f" {quote(receipt.model)}" if receipt.model else ""
        return f"{receipt.client}{model} rejected: {failure.status} {quote(redact(failure.message))}"
    words = quote(failure.message) if isinstance(error, OUR_WORDS) else word(failure)
    return f"{way(translation)} failed: {failure.status} {words} (provider {receipt.provider})"
