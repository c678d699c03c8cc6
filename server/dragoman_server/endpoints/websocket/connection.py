"""One WebSocket connection: it reads frames, runs turns in lanes, and closes when it is idle, too old or not wanted.

Each lane runs its turns one after another; lanes run at the same time. A close, or a client that disconnects, cancels
all turns, and with them their upstreams' responses.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from functools import partial

from aiohttp import WSCloseCode, web

from dragoman import ClientRequestError, DragomanError
from dragoman.aio import DEFECT, MaskedWebSocketResponse, next_turn
from dragoman.errors import FailureKind
from dragoman.gateway import RESPONSE_CREATE, RESPONSE_STEER, ClientFrame, steer_failed_frame
from dragoman_server.config.websocket import WebSocketOptions
from dragoman_server.endpoints.websocket.history import History, HistoryBudget
from dragoman_server.endpoints.websocket.turn import Turns, failure_frame
from dragoman_server.proxy.error_response import client_failure
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.routing.task_set import TaskSet

log = logging.getLogger("dragoman")
LANES = 32
"""Named lanes of one connection, as of the vendor's (responses §10)."""
CLOSE_SECONDS = 2.0
"""Seconds that a client has to receive and answer the close of its connection."""
_IGNORED = frozenset({"response.processed"})
"""Frames that Codex may send, and that need no answer."""


