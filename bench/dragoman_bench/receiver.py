"""A client's connection: sends a request and checks the reply to its end.

The hot path is `receive`, which shares its core with the upstream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import httptools

from dragoman_bench.delays import Delays
from dragoman_bench.wire import CLOCK, IN_BAND_ERROR, MARK, NUMBERS, REPEATING, TERMINAL

_LARGEST_EVENT = 16 * 1024 * 1024
_SHOWN = 400
_ENDS = (b"\n\n", b"\n\r\n")


@dataclass(slots=True)
class Tally:
    """Counts of all connections of a load. `live` are the open ones. Delays are counted only while `measuring`, as are
    the deltas `together` with a later one in one read: they have its time."""

    measuring: bool = False
    chunks: int = 0
    together: int = 0
    streams: int = 0
    replies: int = 0
    received: int = 0
    opened: int = 0
    begun: int = 0
    cut: int = 0
    delay: Delays = field(default_factory=Delays)
    first: Delays = field(default_factory=Delays)
    whole: Delays = field(default_factory=Delays)
    errors: dict[str, dict[str, Any]] = field(default_factory=dict)
    live: set[Receiver] = field(default_factory=set)

    def error(self, kind: str, example: str) -> None:
        """Count an error; the example of the first of its kind is kept."""
        known = self.errors.setdefault(kind, {"count": 0, "example": example[:_SHOWN]})
        known["count"] += 1


class Receiver(asyncio.Protocol):
    """One keep-alive connection, one reply at a time. `done(self, error)` is called at each reply's end.

    `started` is called at a stream's first delta, and `seen` counts the deltas of the current one.
    """

    __slots__ = (
        "_begun_at",
        "_bodies",
        "_complete",
        "_expected",
        "_framed",
        "_keep",
        "_last",
        "_parser",
        "_repeats",
        "_status",
        "_streamed",
        "_tail",
        "_terminal",
        "_terminated",
        "_tip",
        "active",
        "dialect",
        "done",
        "healthy",
        "number",
        "seen",
        "started",
        "tally",
        "transport",
    )

    def __init__(self, dialect: str, tally: Tally, done: Callable[[Receiver, str | None], None]) -> None:
        self.dialect = dialect
        self.tally = tally
        self.done = done
        self.started: Callable[[Receiver], None] | None = None
        self.transport: asyncio.Transport | None = None
        self.active = False
        self.number = 0
        """A number that the load may set for the current reply; it is not used here."""
        self.healthy = True
        self._terminal = TERMINAL[dialect]
        self._repeats = dialect == "responses"
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._bodies: list[bytes] = []
        self._reset(0, streamed=True)

    def _reset(self, at: int, *, streamed: bool) -> None:
        self._begun_at = at
        self._streamed = streamed
        self._complete = self._keep = self._framed = self._last = self._terminated = False
        self._status = 0
        self._expected = -1
        self._tail = self._tip = b""
        self.seen = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.transport = cast("asyncio.Transport", transport)
        self.tally.live.add(self)

    def send(self, request: bytes, at: int, *, streamed: bool = True) -> None:
        """Send a request. Times count from `at` (monotonic ns), which may be before this call."""
        self._reset(at, streamed=streamed)
        self.active = True
        self.tally.opened += 1
        assert self.transport is not None
        self.transport.write(request)

    def cut(self) -> None:
        """Disconnect in the middle of a reply; `done` is not called."""
        if self.active:
            self.active = False
            self.tally.cut += 1
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """End a reply that is framed by the connection's close, or report a truncated one."""
        self.transport = None
        self.tally.live.discard(self)
        if self.active:
            if self._status and not self._framed:
                self._check_end()
            elif self._status:
                self._finish("cut", f"closed inside the reply after {self.seen} deltas: {error!r} {self._excerpt()}")
            else:
                self._finish("no-reply", f"closed before the reply: {error!r}")
        self._parser = None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        assert self._parser is not None
        self._status = self._parser.get_status_code()
        self._keep = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._bodies.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._complete = self._status >= 200

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.receive(data, time.monotonic_ns())

    def receive(self, data: bytes, now: int) -> None:
        """Parse the data that arrived at `now` (monotonic ns), and look for deltas and the end."""
        self.tally.received += len(data)
        if self._parser is None or not self.active:
            if self.transport is not None:
                self.transport.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._finish("bad-http", f"{error!r} {data[:100]!r}")
            return
        bodies = self._bodies
        if bodies:
            text = bodies[0] if len(bodies) == 1 else b"".join(bodies)
            bodies.clear()
            if self._streamed and self._status == 200:
                self._find_deltas(text, now)
            elif len(self._tail) < _LARGEST_EVENT:
                self._tail += text
        if self._complete:
            self._check_end()

    def _find_deltas(self, text: bytes, now: int) -> None:
        """Find the deltas in the complete events; keep the rest for the next call."""
        if self._tail:
            text = self._tail + text
            self._tail = b""
        if not text.endswith(_ENDS):
            cut = max(text.rfind(b"\n\n") + 2, text.rfind(b"\n\r\n") + 3)
            if cut < 3:
                cut = 0
            text, self._tail = text[:cut], text[cut:]
            if len(self._tail) > _LARGEST_EVENT:
                self._finish("endless-event", f"an event larger than {_LARGEST_EVENT} bytes: {self._excerpt()}")
            if not text:
                return
        if self._last:
            # Kept as a flag: the event may be large, and data after it may push its name out of the tip.
            self._terminated = self._terminated or self._terminal in text
            self._tip = self._tip[-_SHOWN:] + text
            return
        deltas = text
        if self._repeats and REPEATING.search(text):
            deltas = b"\n\n".join(frame for frame in text.split(b"\n\n") if not REPEATING.search(frame))
        tally = self.tally
        marks = MARK.findall(deltas)
        if not marks:
            self._tip = text
            if IN_BAND_ERROR.search(text):
                self._finish("in-band", text.decode(errors="replace"))
            return
        expected = self._expected
        if expected < 0:
            expected = int(marks[0][0])
            if expected % NUMBERS:
                tally.error("lost-delta", f"the first delta has number {expected % NUMBERS}")
            tally.begun += 1
            tally.first.add(now - self._begun_at)
            if self.started is not None:
                self.started(self)
        for number, flag, sent in marks:
            if int(number) != expected:
                self._misplaced(int(number), expected)
            expected = int(number) + 1
            if tally.measuring:
                tally.delay.add((now - int(sent) + CLOCK // 2) % CLOCK - CLOCK // 2)
            if flag == b"!":
                self._last = True
                self._terminated = self._terminal in text
                self._tip = text
        tally.chunks += len(marks)
        if tally.measuring:
            tally.together += len(marks) - 1
        self.seen += len(marks)
        self._expected = expected

    def _misplaced(self, number: int, expected: int) -> None:
        if number // NUMBERS != expected // NUMBERS:
            kind = "mixed-streams"
        else:
            kind = "lost-delta" if number > expected else "repeated-delta"
        self.tally.error(kind, f"delta {number} instead of {expected}")

    def _check_end(self) -> None:
        """Check that a reply that is complete as HTTP is complete as a stream."""
        if self._status != 200:
            self._finish(f"status-{self._status}", self._excerpt())
        elif not self._streamed:
            marks = MARK.findall(self._tail)
            self._finish(None if len(marks) == 1 else "no-text", self._excerpt())
        elif not self._last:
            self._finish("cut", f"ended after {self.seen} deltas: {self._excerpt()}")
        elif not self._terminated:
            self._finish("no-terminal", self._excerpt())
        elif self._tail.strip():
            self._finish("half-event", f"the stream ends inside an event: {self._tail[:_SHOWN]!r}")
        else:
            self._finish(None, "")

    def _excerpt(self) -> str:
        return (self._tip + self._tail)[-_SHOWN:].decode(errors="replace")

    def _finish(self, error: str | None, example: str) -> None:
        if not self.active:
            return
        self.active = False
        tally = self.tally
        if error is not None:
            tally.error(error, example)
        else:
            if self._streamed:
                tally.streams += 1
            else:
                tally.replies += 1
            tally.whole.add(time.monotonic_ns() - self._begun_at)
        self.healthy = error is None and self._keep
        if not self.healthy and self.transport is not None:
            self.transport.abort()
        self.done(self, error)
