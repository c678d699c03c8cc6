"""Enters an exchange in the journal of usage before its request is sent."""

from __future__ import annotations

from dragoman.aio import StreamTimers, Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman_server.accounts.usage.book import UsageBook
from dragoman_server.receipt import Receipt


class BookedTransport:
    """Wraps the transport `inner` for the upstream requests of one request of a client.

    The entry of each attempt replaces that of the one before: it names the provider that was asked last.
    """

    __slots__ = ("_book", "_inner", "_receipt")

    def __init__(self, inner: Transport, book: UsageBook, receipt: Receipt) -> None:
        self._inner = inner
        self._book = book
        self._receipt = receipt

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        """Send the request and return the response. Raises DragomanError."""
        await self._book.begin(self._receipt)
        return await self._inner.open(request, timers)

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """Send a request whose body is an upload. Raises DragomanError."""
        await self._book.begin(self._receipt)
        return await self._inner.open_upload(request, upload, timers)

    async def close(self) -> None:
        """Leave the transport open: others use it as well."""
