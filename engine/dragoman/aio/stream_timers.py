"""The timers of one exchange: first byte, idle, tool stall, client write, heartbeat; and a client that disconnected.

The hot path records only that something happened, one attribute each. The loop's timer wheel reads these records at
least eight times per timeout and counts from the tick that finds one: a timeout is never early and at most a quarter
late. The clock is the event loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, Self

from dragoman.aio.timeouts import Timeouts
from dragoman.aio.timer_wheel import timer_wheel
from dragoman.aio.unsent import SLOW_WRITES
from dragoman.errors import StreamTruncated, UpstreamTimeout


class ClientGone(Exception):
    """The client disconnected. No response can be sent, and the upstream's is cancelled."""


class HeartbeatSink(Protocol):
    """The client's side of a stream whose headers were sent. Its methods must not raise."""

    def send_heartbeat(self) -> None:
        """Send a heartbeat, unless the client does not read."""
        ...

    def abort(self) -> None:
        """Close the client's connection at once."""
        ...

    def unsent(self) -> int:
        """Return the number of bytes that the client has not taken yet."""
        ...

    def detach(self) -> None:
        """Free what only the start and the end of a reply need: the reply lasts. Called at each tick."""
        ...


class StreamTimers:
    """The timers of one exchange. They run from creation until `stop`, or until the end of their `with`.

    `is_client_gone()` returns True if the client has disconnected: servers that do not cancel handlers have no other
    sign (T-75). A transport calls `attach`, a streamed response `attach_sink`. Set `upstream_active` when bytes came
    from the upstream and `client_active` when bytes were sent to the client.
    """

    __slots__ = (
        "_awaiting_event",
        "_client_active_at",
        "_fail",
        "_is_broken",
        "_is_client_gone",
        "_loop",
        "_opened_at",
        "_sink",
        "_started",
        "_stuck",
        "_timeouts",
        "_tool_at",
        "_tool_progressed",
        "_upstream_active_at",
        "_wheel",
        "_wheel_slot",
        "_writing_since",
        "client_active",
        "heartbeat",
        "upstream_active",
    )

    def __init__(
        self,
        timeouts: Timeouts,
        is_client_gone: Callable[[], bool] | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._timeouts = timeouts
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._fail: Callable[[BaseException], None] | None = None
        self._is_broken: Callable[[], bool] | None = None
        self._sink: HeartbeatSink | None = None
        self._is_client_gone = is_client_gone
        self._opened_at = self._upstream_active_at = self._client_active_at = self._loop.time()
        self.upstream_active = self.client_active = self._tool_progressed = False
        self.heartbeat: Callable[[], bytes] | None = None
        """Returns the heartbeat for the state of the stream, as an encoded frame. None: the sink has its own."""
        self._started = False
        """True once the first-byte timer has stopped and the idle timer runs."""
        self._awaiting_event = False
        """True if only a first event starts the idle timer, not the first bytes."""
        self._tool_at: float | None = None
        self._writing_since: float | None = None
        self._stuck: tuple[float, int, float] | None = None
        """Of the write that waits: its start, the bytes unsent at the last tick, and the last tick that found fewer."""
        shortest = min(timeouts.first_byte, timeouts.idle, timeouts.tool_stall, timeouts.write, timeouts.heartbeat)
        self._wheel = timer_wheel(self._loop, shortest / 8)
        self._wheel_slot: int | None = self._wheel.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        if self._wheel_slot is None:
            return "<StreamTimers stopped>"
        now = self._loop.time()
        upstream = "upstream done" if self._fail is None else "streaming" if self._started else "awaiting first byte"
        parts = [
            upstream,
            f"idle={now - self._upstream_active_at:.1f}s",
            f"client={now - self._client_active_at:.1f}s",
        ]
        if self._tool_at is not None:
            parts.append(f"tool={now - self._tool_at:.1f}s")
        if self._writing_since is not None:
            parts.append(f"writing={now - self._writing_since:.1f}s")
        return f"<StreamTimers {' '.join(parts)}>"

    def attach(self, fail: Callable[[BaseException], None], is_broken: Callable[[], bool] | None = None) -> None:
        """Set the upstream: `fail(error)` must make its pending read raise `error`.

        `is_broken()` returns True if the connection has ended without waking the read, for transports that miss it.
        """
        self._fail, self._is_broken = fail, is_broken

    def attach_sink(self, sink: HeartbeatSink) -> None:
        """Set the client's side, whose headers were prepared: heartbeats are sent from now on."""
        self._sink = sink
        self._client_active_at = self._loop.time()

    def await_event(self) -> None:
        """Keep the first-byte timer running until `stream_started`: bytes without an event do not stop it."""
        self._awaiting_event = True
        self._started = False

    def stream_started(self) -> None:
        """Stop the first-byte timer: the first event was received."""
        self._awaiting_event = False
        self._started = True

    def restart(self, delay: float = 0.0) -> None:
        """Start the upstream's timers again for a further request to an upstream, `delay` seconds from now.

        Until then no timer expires, but heartbeats are sent, and a client that disconnects is noticed.
        """
        self._fail = self._is_broken = self.heartbeat = None
        self._started = self._awaiting_event = self._tool_progressed = self.upstream_active = False
        self._tool_at = None
        self._opened_at = self._upstream_active_at = self._loop.time() + delay

    def client_gone(self) -> bool:
        """Return whether the client has disconnected."""
        return self._is_client_gone is not None and self._is_client_gone()

    def received(self) -> None:
        """Record bytes from the upstream: sets `upstream_active`."""
        self.upstream_active = True

    def tool_progressed(self) -> None:
        """Record progress of an open tool call."""
        self._tool_progressed = True

    def tools_closed(self) -> None:
        """Stop the tool timer: no tool call is open."""
        self._tool_progressed = False
        self._tool_at = None

    def writing(self) -> None:
        """Start the write timer: a write waits for the client to read."""
        self._writing_since = now = self._loop.time()
        self._update(now)

    def written(self) -> None:
        """Stop the write timer. The idle timer starts again, as the upstream was not read meanwhile."""
        now = self._loop.time()
        if self._tool_at is not None and self._writing_since is not None:
            # Only the duration of the write is added: a ping that was passed on is no progress of the call.
            self._tool_at += now - self._writing_since
        self._writing_since = None
        self._client_active_at = self._upstream_active_at = now

    def upstream_done(self) -> None:
        """Stop the upstream's timers: nothing more is expected from it."""
        self._fail = self._is_broken = None

    def expire(self, error: BaseException) -> None:
        """Make the upstream's pending read raise `error`, unless nothing more is expected from it."""
        fail, self._fail = self._fail, None
        if fail is not None:
            fail(error)
            error.__traceback__ = None  # it has this frame, which keeps the error: see `trampoline`

    def stop(self) -> None:
        """Stop all timers: the exchange is over."""
        if self._wheel_slot is not None:
            self._wheel.remove(self, self._wheel_slot)
            self._wheel_slot = None
        self._fail = self._is_broken = self._sink = self._is_client_gone = self.heartbeat = None

    def _update(self, now: float) -> None:
        """Date what was recorded since the last tick to `now`."""
        if self.upstream_active:
            self.upstream_active = False
            self._upstream_active_at = now
            if not self._awaiting_event:
                self._started = True
        if self.client_active:
            self.client_active = False
            self._client_active_at = now
        if self._tool_progressed:
            self._tool_progressed = False
            self._tool_at = now

    def on_tick(self, now: float, /) -> None:
        """Check all timers: called by the timer wheel."""
        self._update(now)
        timeouts = self._timeouts
        if self._sink is not None:
            self._sink.detach()
        if self._writing_since is not None:
            if self._sink is not None:
                self._check_write(self._sink, self._writing_since, now)
            return
        if self._fail is None:
            self._send_due_heartbeat(now)
            return
        if self.client_gone():
            self.expire(ClientGone())
            return
        self._send_due_heartbeat(now)
        if self._is_broken is not None and self._is_broken():
            self.expire(StreamTruncated("upstream connection broke before the end of the stream"))
            return
        idle = now - self._upstream_active_at
        if self._tool_at is not None and now - self._tool_at > timeouts.tool_stall:
            self.expire(UpstreamTimeout("tool_stall", timeouts.tool_stall))
        elif not self._started:
            if (now - self._opened_at if self._awaiting_event else idle) > timeouts.first_byte:
                self.expire(UpstreamTimeout("first_byte", timeouts.first_byte))
        elif idle > timeouts.idle:
            self.expire(UpstreamTimeout("idle", timeouts.idle))

    def _check_write(self, sink: HeartbeatSink, since: float, now: float) -> None:
        """Close the client's connection if it has taken nothing for the write timeout, or not all for ten of them."""
        unsent, progressed = sink.unsent(), since
        if self._stuck is not None and self._stuck[0] == since:
            progressed = now if unsent < self._stuck[1] else self._stuck[2]
        self._stuck = since, unsent, progressed
        write = self._timeouts.write
        if now - progressed > write or now - since > SLOW_WRITES * write:
            sink.abort()

    def _send_due_heartbeat(self, now: float) -> None:
        if self._sink is not None and now - self._client_active_at >= self._timeouts.heartbeat:
            self._client_active_at = now
            self._sink.send_heartbeat()
