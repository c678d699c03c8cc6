"""The client-facing response of a stream: headers, one write per batch, heartbeats, and the end of the body.

aiohttp's writer takes five calls and a join for each chunk. Where the response is a plain chunked one, a batch is
framed here and written to the transport in one call; a long batch in slices, one per turn of the loop. The rest is
aiohttp's: keep-alive, signals, middlewares, the size in the access log. The first batch is sent with the headers, the
last one with the body's end. A stream that lasts, on a `HijackableConnection`, is detached from aiohttp and continues
with the transport alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol

from aiohttp import web
from aiohttp.http import StreamWriter

from dragoman.aio.batch_slices import WRITE_SLICE, write_slices
from dragoman.aio.downstream.aiohttp_internals import (
    DeferredHeadersResponse,
    add_sent_bytes,
    cancel_keep_alive_timer,
    end_body,
    plain_chunked_writer,
    send_headers,
    take_head,
)
from dragoman.aio.downstream.hijack import HijackableConnection, reset
from dragoman.aio.stream_timers import ClientGone, StreamTimers
from dragoman.aio.trampoline import InlineTask
from dragoman.aio.unsent import unsent
from dragoman.stages.base import StreamDriver
from dragoman.wire.sse import FrameBatch, encode_frames


class EventStream(DeferredHeadersResponse):
    """aiohttp's part of a streamed response. Its headers are sent with the first batch."""


class _FlowControl(Protocol):
    """The protocol of the transport, as far as it controls writing."""

    @property
    def writing_paused(self) -> bool: ...


