"""The simulator's endpoints for responses that run in the background."""

from __future__ import annotations

from aiohttp import web

from dragoman_server.simulator.api import STORED
from dragoman_server.simulator.background import BackgroundResponse, starting_after
from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.ledger import Entry
from dragoman_server.simulator.send_reply import json_reply
from dragoman_server.simulator.state import SETTINGS, STATE, STREAMS, Received
from dragoman_server.simulator.steps import Ending, Scenario
from dragoman_server.simulator.vendors.known import VENDORS


def begin(
    request: web.Request, scenario: Scenario, frames: list[bytes], entry: Entry | None, *, streamed: bool
) -> BackgroundResponse:
    """Begin a response that goes on without its client."""
    settings = request.app[SETTINGS]
    response = BackgroundResponse(
        frames,
        streamed=streamed,
        pace=settings.pace,
        sent=entry.sent if entry is not None else None,
        pause=(len(frames) // 2 if scenario.silent else -1, settings.slow),
        stall=settings.stall if scenario.ending is Ending.STALL else 0.0,
    )
    request.app[STATE].background.add(response)
    return response


async def follow(
    request: web.Request, background: BackgroundResponse, after: int, headers: dict[str, str]
) -> web.StreamResponse:
    """Send the events of a response in the background after this number."""
    response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream; charset=utf-8"})
    with request.app[STREAMS].counted():
        await response.prepare(request)
        async for frame in background.follow(after):
            await response.write(frame)
        await response.write_eof()
    return response


async def show(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    """Answer a request for a response in the background: its last state, or its events."""
    found = request.app[STATE].background.get(request.match_info["id"])
    if request.query.get("stream") == "true":
        if not found.streamed:
            raise RequestRejected("This response was not created with `stream`: it cannot be streamed.", "stream")
        headers = VENDORS[STORED].reply_headers(request_id, request.app[SETTINGS].clock())
        return await follow(request, found, starting_after(request.query.get("starting_after")), headers)
    return json_reply(request, STORED, request_id, found.state)


async def cancel(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    """Cancel a response in the background. One that has ended is returned as it is."""
    found = request.app[STATE].background.get(request.match_info["id"])
    found.cancel()
    return json_reply(request, STORED, request_id, found.state)
