"""What is read off a client's HTTP request beside its body's fields."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aiohttp import StreamReader, web
from aiohttp.http import HttpVersion11

from dragoman.aio.proxy_stream import STOPPING
from dragoman.canonical.request import Json
from dragoman.errors import ClientRequestError, DragomanError, Failure, FailureKind, LimitExceeded
from dragoman.knobs import KNOBS, Knobs
from dragoman_server.config.schema import Server
from dragoman_server.proxy.error_response import asked_in, client_failure, error_response, new_request_id, unsupported

ON_LOSS = "x-dragoman-on-loss"
"""A request's own `on_loss`."""
_CODINGS = ("gzip", "deflate", "br", "zstd", "identity", "")
"""The codings that aiohttp decodes before a body comes here; br and zstd only where their packages are installed."""
PIECE = 1 << 16
"""Bytes of a body that have `timeouts.body` to come. So a slow line may send a long one, and a drip does not last."""


class Bodies:
    """Reads the requests' bodies. Most are there before they are asked for; what is waited for is waited for here."""

    def __init__(self, server: Server) -> None:
        self.configure(server)
        self._awaited: set[asyncio.Timeout] = set()
        self._stopped = False

    def configure(self, server: Server) -> None:
        """Take the limits for the bodies that are not being read yet."""
        self._limit = server.limits.request_body
        self._seconds = server.timeouts.body

    def stop(self) -> None:
        """Who is still sending is refused, like who begins now: nothing was done yet that could be finished."""
        self._stopped = True
        for timer in self._awaited:
            if not timer.expired():
                timer.reschedule(0)

    async def read(self, request: web.Request) -> bytes:
        """The body. Raises LimitExceeded as soon as it is known to be too long, and other DragomanErrors."""
        length, content = request.content_length, request.content
        limit, seconds = self._limit, self._seconds  # `configure` does not change them for this body
        coding = request.headers.get("content-encoding")
        if coding is not None and coding.strip().lower() not in _CODINGS:
            told = f"the content-encoding {coding[:100]!a} cannot be read: send gzip or deflate, or no content-encoding"
            raise DragomanError(unsupported(told))
        if length is not None and length > limit:
            raise _too_long(limit)
        try:
            body = content.read_nowait() if content.is_eof() else await self._arriving(content, limit, seconds)
        except web.RequestPayloadError as error:
            reason = getattr(error.__cause__, "message", error)
            raise _last(request, _invalid(400, f"the body cannot be read: {reason}")) from None
        except TimeoutError:
            raise _last(request, self._late(seconds)) from None
        if len(body) > limit:
            raise _too_long(limit)
        return body

    async def _arriving(self, content: StreamReader, limit: int, seconds: float) -> bytes:
        """The body as it comes. Raises TimeoutError if it does not, or the gateway stops."""
        pieces: list[bytes] = []
        size, due = 0, PIECE
        clock = asyncio.get_running_loop().time
        async with asyncio.timeout(seconds) as timer:
            self._awaited.add(timer)
            try:
                while piece := await content.readany():
                    pieces.append(piece)
                    size += len(piece)
                    if size > limit:
                        raise _too_long(limit)
                    if size >= due:
                        due = size + PIECE
                        timer.reschedule(clock() + seconds)
            finally:
                self._awaited.discard(timer)
        return b"".join(pieces)

    def _late(self, seconds: float) -> Failure:
        if self._stopped:
            return replace(STOPPING, headers={"retry-after": "1"})
        missed = f"neither its end nor the next {PIECE >> 10} KiB within {seconds:g} s (timeouts.body)"
        return _invalid(408, f"the body came too slowly, or not at all: {missed}; send it again, without a pause")


def _too_long(limit: int) -> LimitExceeded:
    return LimitExceeded("request_body", limit, upstream=False)


async def expected(request: web.Request) -> web.Response | None:
    """Answer a request's `Expect` before its body is read: 100 lets the client send the body, else 417."""
    wish = request.headers.get("expect", "").strip().lower()
    if request.version < HttpVersion11:
        return None
    if wish == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # no byte of the reply itself has been sent
        return None
    response = error_response(
        asked_in(request), _invalid(417, f"Expect: {wish[:100]!a} is not known here"), new_request_id()
    )
    response.set_status(417)
    return response


def _invalid(status: int, message: str) -> Failure:
    return client_failure(FailureKind.INVALID_REQUEST, message, status)


def _last(request: web.Request, failure: Failure) -> DragomanError:
    """What to raise where the rest of a body is given up, and with it the connection."""
    # aiohttp would read on behind the reply: wait for the rest, or meet the same error and log it as a defect.
    request.content.feed_eof()
    # And its parser does not find the next request: it would never be answered.
    request.protocol.close()
    failure.headers["connection"] = "close"
    return DragomanError(failure)


def read_model(payload: Json) -> str:
    """The name that decides the route. Raises ClientRequestError."""
    model = payload.get("model")
    if type(model) is not str or not model:
        raise ClientRequestError(("model",), "is required (a string)")
    return model


def apply_header_overrides(knobs: Knobs, headers: Mapping[str, str]) -> Knobs:
    """The route's knobs with what the client asks for in a header. Raises ClientRequestError naming the header."""
    wish = headers.get(ON_LOSS)
    if wish is None:
        return knobs
    values = KNOBS["on_loss"].metadata["values"]
    word: Any = wish.strip().lower()
    if word not in values:
        raise ClientRequestError(ON_LOSS, f"expected one of {', '.join(values)}; got {wish[:40]!a}")
    return knobs if word == knobs.on_loss else replace(knobs, on_loss=word)
