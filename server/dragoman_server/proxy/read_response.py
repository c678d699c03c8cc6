"""A response whose body was read before the exchange asks for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from dragoman import Failure
from dragoman.aio import UpstreamResponse


class ReadResponse:
    """A response whose whole body was read already. `failure` is the error in it, if that was looked for."""

    def __init__(self, response: UpstreamResponse, body: bytes, failure: Failure | None = None) -> None:
        self._response = response
        self._body = body
        self.failure = failure
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self, limit: int) -> bytes:
        """Return the body, which is not longer than the limit by which it was read."""
        return self._body

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body."""
        yield self._body

    async def close(self) -> None:
        """Close the response that was read."""
        await self._response.close()
