"""Streams an upstream's response to the client: opening, translation, sending, and errors within the stream.

    response.batches → driver → Downstream

A driver's stages end with the writer: what sends the frames encodes them.

The headers are sent only after the first event was read, so that an early failure has an HTTP status of its own. After
that every failure becomes an error event of the client's dialect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from dragoman.aio.batch_slices import LONG_BODY, WRITE_SLICE
from dragoman.aio.keep_reply import keep_frames
from dragoman.aio.long_jobs import off_loop
from dragoman.aio.long_work import next_turn
from dragoman.aio.stream_log import LoggedStage, is_enabled, logged_batches
from dragoman.aio.stream_timers import ClientGone, HeartbeatSink, StreamTimers
from dragoman.aio.trampoline import InlineTask
from dragoman.aio.upstream.interface import UpstreamResponse
from dragoman.canonical.events import Error, Ping
from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import redact_failure
from dragoman.errors import (
    DragomanError,
    Failure,
    FailureKind,
    FailureOrigin,
    LimitExceeded,
    StreamTruncated,
    UpstreamStatusError,
)
from dragoman.reply_context import ReplyContext
from dragoman.short_repr import short_repr
from dragoman.stages.base import EventBatch, ReplyPipeline, StreamDriver
from dragoman.stages.observer import Observer
from dragoman.stages.passthrough import Passthrough
from dragoman.translate_request import Translation
from dragoman.wire.sse import COMMENT, FrameBatch, encode_frames

if TYPE_CHECKING:
    from aiohttp import web

T = TypeVar("T")

log = logging.getLogger("dragoman")
DEFECT = Failure(FailureKind.API, "internal error of the gateway", 500, origin=FailureOrigin.PROXY, reason="defect")
"""The error sent to the client when an exception in this code ends its request."""
STOPPING = Failure(
    FailureKind.OVERLOADED,
    "the gateway is shutting down; please retry",
    503,
    origin=FailureOrigin.PROXY,
    reason="stopping",
)
"""The error sent to the clients of a gateway that shuts down (mapping §10.4)."""
_GIVEN_UP = Failure(
    FailureKind.OVERLOADED,
    "the gateway gave this request up; please retry",
    503,
    origin=FailureOrigin.PROXY,
    reason="given_up",
)


def ping_of(client: Dialect, heartbeats: str = "comment") -> bytes:
    """Return the heartbeat of a client before its stream, as the knob `heartbeats` selects it."""
    facts = client.facts
    return (heartbeats == "event" and facts.event_heartbeat) or facts.heartbeat


OnArrival = Callable[[Callable[[], None] | None], None]


@dataclass(slots=True)
class ProxyStream:
    """A stream whose first event was read, to be sent by `send_proxy_stream`.

    `frames` yields the client's frames, one batch per upstream read; it raises no DragomanError. `driver` is done with
    the last batch. `error_tail(failure)` returns the bytes that end the stream in an error at its current position (an
    error of Responses continues the sequence numbers), or b"" if it has ended; `frames` must not be read after it.
    `on_arrival` is that of a `PushedResponse`.
    """

    frames: AsyncGenerator[FrameBatch, None]
    driver: StreamDriver
    error_tail: Callable[[Failure], bytes]
    on_arrival: OnArrival | None

    def __repr__(self) -> str:
        return short_repr(self, "done" if self.driver.done else "")

    @property
    def has_ended(self) -> bool:
        """True if the upstream has sent the last event of a stream that passes through."""
        driver = self.driver
        return isinstance(driver, Passthrough) and (driver.observer.closed or driver.replayed)

    @property
    def batches(self) -> Self:
        """The client's bytes: the batches of `frames` as server-sent events. An async iterator with `aclose`."""
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return encode_frames(await anext(self.frames))

    async def aclose(self) -> None:
        """Close the stream, and the upstream's response."""
        await self.frames.aclose()

    def observe(self, sent: Callable[[bytes], None]) -> None:
        """Call `sent` with the bytes of each batch, and with those of `error_tail`, before they are sent."""
        self.frames = _observed(self.frames, sent)
        self.error_tail = partial(_observed_tail, self.error_tail, sent)


async def _observed(
    frames: AsyncGenerator[FrameBatch, None], sent: Callable[[bytes], None]
) -> AsyncGenerator[FrameBatch, None]:
    async with aclosing(frames):
        async for batch in frames:
            sent(encode_frames(batch))
            yield batch


def _observed_tail(error_tail: Callable[[Failure], bytes], sent: Callable[[bytes], None], failure: Failure) -> bytes:
    tail = error_tail(failure)
    sent(tail)
    return tail


