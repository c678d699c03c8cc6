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

from dragoman.aio.downstream.response import DownstreamResponse
from dragoman.aio.stream_timers import TEXTS, ClientGone, StreamTimers, ToolStallDetector
from dragoman.aio.trampoline import InlineTask
from dragoman.aio.upstream.interface import UpstreamResponse
from dragoman.canonical.events import Error, Event, Ping
from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import redact_failure
from dragoman.dialects.errors.redact import redact
from dragoman.errors import DragomanError, Failure, FailureKind, LimitExceeded, StreamTruncated, UpstreamStatusError
from dragoman.reply_context import ReplyContext
from dragoman.stages.base import Stage, pipeline
from dragoman.stages.passthrough import Observer, Passthrough
from dragoman.stages.violation import Violation
from dragoman.translate import Translation
from dragoman.wire.sse import COMMENT

log = logging.getLogger("dragoman")
DEFECT = Failure(FailureKind.API, "internal error of the gateway", 500)
"""What a client is told of a defect of ours."""
STOPPING = Failure(FailureKind.OVERLOADED, "the gateway is shutting down; please retry", 503)
"""What the clients of a stopping gateway are told (mapping §10.4)."""
_GIVEN_UP = Failure(FailureKind.OVERLOADED, "the gateway gave this request up; please retry", 503)
_PINGS = {Dialect.MESSAGES: b'event: ping\ndata: {"type":"ping"}\n\n'}


def ping_of(client: Dialect) -> bytes:
    """A heartbeat's frame in a client's dialect."""
    return _PINGS.get(client, COMMENT)


OnArrival = Callable[[Callable[[], None] | None], None]


class ProxyStream(NamedTuple):
    """A streamed reply whose first event was read. `batches` are the client's bytes, one batch per upstream read.

    `last` is the stage that is done with the last batch. `last_words(failure)` are the bytes that end the stream in an
    error where it stands now, or none if it has ended: an error of Responses carries on the sequence numbers and the
    response of the stream. `batches` must not be read after it. `on_arrival` is the answer's, if it has one.
    """

    batches: AsyncGenerator[bytes, None]
    last: Stage[Any, Any]
    error_tail: Callable[[Failure], bytes]
    on_arrival: OnArrival | None


async def open_proxy_stream(translation: Translation, answer: UpstreamResponse, watch: StreamTimers) -> ProxyStream:
    """The client's stream.

    Raises DragomanError if the stream fails before its first event. The stream's generator itself never does.
    """
    stages = translation.stages()
    first = stages[0]
    watch.await_event()
    on_arrival: OnArrival | None = getattr(answer, "on_arrival", None)
    if isinstance(first, Passthrough):
        context = translation.context
        source = answer.batches()
        passed, ended = await _first_bytes(source, first, context.limits.sse_frame)
        watch.begun()
        batches = _pass(passed, ended, source, first, context, watch)
        return ProxyStream(batches, first, _last_bytes(first, context), on_arrival)
    parser, reader, *between, writer, encoder = stages
    source = answer.batches()
    opening = await _first_events(source, parser, reader)
    watch.begun()
    events = pipeline(_read(opening, source, parser, reader, ToolStallDetector(watch)), *between)
    return ProxyStream(_write(events, writer, encoder), writer, _last_events(writer, encoder), on_arrival)


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


async def _first_events(
    source: AsyncGenerator[bytes, None], parser: Stage[Any, Any], reader: Stage[Any, list[Event]]
) -> list[Event]:
    """The first batch with an event that is not a sign of life. Raises if that is an error.

    Signs of life before it are let go: nothing could be sent for them, and their number has no bound.
    """
    try:
        async for data in source:
            if _begun(events := reader.feed(parser.feed(data))):
                return events
        _begun(_ended(parser, reader))
    except UpstreamStatusError:
        await source.aclose()
        raise
    raise StreamTruncated("upstream sent an empty event stream")


def _begun(events: list[Event]) -> bool:
    """Is there more than signs of life. Raises UpstreamStatusError if it is an error."""
    for event in events:
        if isinstance(event, Error):
            raise UpstreamStatusError(event.failure)
        if not isinstance(event, Ping):
            return True
    return False


async def _first_bytes(source: AsyncGenerator[bytes, None], stage: Passthrough, most: int) -> tuple[bytes, bool]:
    """The same for bytes that pass through, of which at most `most` are kept waiting; an error of the upstream's own
    is an event of theirs as any other. Beside them: was that all of the source."""
    seen: list[bytes] = []
    size = 0
    async for data in source:
        seen.append(passed := stage.feed(data))
        size += len(passed)
        if stage.begun:
            return b"".join(seen), stage.done
        failure = stage.fault
        if size > most:
            failure = LimitExceeded("sse_frame", most, upstream=True).failure
        if failure is not None:
            await source.aclose()
            raise UpstreamStatusError(failure)
    seen.append(stage.finish())
    if stage.begun:
        return b"".join(seen), True
    if stage.fault is not None:
        raise UpstreamStatusError(stage.fault)
    raise StreamTruncated("upstream sent an empty event stream")


