"""The bodies of compressed replies, for both transports."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from dragoman.aio.batch_slices import SMALL, slices
from dragoman.aio.decompress import PIECE, CorruptBody, Decompressor, UnsupportedEncoding, decompressor
from dragoman.aio.long_work import next_turn
from dragoman.dialects.errors.redact import quote_word
from dragoman.errors import StreamTruncated, UpstreamProtocolError

_PIECE_COST = PIECE // 64
"""The cost of beginning a piece or a member of gzip, in decompressed bytes."""


async def decompressed(
    received: AsyncGenerator[bytes, None], encoding: str, *, sliced: bool, limit: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the decompressed body of a reply, in slices if it is `sliced`. `limit` is its limit in bytes, if any.

    Closes `received`. Raises UpstreamProtocolError if the encoding cannot be read, StreamTruncated if the body is
    corrupt or incomplete, and what `received` raises.
    """
    async with aclosing(received):
        try:
            expander = decompressor(encoding, limit)
            pieces = received if expander is None else _expanded(received, expander, sliced)
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except UnsupportedEncoding as error:
            raise UpstreamProtocolError(_unsupported(error)) from None
        except CorruptBody as error:
            raise StreamTruncated(f"upstream's {error.coding} body {error.problem}") from error


async def _expanded(
    received: AsyncGenerator[bytes, None], expander: Decompressor, sliced: bool
) -> AsyncGenerator[bytes, None]:
    cost = 0
    async for data in received:
        for piece in expander.feed(data):
            cost += len(piece) + _PIECE_COST
            if cost > PIECE:  # decompressing does not wait for the network: let other tasks run
                cost = 0
                await next_turn(PIECE)
            if piece and not (sliced and len(piece) > SMALL):
                yield piece
                continue
            left = len(piece)
            for part in slices(piece):
                yield part
                left -= len(part)
                await next_turn(left)
    expander.finish()


def _unsupported(error: UnsupportedEncoding) -> str:
    shown = quote_word(str(error).strip().lower())
    cure = f", or {error.cure}" if error.cure else ""
    return (
        f"the upstream's reply is in the content-encoding '{shown}', which it was not asked for; "
        f"only {error.readable} are understood: switch its compression off{cure}"
    )
