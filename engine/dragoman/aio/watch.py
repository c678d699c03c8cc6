"""One timer per reply that watches everything about time: upstream silence, tool stalls, client silence, slow readers.

The hot path only notes what happened (an attribute each); the timer looks at the notes a few times per timeout. The
clock is the event loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import StreamTruncated, UpstreamTimeout
from ..events import BlockEnd, BlockStart, Delta, Event, Kind

if TYPE_CHECKING:
    from .upstream import Timeouts


class ClientGone(Exception):
    """The client hung up. Nothing is left to tell it; the upstream is cancelled."""


class ToolWatch:
    """A stage on events that changes nothing: it notes whether a tool call is open and when it last moved on."""

    __slots__ = ("_open", "_watch", "done")

    def __init__(self, watch: Watch) -> None:
        self.done = False
        self._watch = watch
        self._open: set[int] = set()

    def feed(self, events: list[Event], /) -> list[Event]:
        """The same events."""
        for event in events:
            kind = type(event)
            if kind is Delta:
                if self._open:
                    self._watch.tool_moved()
            elif isinstance(event, BlockStart):
                if event.kind is Kind.TOOL:
                    self._open.add(event.index)
                    self._watch.tool_moved()
            elif isinstance(event, BlockEnd) and event.index in self._open:
                self._open.discard(event.index)
                if not self._open:
                    self._watch.tools_closed()
        return events

    def finish(self) -> list[Event]:
        """Nothing."""
        return []


class Watch:
    """The timer of one reply. `attach` gives it the upstream to fail, `serve` the client to keep awake.

    `gone()` asks whether the client hung up: servers that do not cancel handlers tell nobody (T-75).
    """

    __slots__ = (
        "_beat",
        "_broken",
        "_cut",
        "_fail",
        "_gone",
        "_handle",
        "_loop",
        "_opened_at",
        "_period",
        "_received_at",
        "_sent_at",
        "_started",
        "_timeouts",
        "_tool_at",
        "_waiting",
        "_writing_since",
    )

    def __init__(self, timeouts: Timeouts, gone: Callable[[], bool] | None = None) -> None:
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._fail: Callable[[BaseException], None] | None = None
        self._broken: Callable[[], bool] | None = None
        self._beat: Callable[[], None] | None = None
        self._cut: Callable[[], None] | None = None
        self._gone = gone
        now = self._loop.time()
        self._opened_at = self._received_at = self._sent_at = now
        self._started = False
        self._waiting = False
        self._tool_at: float | None = None
        self._writing_since: float | None = None
        shortest = min(timeouts.first_byte, timeouts.idle, timeouts.tool_stall, timeouts.write, timeouts.heartbeat)
        self._period = min(1.0, max(0.005, shortest / 4))
        self._handle = self._loop.call_later(self._period, self._tick)

    def attach(self, fail: Callable[[BaseException], None], broken: Callable[[], bool] | None = None) -> None:
        """`fail(error)` must make the upstream's pending read raise `error`.

        `broken()` asks whether the connection ended without the read being told, for transports that may miss it.
        """
        self._fail, self._broken = fail, broken

    def serve(self, beat: Callable[[], None], cut: Callable[[], None]) -> None:
        """The client's headers are out: `beat()` sends a heartbeat, `cut()` drops the client."""
        self._beat, self._cut = beat, cut
        self._sent_at = self._loop.time()

    def await_event(self) -> None:
        """A stream is expected: signs of life do not stop the first-byte timer, `begun` does."""
        self._waiting = True

    def begun(self) -> None:
        """The first event came."""
        self._waiting = False
        self._started = True

    def client_gone(self) -> bool:
        """Whether the client hung up."""
        return self._gone is not None and self._gone()

    def received(self) -> None:
        """Bytes came from the upstream."""
        self._received_at = self._loop.time()
        if not self._waiting:
            self._started = True

    def tool_moved(self) -> None:
        """A tool call is open and moved on."""
        self._tool_at = self._received_at

    def tools_closed(self) -> None:
        """No tool call is open."""
        self._tool_at = None

    def writing(self) -> None:
        """A write to the client begins."""
        self._writing_since = self._loop.time()

    def written(self) -> None:
        """It ended. The upstream's silence is counted from here: it was not read meanwhile."""
        now = self._loop.time()
        if self._tool_at is not None and self._writing_since is not None:
            # Only the time of the write itself: a sign of life, passed on, is no progress of the call.
            self._tool_at += now - self._writing_since
        self._writing_since = None
        self._sent_at = self._received_at = now

    def upstream_done(self) -> None:
        """Nothing more is awaited from the upstream."""
        self._fail = None

    def expire(self, error: BaseException) -> None:
        """Fail the upstream's read with `error`, if anything is still awaited from it."""
        fail, self._fail = self._fail, None
        if fail is not None:
            fail(error)

    def stop(self) -> None:
        """The reply is over."""
        self._handle.cancel()
        self._fail = self._beat = self._cut = self._gone = self._broken = None

    def _tick(self) -> None:
        now, limits = self._loop.time(), self._timeouts
        self._handle = self._loop.call_later(self._period, self._tick)
        if self._writing_since is not None:
            if now - self._writing_since > limits.write and self._cut is not None:
                self._cut()
            return
        if self._fail is not None and self.client_gone():
            self.expire(ClientGone())
            return
        if self._beat is not None and now - self._sent_at >= limits.heartbeat:
            self._sent_at = now
            self._beat()
        if self._fail is None:
            return
        if self._broken is not None and self._broken():
            self.expire(StreamTruncated("upstream connection broke before the end of the stream"))
            return
        silent = now - self._received_at
        if self._tool_at is not None and now - self._tool_at > limits.tool_stall:
            self.expire(UpstreamTimeout("tool_stall", limits.tool_stall))
        elif not self._started and (now - self._opened_at if self._waiting else silent) > limits.first_byte:
            self.expire(UpstreamTimeout("first_byte", limits.first_byte))
        elif self._started and silent > limits.idle:
            self.expire(UpstreamTimeout("idle", limits.idle))
