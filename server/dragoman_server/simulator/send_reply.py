"""Sends the replies of the simulator: whole or as a stream, cut, in pieces or with pauses, as its scenario has it."""

from __future__ import annotations

import asyncio
import itertools
import re

import orjson
from aiohttp import web

from dragoman_server.simulator.ledger import Entry
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.state import SETTINGS, STREAMS, Received
from dragoman_server.simulator.steps import Ending, Scenario
from dragoman_server.simulator.vendors.known import VENDORS

_SPLIT_PAUSE = 0.001
"""Seconds between two writes that must not arrive in one read."""
_LEAD_BYTE = re.compile(rb"[\xc2-\xf4]")


def json_reply(request: web.Request, dialect: str, request_id: str, body: Json) -> web.Response:
    """Return a reply in JSON with the headers of its API."""
    headers = VENDORS[dialect].reply_headers(request_id, request.app[SETTINGS].clock())
    return web.Response(body=orjson.dumps(body), headers=headers, content_type="application/json")


async def send_stream(
    request: web.Request,
    received: Received,
    scenario: Scenario,
    frames: list[bytes],
    headers: dict[str, str],
    entry: Entry | None,
) -> web.StreamResponse:
    """Send a streamed reply; if the scenario cuts it, a part of it."""
    settings, streams = request.app[SETTINGS], request.app[STREAMS]
    response = web.StreamResponse(
        headers={**headers, "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    )
    received.status = 200
    pace = settings.pace
    rendered = frames
    if scenario.split_characters:
        frames, pace = _split_characters(b"".join(frames)), max(pace, _SPLIT_PAUSE)
    elif scenario.split:
        joined = b"".join(frames)
        frames = [joined[at : at + scenario.split] for at in range(0, len(joined), scenario.split)]
    with streams.counted():
        await response.prepare(request)
        for number, frame in enumerate(frames):
            if number and pace > 0:
                await asyncio.sleep(pace)
            elif number % 16 == 15:
                await asyncio.sleep(0)  # small writes never block, and the loop has other streams
            if scenario.silent and number == len(frames) // 2 and not await wait_for_client(request, settings.slow):
                raise ConnectionResetError("the client disconnected during a pause")
            await response.write(frame)
            if entry is not None and frames is rendered:
                entry.sent(frame)
        if entry is not None and frames is not rendered:
            for frame in rendered:
                entry.sent(frame)
        if scenario.ending is Ending.STALL and not await wait_for_client(request, settings.stall):
            raise ConnectionResetError("the client disconnected from a stalled stream")
        if scenario.ending is Ending.WHOLE:
            await response.write_eof()
        else:
            cut(request, scenario.ending)
    return response


async def send_whole(
    request: web.Request, scenario: Scenario, status: int, body: bytes, headers: dict[str, str]
) -> web.StreamResponse:
    """Send a whole reply; if the scenario cuts it, half of it or nothing."""
    if scenario.ending is Ending.STALL:
        await wait_for_client(request, request.app[SETTINGS].stall)
    if scenario.ending is Ending.WHOLE and not scenario.split_characters:
        return web.Response(status=status, body=body, headers=headers, content_type="application/json")
    response = web.StreamResponse(status=status, headers={**headers, "Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    if scenario.ending is Ending.WHOLE:
        for piece in _split_characters(body):
            await response.write(piece)
            await asyncio.sleep(_SPLIT_PAUSE)
        return response
    if scenario.ending is not Ending.STALL:
        await response.write(body[: len(body) // 2])
    cut(request, scenario.ending)
    return response


def _split_characters(data: bytes) -> list[bytes]:
    """Return the data in pieces that end after the first byte of each multi-byte character."""
    ends = [found.end() for found in _LEAD_BYTE.finditer(data)]
    return [data[start:end] for start, end in itertools.pairwise([0, *ends, len(data)])]


def cut(request: web.Request, ending: Ending) -> None:
    """Close the connection in the middle of a reply. Only a reset may lose data written before."""
    transport = request.transport
    if transport is not None:
        if ending is Ending.RESET:
            transport.abort()
        else:
            transport.close()


async def wait_for_client(request: web.Request, seconds: float) -> bool:
    """Wait for `seconds`, or until the client disconnects. Return True if it is still connected.

    It polls: aiohttp does not report a disconnect to a handler that writes nothing, unless its runner cancels handlers.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    step = 0.01
    while (left := until - loop.time()) > 0:
        transport = request.transport
        if transport is None or transport.is_closing():
            return False
        await asyncio.sleep(min(step, left))
        step = min(step * 1.5, 0.2)
    return True
