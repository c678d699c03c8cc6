"""What is read off a client's HTTP request beside its body's fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aiohttp import web

from dragoman.aio.line import Line
from dragoman.errors import ClientRequestError, LimitExceeded
from dragoman.knobs import KNOBS, Knobs
from dragoman.model import Json

ON_LOSS = "x-dragoman-on-loss"
"""A request's own `on_loss`."""


async def read_body(request: web.Request, limit: int) -> bytes:
    """The request's body. Raises LimitExceeded as soon as it is known to be too long."""
    length = request.content_length
    if length is not None and length > limit:
        raise LimitExceeded("request_body", limit, upstream=False)
    pieces: list[bytes] = []
    size = 0
    content = request.content
    try:
        while not content.at_eof() and (piece := await content.readany()):
            size += len(piece)
            if size > limit:
                raise LimitExceeded("request_body", limit, upstream=False)
            pieces.append(piece)
    except web.RequestPayloadError as error:
        # aiohttp would read on behind the reply, meet the same error and log it as a defect.
        request.content.feed_eof()
        # And its parser does not find the next request: it would never be answered.
        request.protocol.close()
        reason = getattr(error.__cause__, "message", error)
        refusal = ClientRequestError("", f"the body cannot be read: {reason}")
        refusal.failure.headers = {"connection": "close"}
        raise refusal from None
    body = b"".join(pieces)
    if length == size and (line := Line.of(request)) is not None:  # as it was sent: neither chunked nor compressed
        line.heard(size)
    return body


def read_model(payload: Json) -> str:
    """The name that decides the route. Raises ClientRequestError."""
    model = payload.get("model")
    if type(model) is not str or not model:
        raise ClientRequestError(("model",), "is required (a string)")
    return model


def wished(knobs: Knobs, headers: Mapping[str, str]) -> Knobs:
    """The route's knobs with what the client asks for in a header. Raises ClientRequestError naming the header."""
    wish = headers.get(ON_LOSS)
    if wish is None:
        return knobs
    values = KNOBS["on_loss"].metadata["values"]
    word = wish.strip().lower()
    if word not in values:
        raise ClientRequestError(ON_LOSS, f"expected one of {', '.join(values)}; got {wish[:40]!a}")
    return knobs if word == knobs.on_loss else replace(knobs, on_loss=word)
