"""The limits of a named key at one request, and the estimates of its tokens."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dragoman import Dialect

if TYPE_CHECKING:
    from dragoman_server.accounts.accounts import Accounts
    from dragoman_server.accounts.keys.record import KeyRecord

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
