"""A streamed reply from the upstream's answer to the client's connection.

    answer.batches → stages → rescue → sink

Headers go out only after the first event was read, so that an early failure keeps a real HTTP status. After that every
failure becomes an in-band error of the client's dialect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple

from aiohttp import web

from ..context import ReplyContext
from ..errors import DragomanError, Failure, FailureKind, LimitExceeded, StreamTruncated, UpstreamStatusError
from ..events import Error, Event, Ping
from ..passthrough import Passthrough
from ..protocols import Dialect
from ..sse import COMMENT
from ..stages import Stage, pipeline
from ..translate import Translation
from .upstream import Answer
from .watch import ClientGone, ToolWatch, Watch

log = logging.getLogger("dragoman")
_DEFECT = Failure(FailureKind.API, "internal error of the gateway", 500)
STOPPING = Failure(FailureKind.OVERLOADED, "the gateway is shutting down; please retry", 503)
"""What the clients of a stopping gateway are told (design §7)."""
_GIVEN_UP = Failure(FailureKind.OVERLOADED, "the gateway gave this request up; please retry", 503)
_PINGS = {Dialect.MESSAGES: b'event: ping\ndata: {"type":"ping"}\n\n'}


class OpenStream(NamedTuple):
    """A streamed reply whose first event was read. `batches` are the client's bytes, one batch per upstream read.

    `last_words(failure)` are the bytes that end it in an error where it stands now, or none if it has ended: an error
    of Responses carries on the sequence numbers and the response of the stream. `batches` must not be read after it.
    """

    batches: AsyncGenerator[bytes, None]
    last_words: Callable[[Failure], bytes]


async def open_stream(translation: Translation, answer: Answer, watch: Watch) -> OpenStream:
    """The client's stream.

    Raises DragomanError if the stream fails before its first event. The stream's generator itself never does.
    """
    stages = translation.stages()
    first = stages[0]
    watch.await_event()
    if isinstance(first, Passthrough):
        most = translation.context.limits.sse_frame
        source = await _first_bytes(pipeline(answer.batches(), first), first, most)
        watch.begun()
        return OpenStream(_rescue_bytes(source, first, translation.context), _last_bytes(first, translation.context))
    parser, reader, *rest = stages
    *_, writer, encoder = rest
    events = await _first_events(pipeline(answer.batches(), parser, reader))
    watch.begun()
    return OpenStream(pipeline(_rescue_events(events), ToolWatch(watch), *rest), _last_events(writer, encoder))


def _last_bytes(stage: Passthrough, context: ReplyContext) -> Callable[[Failure], bytes]:
    def last_words(failure: Failure) -> bytes:
        if stage.done or stage.fault is not None:
            return b""
        context.failure = failure
        return stage.error(failure)

    return last_words


def _last_events(writer: Stage[Any, Any], encoder: Stage[Any, bytes]) -> Callable[[Failure], bytes]:
    def last_words(failure: Failure) -> bytes:
        # Past the stages between: what they hold back belongs to a reply that will not be whole.
        return encoder.feed(writer.feed([Error(failure)]))

    return last_words


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
    stream: OpenStream,
    watch: Watch,
    client: Dialect,
) -> str:
    """Write the stream to the client: headers, then one write per batch, then the end of the body at once.

    Closes the stream whatever happens. Returns how it ended: `completed` (perhaps with an in-band error), `failed` or
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
        async with aclosing(stream.batches) as batches:
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
            await _end_in_error(response, stream, _GIVEN_UP)
        raise
    except Exception:
        # A defect of ours in mid-stream. Ending quietly would read as success, so the client is told in-band.
        log.exception("a stream failed by a defect")
        how = "failed"
        if not response.prepared:
            raise
        await _end_in_error(response, stream, _DEFECT)
    finally:
        watch.stop()
        for task in beats:
            task.cancel()
    return how


async def _end_in_error(response: web.StreamResponse, stream: OpenStream, failure: Failure) -> None:
    """An in-band error and the end of the body, for a client that reads within half a second."""
    try:
        async with asyncio.timeout(0.5):
            if words := stream.last_words(replace(failure)):
                await response.write(words)
            await response.write_eof()
    except (ConnectionError, TimeoutError):
        return
