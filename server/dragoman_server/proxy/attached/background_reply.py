"""A response that its upstream generates in the background: it goes on unless it is cancelled there."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from dragoman.aio import UpstreamResponse
from dragoman.threads import is_response_id
from dragoman.wire import Json, SSEParser, json_loads

log = logging.getLogger("dragoman")
_END = re.compile(rb"\nevent: ?response\.(?:completed|failed|incomplete|cancelled)\r?\n")
_KEPT = 64
"""Bytes of a read that are looked at again with the next one: the line of an event that has come in part."""


class BackgroundReply:
    """The response `inner`. It is cancelled at the upstream if it is closed before its end.

    Args:
        inner: The response.
        cancel: Cancels the response of this id.
        known: Called with the id when it is known, before anything that follows it is returned.
        response_id: The id, if it is known already.
    """

    def __init__(
        self,
        inner: UpstreamResponse,
        cancel: Callable[[str], Awaitable[None]],
        known: Callable[[str], Awaitable[None]] | None = None,
        response_id: str = "",
    ) -> None:
        self._inner = inner
        self._cancel = cancel
        self._known = known
        self._id = response_id
        self._parser = SSEParser() if not response_id else None
        self._tail = b"\n"
        self._has_ended = False
        self.status, self.headers = inner.status, inner.headers
        if (on_arrival := getattr(inner, "on_arrival", None)) is not None:
            self.on_arrival = on_arrival

    async def read(self, limit: int) -> bytes:
        """Return the whole body, as `UpstreamResponse.read` does."""
        return await self._inner.read(limit)

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, one network read at a time. Raises as `UpstreamResponse.batches` does."""
        async with aclosing(self._inner.batches()) as source:
            async for data in source:
                if self._parser is not None:
                    await self._find_id(self._parser, data)
                if _END.search(read := self._tail + data) is not None:
                    self._has_ended = True
                self._tail = read[-_KEPT:]
                yield data

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
