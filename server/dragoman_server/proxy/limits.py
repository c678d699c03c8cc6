"""The limits of a named key at one request: admission before it is sent, settlement at its end."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from dragoman import Dialect, Usage
from dragoman_server.observability.receipts import Receipt

if TYPE_CHECKING:
    from dragoman_server.accounts.accounts import Accounts
    from dragoman_server.accounts.keys.record import KeyRecord
    from dragoman_server.accounts.limits.claim import Claim
    from dragoman_server.routing.plan import Candidate

NO_RATE_HEADERS: Mapping[str, str] = {}
_BYTES = 4
"""Bytes of a body to a token, about."""
_FORM_BYTES = 400
"""Bytes of a form to a token, about: those of a tenth of a second of audio at 32 kbit/s (`AUDIO_TOKENS`)."""
_WINDOWS, _WINDOW = 64, 512
_INLINE = re.compile(rb"[A-Za-z0-9+/=_-]*\Z")
"""A part of the inline data of an image or a file, which is base64."""
_INLINE_TOKENS = 1000
"""Tokens of inline data, about: they follow from an image's sides, not from its bytes."""


async def admit(accounts: Accounts, record: KeyRecord, receipt: Receipt, now: float) -> Mapping[str, str]:
    """Check the limits of a key for a translated request, and reserve its estimate.

    Returns the headers with the key's rate limits. The receipt settles the request when it ends. Raises DragomanError.
    """
    translation = receipt.translation
    assert translation is not None
    estimate = translation.context.input_estimate or estimate_by_size(translation.body)
    claim = await accounts.admit(
        record, receipt.request_id, receipt.client, translation.upstream_model, estimate, receipt.provider
    )
    receipt.settle = partial(_settle, accounts, claim)
    if claim.levels is None:  # the store was not asked
        return NO_RATE_HEADERS
    return record.limits.rate_headers.write(claim.levels, receipt.client, now)


def with_price(accounts: Accounts, record: KeyRecord, candidates: list[Candidate]) -> list[Candidate]:
    """Return the candidates that a key may use: with a budget of cost, those whose price is known."""
    limits = record.limits.active
    if limits is None or not limits.has_cost:
        return candidates
    return [each for each in candidates if accounts.has_price(each.upstream_model, each.provider.name)]


@asynccontextmanager
async def counted(
    accounts: Accounts | None, key: KeyRecord | None, request_id: str, client: Dialect, *, waits: bool = True
) -> AsyncIterator[None]:
    """Count a request without tokens in the limits of its key. If it `waits` for an upstream, it is open meanwhile.

    `client` is the dialect of the error. Raises DragomanError.
    """
    claim = None
    if key is not None and accounts is not None:
        claim = await accounts.admit_request(key, request_id, client, waits=waits)
    try:
        yield
    finally:
        if claim is not None and accounts is not None:
            accounts.settle(claim, None, "", sent=False)


def estimate_of_form(size: int) -> int:
    """Estimate the tokens of a form of so many bytes, which may hold audio or images."""
    return size // _FORM_BYTES + 1


def estimate_by_size(body: bytes) -> int:
    """Estimate the tokens of a body that passes through unread, without its inline data.

    The share of that is found by 64 windows of the body: 20 µs, whatever the length and the content.
    """
    size = len(body)
    if size <= _WINDOWS * _WINDOW:
        return size // _BYTES
    step = size // _WINDOWS
    windows = (body[at : at + _WINDOW] for at in range(0, step * _WINDOWS, step))
    inline = sum(_INLINE.match(window) is not None for window in windows)
    return size * (_WINDOWS - inline) // _WINDOWS // _BYTES + (_INLINE_TOKENS if inline else 0)


def _settle(accounts: Accounts, claim: Claim, receipt: Receipt) -> None:
    """Count what the request of a receipt used. The receipt must still have its translation."""
    translation = receipt.translation
    if translation is None:
        accounts.settle(claim, None, "", sent=False)
        return
    # Upstreams do not charge for requests that they refuse, nor for those that did not reach them.
    usage = receipt.usage
    sent = usage is not None or receipt.reached_upstream
    if usage is None and sent and receipt.endpoint and (tokens := translation.context.input_estimate):
        usage = Usage(input_total=tokens)  # a form's size, or the length of its audio, is known at the end
    accounts.settle(claim, usage, translation.upstream_model, sent=sent, provider=receipt.provider)