class Downstream(HeartbeatSink, Protocol):
    """The client's side of a stream, to which `send_proxy_stream` sends: see `DownstreamResponse`."""

    inline_task: InlineTask[None] | None

    @property
    def opened(self) -> bool:
        """True once the headers are prepared."""
        ...

    @property
    def direct(self) -> bool:
        """True if `send_body` may run in an `InlineTask`."""
        ...

    @property
    def response(self) -> web.StreamResponse | None:
        """aiohttp's response, or None if the stream has none."""
        ...

    async def open(self) -> bool:
        """Prepare the headers. Return `direct`."""
        ...

    def flush(self) -> None:
        """Send the headers, if they were not sent with a batch."""
        ...

    async def send_body(self, frames: AsyncGenerator[FrameBatch, None], driver: StreamDriver) -> None:
        """Write the complete body. `driver` is done when a batch is the last one.

        Raises ConnectionError if the client disconnects, and the errors of `frames`.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Write complete frames. Raises ConnectionError if the client has disconnected."""
        ...

    async def end(self, last: bytes) -> None:
        """Write the last frames. Raises ConnectionError if the client has disconnected."""
        ...

    def close(self) -> None:
        """Stop a pending heartbeat."""
        ...


async def open_proxy_stream(translation: Translation, response: UpstreamResponse, timers: StreamTimers) -> ProxyStream:
    """Read the first event of an upstream's stream and return the stream for the client.

    Raises DragomanError if the stream fails before its first event.
    """
    driver = translation.stages()
    timers.await_event()
    on_arrival: OnArrival | None = getattr(response, "on_arrival", None)
    source = response.batches()
    context = translation.context
    debug = is_enabled()
    begin: Callable[[], FrameBatch]
    if isinstance(driver, Passthrough):
        if debug:
            source = logged_batches(source, f"{context.request_id} received")
        opening = await _first_bytes(source, driver, context.limits.sse_frame)
        begin = partial(bytes, opening)
        if not driver.replayed:
            context.response_id = driver.observer.response_id()
        timers.stream_started()
        if translation.direction.client.dialect.facts.heartbeat == COMMENT:
            timers.heartbeat = driver.heartbeat
    else:
        if debug:
            driver.parser = LoggedStage(driver.parser, f"{context.request_id} parser")
            driver.reader = LoggedStage(driver.reader, f"{context.request_id} reader")
            driver.writer = LoggedStage(driver.writer, f"{context.request_id} writer")
        try:
            events = await _first_events(source, driver)
        except UpstreamStatusError as error:
            raise UpstreamStatusError(redact_failure(error.failure, context.secrets)) from None
        begin = partial(driver.write, events)
        timers.stream_started()
        if context.knobs.heartbeats == "event" and translation.direction.client.dialect.facts.event_heartbeat:
            timers.heartbeat = driver.heartbeat
    frames = _drive(begin, source, driver, context, timers)
    if debug and isinstance(driver, Passthrough):
        frames = logged_batches(frames, f"{context.request_id} sent")
    return ProxyStream(frames, driver, partial(_error_tail, driver), on_arrival)


def first_failure(stream: ProxyStream) -> Failure | None:
    """Return the error that the upstream sent in the first batch of a stream that passes through, or None.

    It would be forwarded. In a translated stream, `open_proxy_stream` raises it.
    """
    driver = stream.driver
    return driver.observer.failure if isinstance(driver, Passthrough) else None


def _error_tail(driver: ReplyPipeline | Passthrough, failure: Failure) -> bytes:
    tail = encode_frames(driver.fail(failure))
    if tail and isinstance(driver, Passthrough):
        driver.report()
    return tail


async def _first_events(source: AsyncGenerator[bytes, None], pipeline: ReplyPipeline) -> EventBatch:
    """Return the first batch of events with an event other than pings. Raises UpstreamStatusError if that is an error.

    Pings before it are dropped: nothing can be sent for them yet, and their number has no bound.
    """
    size = 0
    try:
        async for data in source:
            size += len(data)
            if _has_content(events := pipeline.read(data)):
                return events
        if _has_content(events := await _compute(size, pipeline.read_end)):
            return events
    except UpstreamStatusError:
        await source.aclose()
        raise
    raise StreamTruncated("upstream sent an empty event stream")


def _has_content(events: EventBatch) -> bool:
    """Return whether an event is not a ping. Raises UpstreamStatusError if the first such event is an error."""
    for event in events:
        if isinstance(event, Error):
            raise UpstreamStatusError(event.failure)
        if not isinstance(event, Ping):
            return True
    return False