class DownstreamResponse:
    """The client-facing streaming response: `open()` prepares the headers, `send_body()` writes the batches.

    `ping` is the frame of a heartbeat, if the timers have none. `inline_task` runs `send_body`, if it is not awaited
    directly. It is the `HeartbeatSink` of `timers` once the headers are prepared.
    """

    __slots__ = (
        "_body_started",
        "_connection",
        "_detached_task",
        "_ended",
        "_flow_control",
        "_heartbeat",
        "_ping",
        "_request",
        "_response",
        "_sent_now",
        "_timers",
        "_transport",
        "_writer",
        "inline_task",
    )

    def __init__(self, request: web.Request, response: web.StreamResponse, timers: StreamTimers, ping: bytes) -> None:
        self._request: web.Request | None = request
        self._response: web.StreamResponse | None = response
        """aiohttp's request and response; None once detached."""
        self._timers = timers
        self._ping = ping
        self._writer: StreamWriter | None = None
        """aiohttp's writer, if the body is written past it."""
        self._transport: asyncio.Transport | None = None
        """Set if the body is written to the transport directly."""
        self._flow_control: _FlowControl | None = None
        self._connection: HijackableConnection | None = None
        """Set once detached."""
        self._detached_task: InlineTask[None] | None = None
        """Runs `send_body` once detached."""
        self._body_started = False
        self._sent_now = 0
        """Bytes that `write_now` has written."""
        self._ended = False
        """True once the end of the body was written to the transport."""
        self._heartbeat: asyncio.Task[None] | None = None
        self.inline_task: InlineTask[None] | None = None

    def __repr__(self) -> str:
        if self._response is None:
            state = "detached"
        elif not self._response.prepared:
            state = "new"
        else:
            state = "direct" if self.direct else "through aiohttp"
        paused = " writing paused" if self._flow_control is not None and self._flow_control.writing_paused else ""
        return f"<DownstreamResponse {state}{' body started' if self._body_started else ''}{paused}>"

    @property
    def opened(self) -> bool:
        """True once the headers are prepared."""
        return self._response is None or self._response.prepared

    @property
    def direct(self) -> bool:
        """True if the body is written to the transport directly.

        `send_body` may then run in an `InlineTask`, as it waits only for the batches and for the client to read.
        """
        return self._transport is not None

    @property
    def response(self) -> web.StreamResponse | None:
        """aiohttp's response, or None once detached."""
        return self._response

    async def open(self) -> bool:
        """Prepare the headers. Return `direct`."""
        request, response = self._request, self._response
        assert request is not None
        assert response is not None
        writer = plain_chunked_writer(response, await response.prepare(request))
        if type(response) is EventStream and writer is not None:
            self._writer, self._transport, self._flow_control = writer, writer.transport, writer.protocol
        self._timers.attach_sink(self)
        return self.direct

    def flush(self) -> None:
        """Send the headers, if they were not sent with a batch."""
        if self._request is None:
            return
        try:
            send_headers(self._request)
        except ConnectionError:
            return  # the client has disconnected; the next write raises

    async def send_body(self, frames: AsyncGenerator[FrameBatch, None], driver: StreamDriver) -> None:
        """Write the complete body, one write per batch or slice. `driver` is done when a batch is the last one.

        Raises ConnectionError if the client disconnects, and the errors of `frames`.
        """
        timers, transport = self._timers, self._transport
        if transport is None:
            async for data in frames:
                if type(data) is not bytes:
                    data = encode_frames(data)
                timers.writing()
                if len(data) > WRITE_SLICE:
                    data = await self._write_slices(data)
                await self.write(data)
                timers.written()
            timers.writing()
            await self.end(b"")
            return
        last = b""
        size = 0
        try:
            async for data in frames:
                if type(data) is not bytes:
                    data = encode_frames(data)
                if (length := len(data)) > WRITE_SLICE:
                    data = await self._write_slices(data)
                    length = len(data)
                    timers.written()
                if driver.done:
                    last = data
                    break
                if transport.is_closing():
                    raise ConnectionResetError("the client hung up")
                framed = b"%x\r\n%b\r\n" % (length, data)
                if not self._body_started:
                    self._body_started = True
                    if self._writer is not None:
                        framed = take_head(self._writer) + framed
                transport.write(framed)
                size += len(framed)
                del data, framed  # not kept while waiting: 0.3 of the 15 kB of an open stream
                timers.client_active = True
                if (
                    transport.get_write_buffer_size()
                    and self._flow_control is not None
                    and self._flow_control.writing_paused
                ):
                    timers.writing()
                    await self._drain()
                    timers.written()
        finally:
            if self._writer is not None:
                add_sent_bytes(self._writer, size + self._sent_now)
        timers.writing()
        await self.end(last)

    async def _write_slices(self, data: bytes) -> bytes:
        """Write long data in slices. Return the last slice, which is not written.

        The write timer starts again with each slice, and still runs at the end. Meanwhile no heartbeat is sent: it
        would be in the middle of an event.
        """
        self._body_started = True
        written = 0

        async def write(piece: bytes) -> None:
            nonlocal written
            self._timers.writing()
            written += len(piece)
            await self.write(piece)

        try:
            return await write_slices(write, data)
        except asyncio.CancelledError:
            # An error event follows, if the client is still connected: it must not begin within another event.
            if self._transport is not None and not self._transport.is_closing():
                self._transport.write(_chunk(data[written:]))
            raise

    async def write(self, data: bytes) -> None:
        """Write a piece of the body. Raises ConnectionError if the client has disconnected."""
        if self._response is not None:
            await self._response.write(data)
        else:
            self._transmit(_chunk(data))
            await self._drain()

    def write_now(self, data: bytes) -> bool:
        """Write a batch between two others. Return False if it must wait, or if the client has disconnected.

        It must wait for the headers, for a client that does not read, and for its turn if it is long.
        """
        transport = self._transport
        if transport is None or not self._body_started or len(data) > WRITE_SLICE or transport.is_closing():
            return False
        if transport.get_write_buffer_size() and self._flow_control is not None and self._flow_control.writing_paused:
            return False
        framed = b"%x\r\n%b\r\n" % (len(data), data)
        transport.write(framed)
        self._sent_now += len(framed)
        self._timers.client_active = True
        return True

    async def end(self, last: bytes) -> None:
        """Write the last piece of the body. Raises ConnectionError if the client has disconnected."""
        if len(last) > WRITE_SLICE:
            last = await self._write_slices(last)
        if self._response is not None and self._transport is None:
            await self._response.write_eof(last)
        elif not self._ended:
            self._ended = True
            writer = self._writer
            framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last) if last else b"0\r\n\r\n"
            self._transmit(framed if writer is None else take_head(writer) + framed)
            if writer is not None and self._response is not None:
                end_body(self._response, writer)
            await self._drain()

    def _transmit(self, framed: bytes) -> None:
        """Write to the client past aiohttp."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client hung up")
        transport.write(framed)
        if self._writer is not None:
            add_sent_bytes(self._writer, len(framed))

    async def _drain(self) -> None:
        """Wait until the client reads."""
        if self._flow_control is None or not self._flow_control.writing_paused:
            return
        if self._writer is not None:
            await self._writer.drain()
        elif self._connection is not None:
            await self._connection.drain()

    def send_heartbeat(self) -> None:
        """Send a heartbeat, unless earlier bytes are still unsent, as the client does not read."""
        transport = self._transport
        if transport is None or self._flow_control is None:
            if self._heartbeat is None:
                self._heartbeat = asyncio.get_running_loop().create_task(self._write_heartbeat())
                self._heartbeat.add_done_callback(self._heartbeat_done)
        elif not self._flow_control.writing_paused and not transport.is_closing():
            framed = _chunk(self._heartbeat_frame())
            transport.write(framed)
            if self._writer is not None:
                add_sent_bytes(self._writer, len(framed))

    def _heartbeat_frame(self) -> bytes:
        heartbeat = self._timers.heartbeat
        return self._ping if heartbeat is None else heartbeat()

    async def _write_heartbeat(self) -> None:
        try:
            await self.write(self._heartbeat_frame())
        except (ConnectionError, RuntimeError):
            return  # the client has disconnected; the next write of `send_body` raises

    def _heartbeat_done(self, _: asyncio.Task[None]) -> None:
        self._heartbeat = None

    def detach(self) -> None:
        """Cancel aiohttp's keep-alive timer; detach the reply from aiohttp, if `send_body` runs in an inline task on a
        hijackable connection. Called at a stream's first tick, as most streams end earlier."""
        task, request, response = self.inline_task, self._request, self._response
        if request is None or response is None:
            return
        cancel_keep_alive_timer(request)
        if task is None or not task.running or not self._body_started:
            return
        flow_control, transport = self._flow_control, self._transport
        if transport is None or transport.is_closing() or flow_control is None or flow_control.writing_paused:
            return
        self.inline_task = None  # tried once: the reasons why a connection cannot be hijacked are permanent
        connection = HijackableConnection.of(request)
        if connection is None:
            return
        resume = connection.hijack(self, bool(response.keep_alive), response)
        if resume is not None:
            task.detach(resume)
            self._detached_task = task
            self._connection = self._flow_control = connection
            self._request = self._response = self._writer = None

    def connection_lost(self) -> None:
        """End a detached reply, as the client has disconnected and there is no handler to cancel."""
        self._timers.expire(ClientGone())
        if self._detached_task is not None:
            self._detached_task.cancel_wait()  # a wait for something else than the upstream, as for the store

    def abort(self) -> None:
        """Close the connection of a client that does not read, at once."""
        transport = self._transport if self._request is None else self._request.transport
        if transport is not None:
            reset(transport)

    def unsent(self) -> int:
        """Return the number of bytes that the client has not taken yet."""
        return unsent(self._transport if self._request is None else self._request.transport)

    def close(self) -> None:
        """Stop a pending heartbeat."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()


def _chunk(data: bytes) -> bytes:
    """Return one chunk of the chunked transfer coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)
