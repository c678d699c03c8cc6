"""The upstream simulator: `python -m dragoman_bench.upstream [--port N]` prints {"port": N, "pid": N} and serves.

A request's path selects the dialect, its model name the script (`wire.Script`). GET /bench/stats returns counts as
JSON, GET /bench/cancelled the last cancelled streams with their times; GET /bench/finish ends every paced stream
normally at its next event, so that the load client decides the duration.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import select
import signal
import socket
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import cast

from dragoman_bench import scenarios
from dragoman_bench.pacer import Pacer
from dragoman_bench.processes import open_files_limit, run_when_idle
from dragoman_bench.replies import Reply, chunk, head, reply
from dragoman_bench.turn_replies import turn_reply
from dragoman_bench.wire import PATHS, Script, read_script

_LARGEST_REQUEST = 64 * 1024 * 1024
_LARGEST_HEAD = 64 * 1024
_CANCELLED = 50_000
"""Number of cancelled streams whose times are kept."""
_BURST = 16
"""Maximum number of consecutive writes of one stream."""
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d{1,12})", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection:\s*close", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect:\s*100-continue", re.IGNORECASE)
_CHUNKED_END = b"0\r\n\r\n"
_COMMENT = chunk(b": keep-alive\n\n")


@dataclass(slots=True)
class Counts:
    """Counts since the start; `open` and `blocked` are current numbers.

    `cancelled` streams were disconnected before their end; `blocked` ones have a reader that does not read.
    """

    connections: int = 0
    connections_open: int = 0
    streams: int = 0
    open: int = 0
    blocked: int = 0
    finished: int = 0
    cancelled: int = 0
    replies: int = 0
    events: int = 0
    refused: int = 0


class Simulator:
    """Common state of all connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.counts = Counts()
        self.pacer = Pacer(loop)
        self.cancelled: deque[tuple[int, int]] = deque(maxlen=_CANCELLED)
        """The serial numbers of cancelled streams, and the times (monotonic ns) at which their connections ended."""
        self.finishing = 0
        """Streams with a serial number up to this one end at their next event."""

    def stats(self) -> bytes:
        """Return the body of /bench/stats."""
        return json.dumps({**asdict(self.counts), "cpu_ns": time.process_time_ns()}).encode()


class Stream:
    """One streamed reply."""

    __slots__ = ("connection", "gone", "interval_ns", "number", "reply", "script", "serial", "simulator", "texts")

    def __init__(self, simulator: Simulator, connection: Connection, sent: Reply, script: Script) -> None:
        self.simulator = simulator
        self.connection = connection
        self.reply = sent
        self.script = script
        self.number = 0
        self.gone = False
        self.texts: list[bytes] = []
        self.interval_ns = script.pace_ms * 1_000_000
        counts = simulator.counts
        counts.streams += 1
        counts.open += 1
        self.serial = counts.streams

    def begin(self) -> None:
        """Send the head and the first delta in one write, and schedule the rest.

        Paced streams are spread evenly over the interval, by multiples of the golden section.
        """
        script = self.script
        if script.joined:
            deltas = b"".join(self._delta() for _ in range(script.events))
            self.connection.write(self.reply.opening + deltas + self._end())
            return
        first = self.reply.opening + self._delta()
        if script.events == 1:
            self.connection.write(first + self._end())
            return
        self.connection.write(first)
        if script.is_blast:
            self._fork_blast()
        elif script.pace_ms:
            share = self.serial * 0.6180339887498949 % 1.0
            self.simulator.pacer.add(self, time.monotonic_ns() + self.interval_ns + int(share * self.interval_ns))
        else:
            self.simulator.loop.call_soon(self.burst)

    def tick(self) -> bool:
        """Send one paced delta, and the end after the last one."""
        if self.gone:
            return False
        data = self._delta()
        if self.number == self.script.events or self.serial <= self.simulator.finishing:
            self.connection.write(data + self._end())
            return False
        self.connection.write(data)
        return True

    def burst(self) -> None:
        """Send some deltas, one write per batch, then yield to the other streams."""
        connection, script = self.connection, self.script
        for _ in range(_BURST):
            if self.gone:
                return
            if connection.paused:
                connection.waiting = self
                self.simulator.counts.blocked += 1
                return
            data = self._delta()
            for _ in range(min(script.batch - 1, script.events - self.number)):
                data += self._delta()
            if self.number == script.events:
                connection.write(data + self._end())
                return
            connection.write(data)
        self.simulator.loop.call_soon(self.burst)

    def _fork_blast(self) -> None:
        """Write the rest in a process of its own, until the connection is closed.

        In this process it would delay the paced streams, and a delay would not be the gateway's.
        """
        if os.fork():
            return  # the connection stays open here, so that its end is noticed
        descriptor = self.connection.descriptor
        os.closerange(3, descriptor)  # the other connections are to end when the upstream closes them
        os.closerange(descriptor + 1, open_files_limit())
        run_when_idle()  # it shares a core with the paced streams
        writable = select.poll()
        writable.register(descriptor, select.POLLOUT)
        try:
            while True:
                data = memoryview(b"".join(self._piece() for _ in range(self.script.batch)))
                self.texts.clear()  # there is no end that would repeat them
                while data:
                    writable.poll()
                    data = data[os.write(descriptor, data) :]
        except OSError:
            return
        finally:
            os._exit(0)

    def _piece(self) -> bytes:
        return _COMMENT if self.script.comments else self._delta()

    def _delta(self) -> bytes:
        number = self.number
        between = self.reply.between(number, self.texts) if number in self.reply.breaks else b""
        self.number = number + 1
        last = self.number == self.script.events or (
            self.interval_ns > 0 and self.serial <= self.simulator.finishing and number > 0
        )
        self.simulator.counts.events += 1
        now = time.monotonic_ns()
        if self.reply.needs_texts:
            self.texts.append(self.reply.text(self.serial, number, now, last=last))
        return between + self.reply.delta(self.serial, number, now, last=last)

    def _end(self) -> bytes:
        closing = self.reply.closing(self.texts)
        counts = self.simulator.counts
        counts.open -= 1
        counts.finished += 1
        self.gone = True
        self.simulator.loop.call_soon(self.connection.ended)
        return closing


