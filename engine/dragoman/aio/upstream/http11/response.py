"""The answer on a raw connection: batches straight from its reads, and the decision whether it is worth keeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import cast

from dragoman.aio.batch_slices import SMALL, next_turn, slice_end
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.aio.upstream.http11.decompress import Decompressor, decompressor
from dragoman.aio.upstream.http11.response_parser import NO_HEADERS
from dragoman.errors import LimitExceeded, StreamTruncated


class _Parking:
    """Awaited by a reader that is stepped: it gives up control once, and whoever steps it goes on where it stands."""

    __slots__ = ()
    # An iterator of one None, made without a Python frame: 180 ns a time instead of 250 with a generator.
    __await__ = staticmethod(partial(iter, (None,)))


_PARKED = cast("Awaitable[None]", _Parking())
_PIECES = 4
"""Pieces that are expanded in one turn of the loop."""


class Http11Response:
    """See `PushedAnswer`."""

    __slots__ = ("_connection", "_cut", "_encoding", "_left", "_watch", "headers", "status")

    def __init__(self, connection: Connection, watch: StreamTimers) -> None:
        self._connection: Connection | None = connection
        self._watch = watch
        self._left = self._cut = False
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers
        # Once: who has read the headers may let them go, and a long stream should not keep them.
        self._encoding = connection.headers.get("content-encoding")
        connection.headers = NO_HEADERS

    def on_arrival(self, step: Callable[[], None] | None, /) -> None:
        """See `PushedAnswer`."""
        connection = self._connection
        if connection is not None:
            connection.step = step
            if connection.parked is not None:
                connection.parked = step

    async def read(self, limit: int) -> bytes:
        """The whole body."""
        pieces: list[bytes] = []
        size = 0
        async with aclosing(self._body(sliced=False)) as batches:
            async for piece in batches:
                size += len(piece)
                if size > limit:
                    self._cut = True
                    raise LimitExceeded("reply_body", limit, upstream=True)
                pieces.append(piece)
                if len(pieces) % _PIECES == 0:
                    await asyncio.sleep(0)  # expanding needs no read: others get their turn
        return b"".join(pieces)

    def batches(self) -> AsyncGenerator[bytes, None]:
        """The body, one network read at a time, a long one in slices. Compressed ones are expanded."""
        return self._body(sliced=True)

    def _body(self, sliced: bool) -> AsyncGenerator[bytes, None]:
        return self._received(sliced) if self._encoding is None else self._decompressed(self._encoding, sliced)

    async def _decompressed(self, encoding: str, sliced: bool) -> AsyncGenerator[bytes, None]:
        expander: Decompressor | None = decompressor(encoding)
        async with aclosing(self._received(sliced)) as received:
            async for data in received:
                if expander is None:
                    yield data
                    continue
                for piece in expander.feed(data):
                    if not sliced or len(piece) <= SMALL:
                        yield piece
                        continue
                    start = 0
                    while start < len(piece):
                        end = slice_end(piece, start)
                        yield piece[start:end]
                        start = end
                        await next_turn()
        if expander is not None:
            expander.finish()

    async def _received(self, sliced: bool) -> AsyncGenerator[bytes, None]:
        connection, watch = self._connection, self._watch
        if connection is None:
            raise StreamTruncated("the reply was closed before it was read")
        pieces = connection.pieces
        try:
            while self._connection is connection:
                if pieces:
                    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                    if len(data) > SMALL and sliced and (end := slice_end(data, 0)) < len(data):
                        pieces[:] = (data,)  # not taken yet: `fail` and `leave` clear what is here
                        start = 0
                        while end < len(data) and pieces:
                            watch.upstream_active = True
                            yield data[start:end]
                            await next_turn()
                            start, end = end, slice_end(data, end)
                        if pieces:
                            pieces[0] = data[start:]
                        continue
                    pieces.clear()
                    if connection.unread:
                        connection.resume_reading()
                    watch.upstream_active = True
                    yield data
                    del data  # not for as long as the next one takes
                elif connection.error is not None:
                    raise connection.error
                elif connection.ended:
                    return
                elif connection.step is None:
                    await connection.arrival()
                else:
                    connection.parked = connection.step
                    await _PARKED
                    connection.parked = None
        except GeneratorExit:
            # Read no further, by one who has the terminal event; or whose client left, and then the upstream is cut.
            self._left = connection.parked is None and not watch.client_gone()
            raise
        finally:
            connection.parked = None
        raise StreamTruncated("the reply was closed before it was read")

    async def close(self) -> None:
        """Give the connection back at the body's end, or, if the reader had enough, soon after; else cut it."""
        self._watch.upstream_done()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release(finish=self._left and not self._cut)
