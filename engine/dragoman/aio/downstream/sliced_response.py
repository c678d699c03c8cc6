"""A response with a whole body that is written in slices: one long write would hold the event loop."""

from __future__ import annotations

from aiohttp import web

from dragoman.aio.batch_slices import WRITE_SLICE, write_slices


class SlicedResponse(web.Response):
    """A response that writes a long body of bytes one slice per turn of the loop.

    A body of up to `SLICE` bytes is written as `web.Response` does, which is cheaper. Not for responses to HEAD, which
    have no body.
    """

    SLICE = WRITE_SLICE

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the body and its end. Raises ConnectionError if the client disconnects."""
        body = self.body
        if type(body) is bytes and len(body) > WRITE_SLICE and not self.compression:
            await web.StreamResponse.write_eof(self, await write_slices(self.write, body))
        else:
            await super().write_eof(data)
