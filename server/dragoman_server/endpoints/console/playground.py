"""The playground: a request is explained while it is written, and sent as any client's request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from dragoman import Dialect, DragomanError
from dragoman.errors import FailureKind
from dragoman.wire import Json, json_loads
from dragoman_server.endpoints.console.recorder import Recorder
from dragoman_server.endpoints.console.request_diff import BODY_MAX, request_diff
from dragoman_server.endpoints.diagnostics import Diagnostics
from dragoman_server.proxy.error_response import client_failure
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.steps.admit import identify


class Playground:
    """The playground of one gateway."""

    def __init__(self, gateway: Gateway, recorder: Recorder) -> None:
        self._gateway = gateway
        self._services = gateway.services
        self._recorder = recorder
        self._diagnostics = Diagnostics(gateway)

    async def explain(self, request: web.Request) -> Json:
        """Return the explanation of a request, with the difference between the bodies. Nothing is sent.

        The query is that of `POST /v1/dragoman/explain`. `diff` is null if a body is too long to be compared.
        """
        caller = await identify(self._services, request)
        body, explained = await self._diagnostics.explained(request, caller)
        sent = orjson.dumps(explained["body"])
        diff: Any = None
        if len(body) <= BODY_MAX and len(sent) <= BODY_MAX:
            # In a thread, as a long history takes a while.
            diff = await asyncio.to_thread(_compared, body, sent, explained["losses"])
        return {**explained, "diff": diff}

    def sender(self, client: Dialect) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the endpoint that sends a request of a dialect, and records the stream."""
        endpoint = self._gateway.endpoints[client]

        async def send(request: web.Request) -> web.StreamResponse:
            with self._recorder.recording(request):
                return await endpoint(request)

        return send


def _compared(body: bytes, sent: bytes, losses: list[Json]) -> list[Json] | None:
    try:
        return request_diff(json_loads(body), json_loads(sent), losses)
    except (ValueError, RecursionError):
        raise DragomanError(
            client_failure(FailureKind.INVALID_REQUEST, "the request cannot be compared: it is nested too deeply", 400)
        ) from None
