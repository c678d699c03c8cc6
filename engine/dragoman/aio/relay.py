"""A streamed reply from the upstream's answer to the client's connection.

    answer.batches → stages → rescue → sink

Headers go out only after the first event was read, so that an early failure keeps a real HTTP status. After that every
failure becomes an in-band error of the client's dialect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from aiohttp import web

from ..context import ReplyContext
from ..directions import CODECS
from ..errors import DragomanError, Failure, FailureKind, LimitExceeded, StreamTruncated, UpstreamStatusError
from ..events import Error, Event, Ping
from ..passthrough import Passthrough
from ..protocols import Dialect
from ..sse import COMMENT, encode
from ..stages import pipeline
from ..translate import Translation
from .upstream import Answer
from .watch import ClientGone, ToolWatch, Watch

log = logging.getLogger("dragoman")
_DEFECT = Failure(FailureKind.API, "internal error of the gateway", 500)
STOPPING = Failure(FailureKind.OVERLOADED, "the gateway is shutting down; please retry", 503)
"""What the clients of a stopping gateway are told (design §7)."""
_GIVEN_UP = Failure(FailureKind.OVERLOADED, "the gateway gave this request up; please retry", 503)
_PINGS = {Dialect.MESSAGES: b'event: ping\ndata: {"type":"ping"}\n\n'}


async def open_stream(translation: Translation, answer: Answer, watch: Watch) -> AsyncGenerator[bytes, None]:
    """The client's bytes, one batch per upstream read; the first event has been read when this returns.

    Raises DragomanError if the stream fails before its first event. The generator itself never does.
    """
    stages = translation.stages()
    first = stages[0]
    watch.await_event()
    if isinstance(first, Passthrough):
        most = translation.context.limits.sse_frame
        source = await _first_bytes(pipeline(answer.batches(), first), first, most)
        watch.begun()
        return _rescue_bytes(source, first, translation.context)
    parser, reader, *rest = stages
    events = await _first_events(pipeline(answer.batches(), parser, reader))
    watch.begun()
    return pipeline(_rescue_events(events), ToolWatch(watch), *rest)


async def _first_events(source: AsyncGenerator[list[Event], None]) -> AsyncGenerator[list[Event], None]:
    """`source` read as far as its first event that is not a sign of life. Raises if that is an error.

    Signs of life before it are let go: nothing could be sent for them, and their number has no bound.
    """
    async for batch in source:
        for event in batch:
            if isinstance(event, Ping):
                continue
            if isinstance(event, Error):
                await source.aclose()
                raise UpstreamStatusError(event.failure)
            return _resume([batch], source)
    raise StreamTruncated("upstream sent an empty event stream")


async def _first_bytes(
    source: AsyncGenerator[bytes, None], stage: Passthrough, most: int
) -> AsyncGenerator[bytes, None]:
    """The same for bytes that pass through, of which at most `most` are kept waiting; an error of the upstream's own
    is an event of theirs as any other."""
    seen: list[bytes] = []
    size = 0
    async for batch in source:
        seen.append(batch)
        size += len(batch)
        if stage.begun:
            return _resume(seen, source)
        failure = stage.fault
        if size > most:
            failure = LimitExceeded("sse_frame", most, upstream=True).failure
        if failure is not None:
            await source.aclose()
            raise UpstreamStatusError(failure)
    raise StreamTruncated("upstream sent an empty event stream")


async def _resume(seen: list[Any], source: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    async with aclosing(source):
        for batch in seen:
            yield batch
        async for batch in source:
            yield batch


async def _rescue_events(source: AsyncGenerator[list[Event], None]) -> AsyncGenerator[list[Event], None]:
    """A failure of the source becomes the stream's last event."""
    try:
        async with aclosing(source):
            async for batch in source:
                yield batch
    except DragomanError as error:
        yield [Error(error.failure)]


async def _rescue_bytes(
    source: AsyncGenerator[bytes, None], stage: Passthrough, context: ReplyContext
) -> AsyncGenerator[bytes, None]:
    """The same for bytes that pass through; at the end the context is told what the observer saw."""
    observer = stage.observer
    try:
        async with aclosing(source):
            async for batch in source:
                yield batch
    except DragomanError as error:
        yield stage.error(error.failure)
    finally:
        context.usage = observer.usage
        context.failure = observer.failure or stage.fault
        if observer.violations:
            log.warning("%s upstream broke its grammar: %s", context.request_id, "; ".join(observer.violations))


async def send_stream(
    request: web.Request,
    response: web.StreamResponse,
    batches: AsyncGenerator[bytes, None],
    watch: Watch,
    client: Dialect,
) -> str:
    """Write the stream to the client: headers, then one write per batch, then the end of the body at once.

    Closes `batches` whatever happens. Returns how it ended: `completed` (perhaps with an in-band error), `failed` or
    `abandoned`; only a cancellation is raised.
    """
    how = "completed"
    beats: set[asyncio.Task[None]] = set()
    ping = _PINGS.get(client, COMMENT)

    async def beat_once() -> None:
        try:
            await response.write(ping)
        except (ConnectionError, RuntimeError):
            return  # the client is gone; the main loop finds out by itself

    def beat() -> None:
        if beats:
            return  # the last one has not left yet: this client does not read
        task = asyncio.get_running_loop().create_task(beat_once())
        beats.add(task)
        task.add_done_callback(beats.discard)

    def cut() -> None:
        if request.transport is not None:
            request.transport.abort()

    try:
        async with aclosing(batches):
            await response.prepare(request)
            watch.serve(beat, cut)
            async for data in batches:
                watch.writing()
                await response.write(data)
                watch.written()
            watch.writing()
            await response.write_eof()
    except (ClientGone, ConnectionError):
        how = "abandoned"
    except asyncio.CancelledError:
        # The client left, or whoever runs this gave up on it. A cut stream would read as whole to some SDKs, so a
        # client that is still there is told.
        if response.prepared and not watch.client_gone():
            await _end_in_error(response, client, _GIVEN_UP)
        raise
    except Exception:
        # A defect of ours in mid-stream. Ending quietly would read as success, so the client is told in-band.
        log.exception("a stream failed by a defect")
        how = "failed"
        if not response.prepared:
            raise
        await _end_in_error(response, client, _DEFECT)
    finally:
        watch.stop()
        for task in beats:
            task.cancel()
    return how


async def _end_in_error(response: web.StreamResponse, client: Dialect, failure: Failure) -> None:
    """An in-band error and the end of the body, for a client that reads within half a second."""
    try:
        async with asyncio.timeout(0.5):
            await response.write(encode(CODECS[client].observer().error_frame(failure)))
            await response.write_eof()
    except (ConnectionError, TimeoutError):
        return
