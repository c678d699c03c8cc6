"""A response that its upstream generates in the background: it goes on there when its connection is closed."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable

from dragoman.aio import UpstreamResponse
from dragoman.errors import StreamTruncated, UpstreamUnreachable
from dragoman.threads import is_response_id
from dragoman.wire import Json, SSEFrame, SSEParser, complete_frames, json_loads

log = logging.getLogger("dragoman")
_END = re.compile(rb"[\r\n]event: ?response\.(?:completed|failed|incomplete|cancelled)[\r\n]")
_NUMBER = b'"sequence_number"'
_HELD = 1024**2
"""Most bytes of a frame that wait for its end. The connection of a longer one is not replaced before its end."""
Rejoin = Callable[[str, int, int], Awaitable[UpstreamResponse | None]]
"""Requests the stream of the response of this id after the event of a number. The last argument is the number of times
that it has broken without a new event. None if the upstream does not have it, or stays away."""


class BackgroundReply:
    """The response `inner`. It is cancelled at the upstream if it is closed before its end.

    If its connection breaks, it goes on with another one.

    Args:
        inner: The response.
        cancel: Cancels the response of this id.
        rejoin: Requests its stream once more.
        known: Called with the id when it is known, before anything that follows it is returned.
        response_id: The id, if it is known already.
    """

    def __init__(
        self,
        inner: UpstreamResponse,
        cancel: Callable[[str], Awaitable[None]],
        rejoin: Rejoin,
        known: Callable[[str], Awaitable[None]] | None = None,
        response_id: str = "",
    ) -> None:
        self._inner = inner
        self._cancel = cancel
        self._rejoin = rejoin
        self._known = known
        self._id = response_id
        self._parser = SSEParser() if not response_id else None
        self._numbered = b""
        """The last frames with a number."""
        self._held: bytes | bytearray = b""
        """The part of a frame that has come."""
        self._after = -1
        """The number of the last event before the connection broke; -1 once a later one has come."""
        self._fruitless = 0
        """Connections since the last event with a number."""
        self._has_ended = False
        self._resume: Callable[[], None] | None = None
        self.status, self.headers = inner.status, inner.headers
        if hasattr(inner, "on_arrival"):
            self.on_arrival = self._on_arrival

    def _on_arrival(self, resume: Callable[[], None] | None, /) -> None:
        """Set the callback that resumes the reader of `batches`: see `PushedResponse`."""
        self._resume = resume
        if (on_arrival := getattr(self._inner, "on_arrival", None)) is not None:
            on_arrival(resume)

    async def read(self, limit: int) -> bytes:
        """Return the whole body, as `UpstreamResponse.read` does."""
        return await self._inner.read(limit)

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, at most one network read at a time, in whole frames up to its last bytes.

        Raises as `UpstreamResponse.batches` does, but for a connection that breaks only if no other one can replace it.
        """
        while True:
            source, error = self._inner.batches(), None
            try:
                async for data in source:
                    if not (frames := self._frames(data)):
                        continue
                    if self._parser is not None:
                        await self._find_id(self._parser, frames)
                    yield frames
            except (StreamTruncated, UpstreamUnreachable) as broken:
                error = broken
            finally:
                await source.aclose()
            if not await self._join_again():
                break
        if self._held:
            yield bytes(self._held)
        if error is not None:
            raise error

    def _frames(self, data: bytes) -> bytes:
        """Return the frames that `data` completes, without those that came before the connection broke."""
        data, self._held = complete_frames(self._held, data)
        if len(self._held) > _HELD:
            data, self._held, self._numbered = data + self._held, b"", b""
            return data
        if self._after >= 0 and data:
            data = _newer(data, self._after)
        if _NUMBER in data:
            self._numbered, self._after, self._fruitless = data, -1, 0
        if _END.search(b"\n" + data) is not None:
            self._has_ended = True
        return data

    async def _join_again(self) -> bool:
        """Go on with another connection. Return False if the response has ended, or if that is not possible."""
        number = _last_number(self._numbered)
        if not self._id or self._has_ended or number is None:
            return False
        await self._inner.close()
        log.warning("the connection of %s broke after its event %d: it is attached again", self._id, number)
        inner = await self._rejoin(self._id, number, self._fruitless)
        if inner is None:
            return False
        self._inner, self._after, self._held = inner, number, b""
        self._fruitless += 1
        self._on_arrival(self._resume)
        return True

    async def _find_id(self, parser: SSEParser, data: bytes) -> None:
        """Look for the id in the first event."""
        for frame in parser.feed(data):
            text = getattr(frame, "data", None)
            if not text:
                continue
            self._parser = None
            self._id = _id_in(text)
            if not self._id:
                log.warning("an upstream with `background` has sent no id of its response in its first event")
            elif self._known is not None:
                await self._known(self._id)
            return

    async def close(self) -> None:
        """Close the response, and cancel it at the upstream unless it has ended."""
        await self._inner.close()
        if self._id and not self._has_ended:
            self._has_ended = True
            await self._cancel(self._id)


def _id_in(text: str | bytes) -> str:
    """Return the id of the response in an event, empty without one that can be in a URL."""
    try:
        event: Json = json_loads(text)
        found = event["response"]["id"]
    except (ValueError, KeyError, TypeError):
        return ""
    return found if type(found) is str and is_response_id(found) else ""


def _number_of(frame: SSEFrame) -> int | None:
    """Return the number of an event, None without one."""
    try:
        event: Json = json_loads(frame.data or b"")
        found = event["sequence_number"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if type(found) is int and found >= 0 else None


def _last_number(data: bytes) -> int | None:
    numbers = [number for frame in SSEParser().parse(data) if (number := _number_of(frame)) is not None]
    return numbers[-1] if numbers else None


def _newer(data: bytes, after: int) -> bytes:
    """Return the frames without those up to an event, for an upstream that sends them again."""
    frames = [frame for frame in SSEParser().parse(data) if frame.data is not None]
    newer = [frame for frame in frames if (number := _number_of(frame)) is None or number > after]
    return b"".join(b"event: %b\ndata: %b\n\n" % (frame.event.encode(), _lines(frame.data)) for frame in newer)


def _lines(data: bytes | None) -> bytes:
    return (data or b"").replace(b"\n", b"\ndata: ")
