"""The response on an upstream connection: its body in batches, and the decision whether the connection is kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping

from dragoman.aio.batch_slices import SMALL, slice_end
from dragoman.aio.long_work import next_turn
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.trampoline import PARKED
from dragoman.aio.upstream.decompressed_reply import decompressed
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.aio.upstream.http11.response_parser import NO_HEADERS
from dragoman.aio.upstream.interface import CloseOnExit
from dragoman.aio.upstream.whole_body import read_whole
from dragoman.errors import LimitExceeded, StreamTruncated


class Http11Response(CloseOnExit):
    """A response on an `Http11Transport`'s connection: a `PushedResponse`."""

    __slots__ = ("_connection", "_encoding", "_over_limit", "_stopped_early", "_timers", "headers", "status")

    def __init__(self, connection: Connection, timers: StreamTimers) -> None:
        self._connection: Connection | None = connection
        self._timers = timers
        self._stopped_early = self._over_limit = False
        parser = connection.parser
        self.status = parser.status
        self.headers: Mapping[str, str] = parser.headers
        # The caller may drop `headers` once they were read, so that a long stream does not keep them.
        self._encoding = parser.headers.get("content-encoding")
        if self._encoding is not None:
            self._encoding = ", ".join(parser.headers.getall("content-encoding"))
        parser.headers = NO_HEADERS

    def on_arrival(self, resume: Callable[[], None] | None, /) -> None:
        """Set the callback that resumes the reader of `batches`: see `PushedResponse`."""
        connection = self._connection
        if connection is not None:
            connection.resume_reader = resume
            if connection.parked_reader is not None:
                connection.parked_reader = resume

    async def read(self, limit: int) -> bytes:
        """Return the complete body. Raises LimitExceeded if it is longer than `limit` bytes, and StreamTruncated."""
        try:
            return await read_whole(self._body(sliced=False, limit=limit), limit)
        except LimitExceeded:
            self._over_limit = True
            raise

    def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the decompressed body, one batch per network read; a long read is yielded in slices."""
        return self._body(sliced=True)

    def _body(self, sliced: bool, limit: int | None = None) -> AsyncGenerator[bytes, None]:
        received = self._received(sliced)
        if self._encoding is None:
            return received
        return decompressed(received, self._encoding, sliced=sliced, limit=limit)

    async def _received(self, sliced: bool) -> AsyncGenerator[bytes, None]:
        connection, timers = self._connection, self._timers
        if connection is None:
            raise StreamTruncated("the reply was closed before it was read")
        parser = connection.parser
        pieces = parser.pieces
        try:
            while self._connection is connection:
                if not pieces:
                    if connection.unparsed is not None:
                        await next_turn(connection.left, connection.unparsed_size)
                        connection.parse_next()
                    elif connection.error is not None:
                        raise connection.error
                    elif parser.complete:
                        return
                    elif connection.resume_reader is None:
                        await connection.arrival()
                    else:
                        connection.parked_reader = connection.resume_reader
                        await PARKED
                        connection.parked_reader = None
                    continue
                data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                if len(data) > SMALL and sliced and (end := slice_end(data, 0)) < len(data):
                    pieces[:] = (data,)  # not taken yet: `fail` and `release` drop what is here
                    start = 0
                    while end < len(data) and pieces:
                        timers.upstream_active = True
                        yield data[start:end]
                        await next_turn(len(data) - end + connection.unparsed_size)
                        start, end = end, slice_end(data, end)
                    if pieces:
                        pieces[0] = data[start:]
                    continue
                pieces.clear()
                if connection.unread:
                    connection.resume_reading()
                timers.upstream_active = True
                yield data
                del data  # not kept while waiting: 0.3 of the 15 kB of an open stream
        except GeneratorExit:
            # The reader stopped early: it has the terminal event, or its client disconnected (then cut the upstream).
            self._stopped_early = connection.parked_reader is None and not timers.client_gone()
            raise
        finally:
            connection.parked_reader = None
        raise StreamTruncated("the reply was closed before it was read")

    async def close(self) -> None:
        """Return the connection to the pool if the body has ended or the reader stopped early, else cut it."""
        self._timers.upstream_done()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release(finish=self._stopped_early and not self._over_limit)
