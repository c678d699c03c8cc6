"""One response over WebSocket: a `response.create` runs as a POST of the same request does, and its events are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from aiohttp import web
from multidict import CIMultiDict

from dragoman import ClientRequestError, DragomanError, Failure, error_response
from dragoman.aio import Downstream, StreamTimers, WebSocketStream, with_body
from dragoman.errors import FailureKind, LimitExceeded
from dragoman.gateway import (
    STORED_DIALECT,
    ClientFrame,
    OutputItems,
    error_frame,
    heartbeat_frame,
    join_items,
    stream_id_tail,
    warm_up_frames,
)
from dragoman.wire import json_loads
from dragoman_server.endpoints.websocket.history import History
from dragoman_server.proxy.error_response import CLIENT_GONE, client_failure
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.request_body import read_model
from dragoman_server.proxy.request_handler import RequestHandler
from dragoman_server.proxy.request_keys import CONTINUED, Continued
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services
from dragoman_server.steps.admit import admit_request

_HOP = ("connection", "upgrade", "content-length", "content-encoding", "transfer-encoding", "expect", "origin")
_PREVIOUS = "previous_response_id"
_NOT_FOUND = "previous_response_not_found"
"""The code by which clients know that they must send the whole conversation (responses §10)."""


def turn_headers(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Return the headers of a connection's requests: those of its handshake without those that are about it.

    The origin was checked then.
    """
    kept = CIMultiDict(headers)
    for name in [name for name in kept if name.lower() in _HOP or name.lower().startswith("sec-")]:
        kept.popall(name, None)
    kept["content-type"] = "application/json"
    return kept


class Turns:
    """Runs the turns of one connection: `request` is its handshake, `socket` the connection.

    `history` has the responses that they continue; `limit` is the number of bytes of a response's items up to which it
    can be continued.
    """

    def __init__(
        self,
        services: Services,
        handler: RequestHandler,
        request: web.Request,
        socket: web.WebSocketResponse,
        history: History,
        limit: int,
    ) -> None:
        self._services = services
        self._handler = handler
        self._request = request
        self._socket = socket
        self._history = history
        self._limit = limit
        self._headers = turn_headers(request.headers)
        self._silent: dict[str | None, Receipt] = {}
        """Lane → receipt of the turns that wait for their first event."""

    async def run(self, frame: ClientFrame) -> bytes | None:
        """Create one response, and send its events. The payload of the frame is dropped once it was sent on.

        Return the error frame, which is to be sent, if the request has failed before its first event. Raises
        ClientRequestError for a malformed request, LimitExceeded, and ConnectionError if the client has disconnected.
        """
        previous, own = frame.previous, await compute(frame.size, frame.items, b"", self._request)
        # The history has no items of conversations, so it cannot have a response that continues one either.
        elsewhere = frame.payload.get("conversation") is not None
        before = None if previous is None or elsewhere else await self._history.find(previous)
        continued = not elsewhere and (previous is None or before is not None)
        if frame.warm_up:
            if elsewhere:
                raise ClientRequestError(("conversation",), "needs a response with output: leave out `generate`")
            if not continued:
                raise _not_found(previous)
            await self._warm_up(frame, own)
            return None
        most = self._services.config.server.limits.request_body
        if before is not None and len(before) + len(own) > most:  # as the gateway would find, after several copies
            raise LimitExceeded("request_body", most, upstream=False)
        # An upstream of the same dialect may know a response that is unknown here, if it stored it.
        items = None if before is None else join_items(before, own)
        size = frame.size if items is None else len(items)
        body = await compute(size, partial(frame.body, items), b"", self._request)
        request = with_body(self._request, self._headers, body)
        if previous is not None and items is not None:
            request[CONTINUED] = Continued(previous, frame.length)
        del items, before, body  # the size of the input, for the duration of the reply
        frame.payload.clear()
        output = OutputItems(self._limit)
        lane, tail = frame.stream_id, stream_id_tail(frame.stream_id)

        def on_event(event: str, data: bytes) -> None:
            # Before its last event is sent: another lane may continue the response as soon as it is received.
            if output.add(event, data) and continued:
                self._history.add(output.response_id, previous, join_items(own, output.join()), lane)

        def open_stream(timers: StreamTimers, _: dict[str, str]) -> Downstream:
            self._silent.pop(lane, None)
            return WebSocketStream(self._socket, self._request, timers, tail, on_event)

        scope = RequestScope.begin(self._services, request, STORED_DIALECT)
        scope.open_stream = open_stream
        self._silent[lane] = scope.receipt
        try:
            response = await self._handler.answer(request, STORED_DIALECT, scope)
        finally:
            self._silent.pop(lane, None)
        if isinstance(response, web.Response) and response.status >= 400:
            if response.status == CLIENT_GONE:
                return None
            if previous is not None and continued:
                self._history.drop(previous, lane)
            return _error_of(response, lane, None if continued or elsewhere else previous)
        return None

    async def send_heartbeats(self) -> None:
        """Send a heartbeat for each turn that waits for its first event; afterwards its timers send them.

        Raises ConnectionError if the client has disconnected.
        """
        for lane, receipt in list(self._silent.items()):
            translation = receipt.translation
            if translation is not None and translation.context.knobs.heartbeats == "event":
                await self._socket.send_frame(heartbeat_frame(lane), web.WSMsgType.TEXT)
            else:
                await self._socket.ping()

    async def _warm_up(self, frame: ClientFrame, items: bytes) -> None:
        """Send a response without output, which is only to be continued. Nothing is sent upstream."""
        model = read_model(frame.payload)
        caller = await admit_request(self._services, with_body(self._request, self._headers, b""))
        caller.require_model(model)
        await self._services.count(caller.key, STORED_DIALECT)
        created = int(self._services.now())
        response_id, events = warm_up_frames(frame, self._services.new_id().removeprefix("req_"), created)
        self._history.add(response_id, frame.previous, items, frame.stream_id)
        for event in events:
            await self._socket.send_frame(event, web.WSMsgType.TEXT)


def _error_of(response: web.Response, lane: str | None, unknown: str | None) -> bytes:
    """Return the error frame for an error response. `unknown` is the id of a response that is not known here."""
    body = response.body
    assert isinstance(body, bytes)
    if unknown is not None and response.status == 400 and json_loads(body)["error"].get("param") == _PREVIOUS:
        return failure_frame(_not_found(unknown).failure, lane)
    return error_frame(response.status, body, response.headers, lane)


def failure_frame(failure: Failure, lane: str | None) -> bytes:
    """Return the error frame of a lane for a failure of the gateway's own."""
    error = error_response(STORED_DIALECT, failure)
    return error_frame(error.status, error.body, failure.headers, lane)


def _not_found(previous: str | None) -> DragomanError:
    message = f"Previous response with id {previous!r} not found."
    failure = client_failure(FailureKind.INVALID_REQUEST, message, 400, code=_NOT_FOUND)
    return DragomanError(replace(failure, param=_PREVIOUS))