class Connection(asyncio.Protocol):
    """A client's connection: keep-alive, one request at a time.

    Writes go to the socket at once. The loop's transport would collect those of one turn into one segment, and an
    event's send time would be that of another's; it is used for what the socket does not take.
    """

    __slots__ = ("closes", "descriptor", "paused", "received", "simulator", "stream", "transport", "waiting")

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.transport: asyncio.Transport | None = None
        self.descriptor = -1
        self.received = b""
        self.stream: Stream | None = None
        self.waiting: Stream | None = None
        self.paused = False
        self.closes = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop. Data is written to the socket directly while its buffer has room."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=0)
        self.descriptor = transport.get_extra_info("socket").fileno()
        self.simulator.counts.connections += 1
        self.simulator.counts.connections_open += 1

    def connection_lost(self, error: Exception | None) -> None:
        """Count an unfinished stream as cancelled."""
        self.transport = None
        self.simulator.counts.connections_open -= 1
        if self.stream is not None and not self.stream.gone:
            self.stream.gone = True
            self.simulator.counts.open -= 1
            self.simulator.counts.cancelled += 1
            self.simulator.cancelled.append((self.stream.serial, time.monotonic_ns()))
            self.simulator.counts.blocked -= self.waiting is not None
        self.stream = self.waiting = None

    def pause_writing(self) -> None:
        """Called by the event loop: the transport buffers data."""
        self.paused = True

    def resume_writing(self) -> None:
        """Called by the event loop: the buffer is empty."""
        self.paused = False
        if self.waiting is not None:
            stream, self.waiting = self.waiting, None
            self.simulator.counts.blocked -= 1
            self.simulator.loop.call_soon(stream.burst)

    def write(self, data: bytes) -> None:
        """Write to the socket, or after buffered data."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if self.paused or transport.get_write_buffer_size():
            transport.write(data)
            return
        try:
            taken = os.write(self.descriptor, data)
        except BlockingIOError:
            taken = 0
        except OSError:
            transport.abort()
            return
        if taken < len(data):
            transport.write(data[taken:])

    def data_received(self, data: bytes) -> None:
        """Answer a complete request; one that arrives during a reply waits."""
        self.received = self.received + data if self.received else data
        if self.stream is None:
            self._next()

    def ended(self) -> None:
        """Called when the reply is sent."""
        self.stream = None
        if self.closes and self.transport is not None:
            self.transport.close()
        elif self.received:
            self._next()

    def _next(self) -> None:
        data = self.received
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > _LARGEST_HEAD:
                self._refuse(431, "the request's head is larger than 64 kB")
            return
        first = data[:end]
        if b"100-continue" in first and _EXPECTS.search(first) and len(data) == end + 4:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        length = _LENGTH.search(first)
        if length is not None:
            whole = end + 4 + int(length[1])
        elif _CHUNKED.search(first):
            whole = len(data) if data.endswith(_CHUNKED_END) else len(data) + 1
        else:
            whole = end + 4
        if whole > _LARGEST_REQUEST:
            self._refuse(413, "the request is larger than 64 MB")
        elif len(data) >= whole:
            self.received = data[whole:]
            self.closes = _CLOSES.search(first) is not None or b" HTTP/1.0" in first.partition(b"\r\n")[0]
            self._answer(first.partition(b"\r\n")[0].split(b" "), data[end + 4 : whole])

    def _answer(self, line: list[bytes], body: bytes) -> None:
        path = line[1].partition(b"?")[0].decode(errors="replace") if len(line) == 3 else ""
        if path == "/bench/stats":
            return self._json(200, self.simulator.stats())
        if path == "/bench/cancelled":
            return self._json(200, json.dumps({"cancelled": list(self.simulator.cancelled)}).encode())
        if path == "/bench/finish":
            self.simulator.finishing = self.simulator.counts.streams
            return self._json(200, self.simulator.stats())
        if path == "/health":
            return self._json(200, b"{}")
        if path == "/v1/models":  # smg routes no requests before it has the models of its worker
            return self._json(200, _catalogue())
        dialect = next((name for name, known in PATHS.items() if path.endswith(known.removeprefix("/v1"))), None)
        if dialect is None:
            return self._refuse(404, f"no dialect has the path {path[:200]!r}; known: {', '.join(PATHS.values())}")
        script = read_script(body)
        if script is None:
            return self._refuse(400, "the model must be named as bench-e200-p20-s32 or bench-whole")
        sent = turn_reply(dialect, script.events, script.size) if script.turn else reply(dialect, script.size)
        if script.whole:
            self.simulator.counts.replies += 1
            self.write(sent.whole)
            return self._continue()
        self.stream = Stream(self.simulator, self, sent, script)
        self.stream.begin()

    def _refuse(self, status: int, message: str) -> None:
        self.simulator.counts.refused += 1
        self.received, self.closes = b"", True
        self._json(status, json.dumps({"error": {"type": "invalid_request_error", "message": message}}).encode())

    def _json(self, status: int, body: bytes) -> None:
        first = head(b"application/json", b"content-length: %d" % len(body))
        self.write(first.replace(b"200 OK", b"%d -" % status, 1) + body)
        self._continue()

    def _continue(self) -> None:
        if self.closes or self.received:
            self.simulator.loop.call_soon(self.ended)


def _catalogue() -> bytes:
    models = [{"id": name, "object": "model", "created": 1, "owned_by": "bench"} for name in scenarios.models()]
    return json.dumps({"object": "list", "data": models}).encode()


async def serve(port: int = 0, unsent: int = 0) -> tuple[asyncio.Server, Simulator]:
    """Listen on 127.0.0.1. The kernel takes at most `unsent` bytes more than a connection's peer has room for, if that
    is not 0. Returns the server and the simulator."""
    loop = asyncio.get_running_loop()
    simulator = Simulator(loop)
    server = await loop.create_server(lambda: Connection(simulator), "127.0.0.1", port, backlog=4096)
    if unsent:
        for listener in server.sockets:  # accepted connections inherit it
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent)
    return server, simulator


async def _main(port: int, unsent: int, *, until_eof: bool) -> None:
    stop = asyncio.Event()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the processes of blasts are not waited for
    if until_eof:
        asyncio.get_running_loop().add_reader(0, stop.set)
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    server, simulator = await serve(port, unsent)
    print(json.dumps({"port": server.sockets[0].getsockname()[1], "pid": os.getpid()}), flush=True)
    gc.freeze()
    await stop.wait()
    server.close()
    simulator.pacer.close()


def main() -> None:
    """Serve until SIGINT, SIGTERM, or with --until-eof the end of stdin."""
    import uvloop

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--unsent",
        type=int,
        default=0,
        metavar="BYTES",
        help="the most that the kernel keeps of a stream that is not read, beside what its reader has room for",
    )
    parser.add_argument(
        "--until-eof", action="store_true", help="stop at the end of stdin, when the parent process ends"
    )
    parser.add_argument("--idle", action="store_true", help="run only while no other process wants this core")
    args = parser.parse_args()
    open_files_limit()
    if args.idle:
        run_when_idle()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(args.port, args.unsent, until_eof=args.until_eof))


if __name__ == "__main__":
    main()