def _ended(parser: Stage[Any, Any], reader: Stage[Any, list[Event]]) -> list[Event]:
    """What follows from the end of the source."""
    events: list[Event] = []
    if not parser.done and (frames := parser.finish()):
        events += reader.feed(frames)
    if not reader.done:
        events += reader.finish()
    return events


# The two ends of the pipeline drive two stages each: a hop between async generators costs more than all the work of
# such a stage, which on most batches only passes them on (measured: 3 % of a chunk's way each, and 600 bytes a stream).


async def _read(
    opening: list[Event],
    source: AsyncGenerator[bytes, None],
    parser: Stage[Any, Any],
    reader: Stage[Any, list[Event]],
    tools: ToolStallDetector,
) -> AsyncGenerator[list[Event], None]:
    """The upstream's bytes to events, behind the `opening` that was read already; a failure becomes the last event."""
    try:
        tools.check_frame(opening)
        yield opening
        del opening  # it holds the first frames' bytes, which have room for more
        if reader.done:
            return
        async for data in source:
            if events := reader.feed(parser.feed(data)):
                if tools.calls or len(events) > 1 or type(events[0]) not in TEXTS:
                    tools.check_frame(events)
                yield events
            if reader.done:
                return
            del data, events  # not kept for as long as the next ones take
    except DragomanError as error:
        yield [Error(error.failure)]
        return
    finally:
        await source.aclose()
    if events := _ended(parser, reader):
        yield events


async def _write(
    source: AsyncGenerator[list[Event], None], writer: Stage[list[Event], Any], encoder: Stage[Any, bytes]
) -> AsyncGenerator[bytes, None]:
    """Events to the client's bytes."""
    try:
        async for events in source:
            data = encoder.feed(writer.feed(events))
            if writer.done:
                encoder.finish()  # gives nothing, but judges whether the stream has its end
                if data:
                    yield data
                return
            if data:
                yield data
            del events, data
    finally:
        await source.aclose()
    if data := encoder.feed(writer.finish()) + encoder.finish():
        yield data


async def _pass(
    opening: bytes,
    ended: bool,
    source: AsyncGenerator[bytes, None],
    stage: Passthrough,
    context: ReplyContext,
    watch: StreamTimers,
) -> AsyncGenerator[bytes, None]:
    """Bytes that pass through; a failure becomes the last of them. In the end the context is told what was observed."""
    observer = stage.observer
    try:
        async with aclosing(source):
            calling = _note_calls(observer, watch)
            yield opening
            del opening
            if ended:
                return
            async for data in source:
                passed = stage.feed(data)
                if observer.tool_open or calling:
                    calling = _note_calls(observer, watch)
                if passed:
                    yield passed
                if stage.done:
                    return
        if passed := stage.finish():
            yield passed
    except DragomanError as error:
        yield stage.error(error.failure)
    finally:
        context.usage = observer.usage
        failure = observer.failure or stage.fault
        context.failure = redact_failure(failure, context.secrets) if failure is not None else None
        if observer.violations:
            context.violation = Violation(redact(observer.violations[0], context.secrets))


def _note_calls(observer: Observer, watch: StreamTimers) -> bool:
    """Tell the watch of calls in what passes through, as `ToolWatch` does of events. Gives whether one is open."""
    if not observer.tool_open:
        watch.tools_closed()
    elif observer.progressed:
        observer.progressed = False
        watch.tool_progressed()
    return observer.tool_open


async def send_proxy_stream(audience: DownstreamResponse, stream: ProxyStream, watch: StreamTimers) -> str:
    """Write the stream to the client: headers, then one write per batch, then the end of the body at once.

    Closes the stream whatever happens. Returns how it ended: `completed` (perhaps with an in-band error), `failed` or
    `abandoned`; only a cancellation is raised.
    """
    how = "completed"
    try:
        async with aclosing(stream.batches) as batches:
            direct = audience.direct if audience.opened else await audience.open()
            work = audience.send_body(batches, stream.last)
            if direct and stream.on_arrival is not None:
                pump = audience.inline_task = InlineTask(work, stream.on_arrival)
                pump.start()
                audience.flush()
                await pump
            else:
                audience.flush()
                await work
    except (ClientGone, ConnectionError):
        how = "abandoned"
    except asyncio.CancelledError:
        # The client left, or whoever runs this gave up on it. A cut stream would read as whole to some SDKs, so a
        # client that is still there is told.
        if audience.opened and not watch.client_gone():
            await _end_in_error(audience, stream, _GIVEN_UP)
        raise
    except Exception:
        # A defect of ours in mid-stream. Ending quietly would read as success, so the client is told in-band.
        log.exception("a stream failed by a defect")
        how = "failed"
        if not audience.opened:
            raise
        await _end_in_error(audience, stream, DEFECT)
    finally:
        watch.stop()
        audience.close()
    return how


async def _end_in_error(audience: DownstreamResponse, stream: ProxyStream, failure: Failure) -> None:
    """An in-band error and the end of the body, for a client that reads within half a second."""
    try:
        async with asyncio.timeout(0.5):
            if words := stream.error_tail(replace(failure)):
                await audience.write(words)
            await audience.end(b"")
    except (ConnectionError, TimeoutError):
        return
