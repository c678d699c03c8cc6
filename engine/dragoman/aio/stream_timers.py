"""All about time of one reply: upstream silence, tool stalls, client silence, slow readers, a client that left.

The hot path notes only that something happened, one attribute each. The loop's timer wheel looks at the notes at least
eight times per timeout and counts from the look that finds one: a timeout is never early and at most a quarter late.
The clock is the event loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from dragoman.aio.timer_wheel import timer_wheel
from dragoman.canonical.events import BlockEnd, BlockKind, BlockStart, Delta, Event, TextRun
from dragoman.errors import StreamTruncated, UpstreamTimeout

if TYPE_CHECKING:
    from dragoman.aio.timeouts import Timeouts


class ClientGone(Exception):
    """The client hung up. Nothing is left to tell it; the upstream is cancelled."""


class HeartbeatSink(Protocol):
    """The client's side of a stream whose headers are out. No call may raise."""

    def send_heartbeat(self) -> None:
        """Send a heartbeat, unless the client does not read."""
        ...

    def abort(self) -> None:
        """Drop the client."""
        ...

    def detach(self) -> None:
        """The reply takes its time: let go what is only needed to begin and end one."""
        ...


_TOOL = BlockKind.TOOL  # CPython 3.11 takes twenty times as long to find a member in its class
TEXTS = (Delta, TextRun)
"""What nearly all of a stream consists of. Batches of one of these need no `ToolWatch` while no call is open."""


class ToolStallDetector:
    """Looks through a stream's events and notes when an open tool call moved on. `calls` are the open ones' indexes."""

    __slots__ = ("_watch", "calls")

    def __init__(self, watch: StreamTimers) -> None:
        self._watch = watch
        self.calls: set[int] | None = None

    def check_frame(self, events: list[Event]) -> None:
        """Take a batch."""
        calls = self.calls
        for event in events:
            kind = type(event)
            if kind in TEXTS:
                if calls:
                    self._watch.tool_progressed()
            elif isinstance(event, BlockStart):
                if event.kind is _TOOL:
                    if calls is None:
                        calls = self.calls = set()
                    calls.add(event.index)
                    self._watch.tool_progressed()
            elif calls and isinstance(event, BlockEnd):
                calls.discard(event.index)
                if not calls:
                    self._watch.tools_closed()


class StreamTimers:
    """The timer of one reply. `attach` gives it the upstream to fail, `serve` the client to keep awake.

    `gone()` asks whether the client hung up: servers that do not cancel handlers tell nobody (T-75). `heard` and `told`
    are the notes of bytes from the upstream and to the client; whoever has some sets them.
    """

    __slots__ = (
        "_broken",
        "_client_active_at",
        "_fail",
        "_gone",
        "_loop",
        "_opened_at",
        "_sink",
        "_slot",
        "_started",
        "_timeouts",
        "_tool_at",
        "_tool_progressed",
        "_upstream_active_at",
        "_waiting",
        "_wheel",
        "_writing_since",
        "client_active",
        "upstream_active",
    )

    def __init__(
        self,
        timeouts: Timeouts,
        gone: Callable[[], bool] | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._timeouts = timeouts
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._fail: Callable[[BaseException], None] | None = None
        self._broken: Callable[[], bool] | None = None
        self._sink: HeartbeatSink | None = None
        self._gone = gone
        self._opened_at = self._upstream_active_at = self._client_active_at = self._loop.time()
        self.upstream_active = self.client_active = self._tool_progressed = False
        self._started = False
        self._waiting = False
        self._tool_at: float | None = None
        self._writing_since: float | None = None
        shortest = min(timeouts.first_byte, timeouts.idle, timeouts.tool_stall, timeouts.write, timeouts.heartbeat)
        self._wheel = timer_wheel(self._loop, shortest / 8)
        self._slot: int | None = self._wheel.add(self)

    def attach(self, fail: Callable[[BaseException], None], broken: Callable[[], bool] | None = None) -> None:
        """`fail(error)` must make the upstream's pending read raise `error`.

        `broken()` asks whether the connection ended without the read being told, for transports that may miss it.
        """
        self._fail, self._broken = fail, broken

    def serve(self, audience: HeartbeatSink) -> None:
        """The client's headers are out."""
        self._sink = audience
        self._client_active_at = self._loop.time()

    def await_event(self) -> None:
        """A stream is expected: signs of life do not stop the first-byte timer, `begun` does."""
        self._waiting = True
        self._started = False

    def begun(self) -> None:
        """The first event came."""
        self._waiting = False
        self._started = True

    def client_gone(self) -> bool:
        """Whether the client hung up."""
        return self._gone is not None and self._gone()

    def received(self) -> None:
        """Bytes came from the upstream: sets `heard`."""
        self.upstream_active = True

    def tool_progressed(self) -> None:
        """A tool call is open and moved on."""
        self._tool_progressed = True

    def tools_closed(self) -> None:
        """No tool call is open."""
        self._tool_progressed = False
        self._tool_at = None

    def writing(self) -> None:
        """The client does not take more at once: it is waited for."""
        self._writing_since = now = self._loop.time()
        self._note(now)

    def written(self) -> None:
        """It took it. The upstream's silence is counted from here: it was not read meanwhile."""
        now = self._loop.time()
        if self._tool_at is not None and self._writing_since is not None:
            # Only the time of the write itself: a sign of life, passed on, is no progress of the call.
            self._tool_at += now - self._writing_since
        self._writing_since = None
        self._client_active_at = self._upstream_active_at = now

    def upstream_done(self) -> None:
        """Nothing more is awaited from the upstream."""
        self._fail = self._broken = None

    def expire(self, error: BaseException) -> None:
        """Fail the upstream's read with `error`, if anything is still awaited from it."""
        fail, self._fail = self._fail, None
        if fail is not None:
            fail(error)

    def stop(self) -> None:
        """The reply is over."""
        if self._slot is not None:
            self._wheel.remove(self, self._slot)
            self._slot = None
        self._fail = self._broken = self._sink = self._gone = None

    def _note(self, now: float) -> None:
        """What happened since the last look counts as now."""
        if self.upstream_active:
            self.upstream_active = False
            self._upstream_active_at = now
            if not self._waiting:
                self._started = True
        if self.client_active:
            self.client_active = False
            self._client_active_at = now
        if self._tool_progressed:
            self._tool_progressed = False
            self._tool_at = now

    def on_tick(self, now: float, /) -> None:
        """The wheel's turn."""
        self._note(now)
        limits = self._timeouts
        if self._sink is not None:
            self._sink.detach()
        if self._writing_since is not None:
            if now - self._writing_since > limits.write and self._sink is not None:
                self._sink.abort()
            return
        if self._fail is None:
            self._beat(now)
            return
        if self.client_gone():
            self.expire(ClientGone())
            return
        self._beat(now)
        if self._broken is not None and self._broken():
            self.expire(StreamTruncated("upstream connection broke before the end of the stream"))
            return
        silent = now - self._upstream_active_at
        if self._tool_at is not None and now - self._tool_at > limits.tool_stall:
            self.expire(UpstreamTimeout("tool_stall", limits.tool_stall))
        elif not self._started:
            if (now - self._opened_at if self._waiting else silent) > limits.first_byte:
                self.expire(UpstreamTimeout("first_byte", limits.first_byte))
        elif silent > limits.idle:
            self.expire(UpstreamTimeout("idle", limits.idle))

    def _beat(self, now: float) -> None:
        if self._sink is not None and now - self._client_active_at >= self._timeouts.heartbeat:
            self._client_active_at = now
            self._sink.send_heartbeat()
