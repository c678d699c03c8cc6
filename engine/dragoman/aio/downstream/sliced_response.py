"""A response with a whole body that is written in slices: one long write would hold the event loop."""

from __future__ import annotations

from aiohttp import web

from dragoman.aio.batch_slices import WRITE_SLICE, write_slices
from dragoman.aio.downstream.aiohttp_internals import DirectResponse, write_whole


class SlicedResponse(DirectResponse):
    """A response that writes a long body of bytes one slice per turn of the loop.

    A body of up to `WRITE_SLICE` bytes is written with the headers in one call. Not for responses to HEAD, which have
    no body.
    """

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the body and its end. Raises ConnectionError if the client disconnects."""
        body = self.body
        if type(body) is not bytes or self.compression:
            await super().write_eof(data)
        elif len(body) > WRITE_SLICE:
            await web.StreamResponse.write_eof(self, await write_slices(self.write, body))
        elif (writer := write_whole(self, body)) is None:
            await super().write_eof(data)
        elif writer.protocol.writing_paused:
            await writer.drain()