class _Lane:
    """The turns of one lane: one that runs, and messages that wait."""

    __slots__ = ("task", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.task: asyncio.Task[None] | None = None


class WebSocketConnection:
    """Serves the handshake `request` of the client `owner`.

    `options`, and the gateway's limits and timeouts, are fixed here.
    """

    def __init__(
        self, gateway: Gateway, request: web.Request, options: WebSocketOptions, budget: HistoryBudget, owner: bytes
    ) -> None:
        server = gateway.config.server
        self._gateway = gateway
        self._services = gateway.services
        self._request = request
        self._options = options
        self._size = server.limits.request_body
        """Bytes of a message, and of all that wait."""
        self._timeouts = server.timeouts
        # Without compression: its state is 300 KiB for each connection, and a few bytes could expand to any number.
        self._socket = MaskedWebSocketResponse(
            timeout=CLOSE_SECONDS, compress=False, max_msg_size=self._size, decode_text=False
        )
        self._history = History(options.responses, options.history, budget, self.leave, owner)
        self._turns = Turns(self._services, gateway.handler, request, self._socket, self._history, options.history)
        self._lanes: dict[str | None, _Lane] = {}
        self._running = asyncio.Semaphore(options.concurrent)
        self._busy = self._waiting = self._waiting_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._began = self._active = self._loop.time()
        self._leaving = gateway.leaving
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = TaskSet()
        """Pings, and the close."""

    async def run(self) -> web.WebSocketResponse:
        """Serve the connection until it is closed. Raises ConnectionError if the client disconnects first."""
        await self._socket.prepare(self._request)
        self._services.websockets.add(self)
        self._start_timer()
        try:
            while True:
                message = await self._socket.receive()
                if message.type is web.WSMsgType.TEXT:
                    await self._receive(message.data)
                elif message.type is web.WSMsgType.BINARY:
                    await self._close(WSCloseCode.UNSUPPORTED_DATA, "send text messages")
                else:
                    return self._socket
                size = len(message.data)
                del message  # as large as it is, until the next one
                await next_turn(size)  # the next message may be here already, and thousands more
        finally:
            await self._end()

    async def _end(self) -> None:
        """Cancel what still runs, and drop the history."""
        if self._timer is not None:
            self._timer.cancel()
        self._leaving = False  # it is closed
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, *self._tasks, return_exceptions=True)
        finally:  # the server may cancel this
            self._history.clear()
            self._services.websockets.remove(self)

    # --- messages ------------------------------------------------------------------------------------------------

    async def _receive(self, data: bytes) -> None:
        """Handle one text message. An error is awaited: a client that does not read is not read from either."""
        try:
            frame = await self._read(data)
        except ClientRequestError as error:
            if _is_utf8(data):
                await self._reject(error, None)
            else:  # RFC 6455 §8.1
                await self._close(WSCloseCode.INVALID_TEXT, "send text as UTF-8")
            return
        if frame.kind == RESPONSE_CREATE:
            try:
                self._create(frame, data)
            except DragomanError as error:
                await self._reject(error, frame.stream_id)
        elif frame.kind == RESPONSE_STEER:
            await self._send(steer_failed_frame(frame))
        elif frame.kind not in _IGNORED:
            wrong = ClientRequestError(("type",), f'expected "{RESPONSE_CREATE}", got {frame.kind[:100]!a}')
            await self._reject(wrong, frame.stream_id)

    def _create(self, frame: ClientFrame, data: bytes) -> None:
        """Begin a turn, or have it wait for its lane. Raises DragomanError."""
        if self._too_old:
            self._leaving = True
            self._close_if_idle()
            raise self._too_old_error()
        name = frame.stream_id
        lane = self._lanes.get(name)
        if lane is None:
            if name is not None and len(self._lanes) - (None in self._lanes) >= LANES:
                raise ClientRequestError(
                    ("stream_id",),
                    f"this WebSocket connection has reached its maximum number of distinct stream IDs ({LANES}): reuse "
                    "one, or open a new connection",
                    code="websocket_stream_limit_reached",
                )
            lane = self._lanes[name] = _Lane()
        if lane.task is None and self._busy < self._options.concurrent:
            self._start_lane(lane, frame)
            return
        if self._waiting >= self._options.queue or self._waiting_bytes + len(data) > self._size:
            message = "too many responses of this connection wait: wait for one to end, then send this one again"
            raise DragomanError(client_failure(FailureKind.RATE_LIMIT, message, 429, code="websocket_queue_full"))
        lane.waiting.append(data)
        self._waiting += 1
        self._waiting_bytes += len(data)
        if lane.task is None:
            self._start_lane(lane, None)

    def _start_lane(self, lane: _Lane, frame: ClientFrame | None) -> None:
        self._busy += 1
        lane.task = self._loop.create_task(self._run_lane(lane, frame))

    async def _run_lane(self, lane: _Lane, frame: ClientFrame | None) -> None:
        """Run a turn, and those that wait. A message that waits is kept as bytes, which need less memory."""
        try:
            while frame is not None or lane.waiting:
                async with self._running:
                    await self._run(frame or await self._next(lane))
                frame = None
        except ConnectionError:
            return  # the client has disconnected, which ends `run`
        finally:
            lane.task = None
            self._busy -= 1
            self._active = self._loop.time()
            if self._leaving:
                self._close_if_idle()

    async def _read(self, data: bytes) -> ClientFrame:
        """Read a message. Raises ClientRequestError."""
        return await compute(len(data), partial(ClientFrame.read, data), b"", self._request)

    async def _next(self, lane: _Lane) -> ClientFrame:
        data = lane.waiting.popleft()
        self._waiting -= 1
        self._waiting_bytes -= len(data)
        return await self._read(data)

    async def _run(self, frame: ClientFrame) -> None:
        """Run one turn, and send the error of one that has failed. Raises ConnectionError."""
        lane = frame.stream_id
        try:
            failed = await self._turns.run(frame)
        except DragomanError as error:
            await self._reject(error, lane)
            return
        except ConnectionError:
            raise
        except Exception:
            log.exception("a turn of a WebSocket failed by a defect")
            failed = failure_frame(DEFECT, lane)
        if failed is not None:
            await self._send(failed)

    async def _reject(self, error: DragomanError, lane: str | None) -> None:
        """Record a message that has no receipt, and send its error."""
        failure, gateway = error.failure, self._gateway
        caller = partial(gateway.services.named_keys.name_in, self._request.headers)
        gateway.services.rejections.record(
            "WebSocket", self._request.path, failure.status, failure, gateway.services.new_id(), caller
        )
        await self._send(failure_frame(failure, lane))

    async def _send(self, frame: bytes) -> None:
        await self._socket.send_frame(frame, web.WSMsgType.TEXT)

    # --- the end -------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Close the connection once its turns have ended."""
        self._leaving = True
        self._close_if_idle()

    def drop(self) -> None:
        """Close the connection without waiting for the client, who may still read what was sent."""
        transport = self._request.transport
        if transport is not None:
            transport.close()

    def _close_if_idle(self) -> None:
        if not self._busy and not self._socket.closed:
            self._tasks.begin(self._close(WSCloseCode.GOING_AWAY, "open a new connection"))

    async def _close(self, code: int, reason: str) -> None:
        with suppress(ConnectionError, RuntimeError):
            try:
                async with asyncio.timeout(2 * CLOSE_SECONDS):
                    await self._socket.close(code=code, message=reason.encode())
            except TimeoutError:
                self.drop()

    # --- the timer -----------------------------------------------------------------------------------------------

    @property
    def _too_old(self) -> bool:
        return self._loop.time() - self._began >= self._options.max_age

    def _too_old_error(self) -> DragomanError:
        minutes = self._options.max_age / 60
        message = (
            f"Responses websocket connection limit reached ({minutes:g} minutes). Create a new websocket connection to "
            "continue."
        )
        code = "websocket_connection_limit_reached"
        return DragomanError(client_failure(FailureKind.INVALID_REQUEST, message, 400, code=code))

    def _start_timer(self) -> None:
        timeouts = self._timeouts
        seconds = min(timeouts.heartbeat, timeouts.keep_alive / 4, max(self._options.max_age / 4, 0.01))
        self._timer = self._loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        """Close an idle connection that is too old or was idle too long; else send it a ping."""
        if self._socket.closed:
            return
        self._start_timer()
        if self._busy:
            self._tasks.begin(self._send_heartbeats())
            return
        if self._too_old:
            self._leaving = True
            self._tasks.begin(self._end_of_age())
        elif self._loop.time() - self._active >= self._timeouts.keep_alive:
            self.leave()
        else:
            self._tasks.begin(self._ping())

    async def _send_heartbeats(self) -> None:
        with suppress(ConnectionError, RuntimeError):
            await self._turns.send_heartbeats()

    async def _end_of_age(self) -> None:
        with suppress(ConnectionError):
            await self._send(failure_frame(self._too_old_error().failure, None))
        self._close_if_idle()

    async def _ping(self) -> None:
        with suppress(ConnectionError, RuntimeError):
            await self._socket.ping()


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