async def _first_bytes(source: AsyncGenerator[bytes, None], stage: Passthrough, limit: int) -> bytes:
    """Return the passed-through bytes up to the first event.

    At most `limit` bytes may come before it. An error event of the upstream's counts as an event.
    """
    pieces: list[bytes] = []
    size = received = 0
    async for data in source:
        received += len(data)
        pieces.append(passed := stage.feed(data))
        size += len(passed)
        if stage.begun:
            return b"".join(pieces)
        failure = stage.fault
        if size > limit:
            failure = LimitExceeded("sse_frame", limit, upstream=True).failure
        if failure is not None:
            await source.aclose()
            raise UpstreamStatusError(failure)
    pieces.append(await _compute(received, stage.finish))
    if stage.begun:
        return b"".join(pieces)
    if stage.fault is not None:
        raise UpstreamStatusError(stage.fault)
    raise StreamTruncated("upstream sent an empty event stream")


async def _compute(size: int, finish: Callable[[], T]) -> T:
    """Return the result of `finish`: in a thread if the body, of `size` bytes, is long, as it may be one document."""
    return await off_loop(None, finish) if size > LONG_BODY else finish()


# One generator drives all stages: a hop between two generators costs more than all the work of a stage, which on most
# batches only passes them on (measured: 3 % of the cost of a chunk each, and 600 bytes per stream).


async def _drive(
    begin: Callable[[], FrameBatch],
    source: AsyncGenerator[bytes, None],
    driver: ReplyPipeline | Passthrough,
    context: ReplyContext,
    timers: StreamTimers,
) -> AsyncGenerator[FrameBatch, None]:
    """Yield the client's frames: those of the opening, which `begin` returns, then those of `source`.

    A failure of the upstream becomes the last frame. The last batch of a reply that is stored waits until it is.
    """
    observer = driver.observer if isinstance(driver, Passthrough) else driver
    try:
        try:
            frames = begin()
            del begin  # it holds the first events: 0.8 of the 15 kB of an open stream
            tool_open = observer.tool_open and _record_tool_progress(observer, timers)
            while not driver.done:
                if frames:
                    yield frames
                del frames  # not kept while waiting: 0.15 kB
                frames = driver.feed(await anext(source))
                if observer.tool_open or tool_open:
                    tool_open = _record_tool_progress(observer, timers)
        except StopAsyncIteration:
            frames = driver.finish()
            if (size := len(encode_frames(frames))) > WRITE_SLICE:
                await next_turn(size)  # the batch before may have filled this one
        except DragomanError as error:
            frames = driver.fail(error.failure)
        if frames:
            if context.stored is not None:
                frames = await keep_frames(context.stored, frames)
            yield frames
    finally:
        await source.aclose()
        if isinstance(driver, Passthrough):
            driver.report()


def _record_tool_progress(observer: Observer | ReplyPipeline, timers: StreamTimers) -> bool:
    """Report the progress of tool calls to the timers, if one is open. Return whether a call is open."""
    if not observer.tool_open:
        timers.tools_closed()
    elif observer.progressed:
        observer.progressed = False
        timers.tool_progressed()
    return observer.tool_open


async def send_proxy_stream(downstream: Downstream, stream: ProxyStream, timers: StreamTimers) -> str:
    """Send a stream to the client: headers, one write per batch, and the end of the body with the last batch.

    Closes the stream in any case. Return how it ended: `completed` (perhaps with an error event), `failed` or
    `abandoned`. Raises CancelledError, and an unexpected exception if no headers were prepared.
    """
    ended = "completed"
    try:
        try:
            direct = downstream.direct if downstream.opened else await downstream.open()
            body = downstream.send_body(stream.frames, stream.driver)
            if direct and stream.on_arrival is not None:
                task = downstream.inline_task = InlineTask(body, stream.on_arrival)
                task.start()
                downstream.flush()
                await task
            else:
                downstream.flush()
                await body
        finally:
            await stream.frames.aclose()
    except (ClientGone, ConnectionError):
        ended = "abandoned"
    except asyncio.CancelledError:
        # The client disconnected, or the caller cancelled the stream. Some SDKs take a cut stream for a complete one,
        # so a client that is still connected gets an error.
        if downstream.opened and not timers.client_gone():
            await _end_in_error(downstream, stream, _GIVEN_UP)
        raise
    except Exception:
        # A defect of this code. Clients would take a silent end for success, so the client gets an error.
        log.exception("a stream failed by a defect")
        ended = "failed"
        if not downstream.opened:
            raise
        await _end_in_error(downstream, stream, DEFECT)
    finally:
        timers.stop()
        downstream.close()
    return ended


async def _end_in_error(downstream: Downstream, stream: ProxyStream, failure: Failure) -> None:
    """Send an error and the end of the body, if the client reads them within half a second."""
    try:
        async with asyncio.timeout(0.5):
            if tail := stream.error_tail(replace(failure)):
                await downstream.write(tail)
            await downstream.end(b"")
    except (ConnectionError, TimeoutError):
        return
