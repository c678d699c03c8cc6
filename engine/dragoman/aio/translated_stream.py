"""The client's reply as an async iterator: one upstream request, without a server."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Self

from dragoman.aio.keep_reply import keep_reply
from dragoman.aio.proxy_stream import DEFECT, open_proxy_stream
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.aio.upstream.http11.transport import Http11Transport
from dragoman.aio.upstream.interface import Transport, UpstreamRequest, UpstreamResponse
from dragoman.dialects.errors.redact import is_secret
from dragoman.errors import UpstreamError, UpstreamStatusError
from dragoman.translation import Translation

log = logging.getLogger("dragoman")
_CREDENTIALS = ("authorization", "cookie", "key", "secret", "token")
"""Parts of the names of headers whose values are masked in the errors of an upstream."""
_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"}


def stream(
    translation: Translation,
    url: str,
    headers: Mapping[str, str],
    *,
    transport: Transport | None = None,
    timeouts: Timeouts | None = None,
) -> TranslatedStream:
    """Return the client's reply to a translated request, which is sent to `url`, the endpoint of the upstream.

        async with stream(translation, url, {"authorization": "Bearer …"}) as reply:
            ...                       # send status 200 and reply.headers
            async for data in reply:
                ...                   # send data

    Entering it sends the request and reads the reply up to its first event. Until then every failure is raised as a
    DragomanError, and `translation.error_of(error.failure)` is the client's response for it:

    - UpstreamStatusError: the upstream returned an error, or a translated stream begins with one
    - UpstreamUnreachable, UpstreamTimeout: it did not respond
    - UpstreamProtocolError, LimitExceeded: its reply cannot be read

    Afterwards a failure is an error event of the client's dialect, the last bytes of the stream. `translation.failure`,
    `usage` and `losses` have the results. Leaving the `async with` in any way closes everything; before the end of the
    reply this cancels the upstream's work. Without `async with`, `await reply.open()` begins the reply, and its end,
    `aclose()` or the end of the last reference closes it.

    If the client did not request a stream, the whole reply is one piece.

    Args:
        headers: of the upstream request, such as its key, which is masked in errors. `content-type`, and for Messages
            `anthropic-version`, are added if they are missing.
        transport: sends the request and stays open. By default the request has a connection of its own; an application
            should have one transport for all.
        timeouts: `connect`, `first_byte`, `idle` and `tool_stall` are used. The time in which the caller handles a
            piece does not count.
    """
    sent = _headers(translation, headers)
    request = UpstreamRequest(url, sent, translation.body, translation.stream, timeouts or Timeouts())
    reply_headers: dict[str, str] = {}
    return TranslatedStream(_read(translation, request, transport, reply_headers), reply_headers)


class TranslatedStream:
    """The client's reply: an async context manager, and an iterator of bytes. Made by `stream`."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], headers: dict[str, str]) -> None:
        self._pieces = pieces
        self._opened = False
        self._first = b""
        self.headers = headers
        """The headers of the client's response, once the reply has begun."""

    async def open(self) -> Self:
        """Send the request and read the reply up to its first event. Raises as `stream` documents."""
        if not self._opened:
            self._opened = True
            self._first = await anext(self._pieces, b"")
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        await self.open()
        if self._first:
            first, self._first = self._first, b""
            return first
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Close the reply and all connections that were opened for it."""
        await self._pieces.aclose()


# Not a method: an iterator that is dropped before its end is closed at once only if nothing refers back to it.
async def _read(
    translation: Translation, request: UpstreamRequest, transport: Transport | None, headers: dict[str, str]
) -> AsyncGenerator[bytes, None]:
    """Yield the client's bytes, and set `headers` before the first of them."""
    left = False
    async with AsyncExitStack() as stack:
        if transport is None:
            transport = await stack.enter_async_context(Http11Transport())
        timers = stack.enter_context(StreamTimers(request.timeouts, lambda: left))
        response = await transport.open(request, timers)
        stack.push_async_callback(response.close)
        if not 200 <= response.status < 300:
            raise await _status_error(translation, response)
        headers |= translation.reply_headers(response.headers)
        if not translation.stream:
            headers["content-type"] = "application/json"
            yield await _whole(translation, response)
            return
        proxied = await open_proxy_stream(translation, response, timers)
        headers |= _STREAM
        async with aclosing(proxied.batches):
            try:
                async for data in proxied.batches:
                    timers.writing()
                    yield data
                    timers.written()
            except Exception:
                # A defect of the engine. Clients take an end without an error for success.
                log.exception("a stream failed by a defect")
                if tail := proxied.error_tail(replace(DEFECT)):
                    yield tail
            except BaseException:
                left = True  # so that the upstream's connection is cut
                raise


def _headers(translation: Translation, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the upstream request, and mask their credentials in errors."""
    context, sent = translation.context, {name.lower(): value for name, value in headers.items()}
    sent.setdefault("content-type", "application/json")
    if version := translation.direction.upstream.dialect.facts.version_header:
        sent.setdefault(version, context.profile.anthropic_version)
    values = [value for name, value in sent.items() if any(part in name for part in _CREDENTIALS)]
    keys = {part for value in values for part in (value, value.rpartition(" ")[2]) if is_secret(part)}
    context.secrets = (*context.secrets, *sorted(keys - {*context.secrets}, key=len, reverse=True))
    return sent


async def _status_error(translation: Translation, response: UpstreamResponse) -> UpstreamStatusError:
    try:
        body = await response.read(translation.context.limits.reply_body)
    except UpstreamError:
        body = b""  # the status decides whether clients retry
    return UpstreamStatusError(translation.error(response.status, body, response.headers).failure)


async def _whole(translation: Translation, response: UpstreamResponse) -> bytes:
    """Return a reply that is not streamed."""
    body = await response.read(translation.context.limits.reply_body)
    written = translation.reply(body, response.headers)
    stored = translation.context.stored
    return written if stored is None else await keep_reply(stored, written)
