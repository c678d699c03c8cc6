"""Interface of what records single streams. A gateway without one runs as if there was no such thing."""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from dragoman.aio import Transport
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.exchange import Exchange


class StreamRecorder(Protocol):
    """Decides which requests are recorded. It is set only while it may record some."""

    def attach(self, request: web.Request, receipt: Receipt, exchange: Exchange, transport: Transport) -> Transport:
        """Return the transport for a request. If it is recorded, that transport and `exchange.record` report it."""
        ...
