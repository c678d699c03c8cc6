"""Reading a client's HTTP request: its body, `Expect`, the model name, and headers that override knobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any

from aiohttp import StreamReader, web
from aiohttp.http import HttpVersion11

from dragoman import ClientRequestError, DragomanError, Failure, Knobs
from dragoman.aio import (
    STOPPING,
    CorruptBody,
    Decompressor,
    UnsupportedEncoding,
    abandon_body,
    decompressor,
    is_decompressed,
    next_turn,
    send_continue,
)
from dragoman.errors import FailureKind, LimitExceeded
from dragoman.gateway import KNOBS
from dragoman.wire import Json
from dragoman_server.config.schema import Server
from dragoman_server.proxy.error_response import (
    client_failure,
    error_response,
    infer_dialect,
    new_request_id,
    unsupported,
)

ON_LOSS = "x-dragoman-on-loss"
"""Header that overrides the knob `on_loss` for one request."""
_BROKEN = (web.RequestPayloadError, CorruptBody)
PIECE = 1 << 16
"""Bytes of a body that must arrive within `timeouts.body`. A slow connection may thus send a long body, but a client
that sends single bytes is cut off."""


class RequestBodies:
    """Reads the bodies of requests within the limits of size and time."""

    def __init__(self, server: Server) -> None:
        self.configure(server)
        self._timers: set[asyncio.Timeout] = set()
        self._stopped = False

    def configure(self, server: Server) -> None:
        """Set the limits for bodies whose reading has not begun."""
        self._limit = server.limits.request_body
        self._seconds = server.timeouts.body

    def stop(self) -> None:
        """Reject the requests whose bodies have not arrived completely, because the gateway is stopping."""
        self._stopped = True
        for timer in self._timers:
            if not timer.expired():
                timer.reschedule(0)

    async def read(self, request: web.Request) -> bytes:
        """Return the body, also if a middleware of the application has read it.

        Raises LimitExceeded as soon as it is known to be too long, and other DragomanErrors.
        """
        content = request.content
        limit, seconds = self._limit, self._seconds  # `configure` does not change them for this body
        coded = "content-encoding" in request.headers
        arrived = content.is_eof() and not coded
        expander = _decompressor(request, limit) if coded else None
        if not arrived:  # else the length is that of the body
            length = request.content_length
            if length is not None and length > limit:
                raise _too_long(limit)
        try:
            if arrived:
                body = content.read_nowait() or await request.read()  # aiohttp keeps what a middleware has read
            else:
                body = await self._arriving(request, limit, seconds, expander, coded=coded)
        except _BROKEN as error:
            raise _closing(request, _unreadable(error)) from None
        except TimeoutError:
            raise _closing(request, self._late(seconds)) from None
        if len(body) > limit:
            raise _too_long(limit)
        return body

    async def pieces(self, request: web.Request, limit: int) -> AsyncGenerator[bytes, None]:
        """Yield a body of at most `limit` bytes (`limits.upload`) as it arrives. Raises as `read` does.

        Time that the caller needs for a piece does not count as the client's.
        """
        content, seconds = request.content, self._seconds
        clock = asyncio.get_running_loop().time
        coded = "content-encoding" in request.headers
        expander = _decompressor(request, limit) if coded else None
        if (request.content_length or 0) > limit:
            raise LimitExceeded("upload", limit, upstream=False)
        size, received, due, left = 0, 0, PIECE, seconds
        while True:
            begun = clock()
            try:
                piece = await self._next_piece(content, left)
                if not piece and not received:
                    piece = await request.read()  # a middleware may have read it
            except web.RequestPayloadError as error:
                raise _closing(request, _unreadable(error)) from None
            except TimeoutError:
                raise _closing(request, self._late(seconds)) from None
            left -= clock() - begun
            try:
                if not piece:
                    if expander is not None:
                        expander.finish()
                    return
                received += len(piece)
                if received > limit:
                    raise LimitExceeded("upload", limit, upstream=False)
                for part in (piece,) if expander is None else expander.feed(piece):
                    size += len(part)
                    if size > limit:
                        raise LimitExceeded("upload", limit, upstream=False)
                    if part:
                        yield part
                    if coded:
                        await next_turn(len(part))
            except CorruptBody as error:
                raise _closing(request, _unreadable(error)) from None
            if size >= due:
                due, left = size + PIECE, seconds

    async def _next_piece(self, content: StreamReader, seconds: float) -> bytes:
        """Return what has arrived, or arrives next. Raises TimeoutError, also if the gateway stops."""
        if self._stopped and not content.is_eof():
            raise TimeoutError
        async with self._timed(seconds):
            return await content.readany()

    @asynccontextmanager
    async def _timed(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """Raise TimeoutError if the block takes longer, or if the gateway stops meanwhile."""
        async with asyncio.timeout(seconds) as timer:
            self._timers.add(timer)
            try:
                yield timer
            finally:
                self._timers.discard(timer)

    async def _arriving(
        self, request: web.Request, limit: int, seconds: float, expander: Decompressor | None, *, coded: bool
    ) -> bytes:
        """Read the body as it arrives. Raises TimeoutError if it arrives too slowly, or if the gateway stops.

        At most `limit` bytes and one piece are in memory, and no turn of the loop decompresses more than a piece.
        """
        content = request.content
        body = BytesIO()  # unlike a list of pieces, it is not copied to become bytes
        received, due = 0, PIECE
        clock = asyncio.get_running_loop().time
        async with self._timed(seconds) as timer:
            piece = await content.readany() or await request.read()  # a middleware may have read it
            while piece:
                received += len(piece)
                if received > limit:  # a compressed body may expand to nothing
                    raise _too_long(limit)
                for part in (piece,) if expander is None else expander.feed(piece):
                    body.write(part)
                    size = body.tell()
                    if size > limit:
                        raise _too_long(limit)
                    if size >= due:
                        due = size + PIECE
                        timer.reschedule(clock() + seconds)
                    if coded:
                        await next_turn(len(part))
                piece = await content.readany()
        if expander is not None:
            expander.finish()
        return body.getvalue()

    def _late(self, seconds: float) -> Failure:
        if self._stopped:
            return replace(STOPPING, headers={"retry-after": "1"})
        missed = f"neither its end nor the next {PIECE >> 10} KiB within {seconds:g} s (timeouts.body)"
        return _invalid(408, f"the body came too slowly, or not at all: {missed}; send it again, without a pause")


def _decompressor(request: web.Request, limit: int) -> Decompressor | None:
    """Return what decompresses the body, or None. Raises DragomanError (415) for an encoding that cannot be read."""
    encoding = ", ".join(request.headers.getall("content-encoding"))
    try:
        found = decompressor(encoding, limit)
    except UnsupportedEncoding as error:
        raise DragomanError(_unsupported(error)) from None
    return None if is_decompressed(request) else found


def _unsupported(error: UnsupportedEncoding) -> Failure:
    """Return the 415, which has the encodings that can be read in `accept-encoding` (RFC 9110 §15.5.16)."""
    *others, last = error.readable.split(", ")
    advice = f"send {', '.join(others)} or {last}, or no content-encoding"
    cure = f"; to let the gateway read it, {error.cure}" if error.cure else ""
    failure = unsupported(f"the content-encoding {str(error)[:100]!a} cannot be read: {advice}{cure}")
    return replace(failure, headers={**failure.headers, "accept-encoding": error.readable})


def _unreadable(error: BaseException) -> Failure:
    error = error.__cause__ or error if isinstance(error, web.RequestPayloadError) else error
    return _invalid(400, f"the body cannot be read: {getattr(error, 'message', error)}")


def _too_long(limit: int) -> LimitExceeded:
    return LimitExceeded("request_body", limit, upstream=False)


async def handle_expect(request: web.Request) -> web.Response | None:
    """Handle the header `Expect`: send a 100, so that the client sends the body, or return a 417."""
    expectation = request.headers.get("expect", "").strip().lower()
    if request.version < HttpVersion11:
        return None
    if expectation == "100-continue":
        await send_continue(request)
        return None
    response = error_response(
        infer_dialect(request), _invalid(417, f"Expect: {expectation[:100]!a} is not known here"), new_request_id()
    )
    response.set_status(417)
    return response


def _invalid(status: int, message: str) -> Failure:
    return client_failure(FailureKind.INVALID_REQUEST, message, status)


def _closing(request: web.Request, failure: Failure) -> DragomanError:
    """Return the error for a body of which the rest is not read, and close the connection after the response."""
    abandon_body(request)
    failure.headers["connection"] = "close"
    return DragomanError(failure)


def read_model(payload: Json) -> str:
    """Return the model name of a request. Raises ClientRequestError."""
    model = payload.get("model")
    if type(model) is not str or not model:
        raise ClientRequestError(("model",), "is required (a string)")
    return model


def apply_header_overrides(knobs: Knobs, headers: Mapping[str, str]) -> Knobs:
    """Return the knobs, changed by the request's headers. Raises ClientRequestError with the header's name."""
    sent = headers.get(ON_LOSS)
    if sent is None:
        return knobs
    values = KNOBS["on_loss"].metadata["values"]
    word: Any = sent.strip().lower()
    if word not in values:
        raise ClientRequestError(ON_LOSS, f"expected one of {', '.join(values)}; got {sent[:40]!a}")
    return knobs if word == knobs.on_loss else replace(knobs, on_loss=word)
