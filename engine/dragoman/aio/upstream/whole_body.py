"""Reads the body of a reply that is not streamed, for both transports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from io import BytesIO

from dragoman.aio.batch_slices import LONG_BODY
from dragoman.errors import LimitExceeded, UpstreamError


async def read_whole(batches: AsyncGenerator[bytes, None], limit: int) -> bytes:
    """Return a complete body, and close `batches`.

    Raises LimitExceeded if it is longer than `limit` bytes, and what `batches` raises; the error has the number of
    bytes that were received.
    """
    body = BytesIO()  # a list of pieces of two bytes would take 24 times as much memory
    size = 0
    try:
        async for piece in batches:
            size += len(piece)
            if size > limit:
                raise LimitExceeded("reply_body", limit, upstream=True)
            body.write(piece)
    except UpstreamError as error:
        error.received = size
        raise
    finally:
        await batches.aclose()
    if size > LONG_BODY:
        await asyncio.sleep(0)
    return body.getvalue()
