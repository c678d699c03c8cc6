"""A client of the Responses WebSocket, on aiohttp's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import aiohttp

from dragoman.dialects import Dialect
from support.samples import text_stream
from support.sockets import LAST_CHUNK, Send, Step, Wait, chunk, sse_head

Json = dict[str, Any]
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "openai-beta": "responses_websockets=2026-02-06",
}


@dataclass(slots=True)
class Speaking:
    """An open connection."""

    socket: aiohttp.ClientWebSocketResponse

    async def create(self, **fields: Any) -> None:
        """Send a `response.create` with these fields."""
        await self.socket.send_str(json.dumps({"type": "response.create", "model": "m", "input": "Hi", **fields}))

    async def event(self) -> Json:
        """The next event. Raises AssertionError if the connection ends."""
        message = await self.socket.receive(timeout=30)
        assert message.type is aiohttp.WSMsgType.TEXT, message
        event: Json = json.loads(message.data)
        return event

    async def until(self, kind: str) -> list[Json]:
        """The events up to the first one of a type."""
        events = [await self.event()]
        while events[-1]["type"] != kind:
            events.append(await self.event())
        return events

    async def turn(self, **fields: Any) -> list[Json]:
        """All events of one response, the error of one that was not begun included."""
        await self.create(**fields)
        return await self.rest()

    async def rest(self) -> list[Json]:
        """The events up to the end of a response."""
        events = [await self.event()]
        while events[-1]["type"] not in ENDS:
            events.append(await self.event())
        return events

    def abort(self) -> None:
        """Cut the connection."""
        connection = self.socket._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.abort()

    async def closed(self) -> int | None:
        """The code with which the gateway closes the connection, once it does."""
        async with asyncio.timeout(30):
            while (message := await self.socket.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
        if message.type is aiohttp.WSMsgType.CLOSE:
            return int(message.data)
        return self.socket.close_code


@asynccontextmanager
async def speaking(
    url: str, *, headers: Mapping[str, str] = MappingProxyType({}), **options: Any
) -> AsyncIterator[Speaking]:
    """A connection to the gateway at `url`, and its client's session."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/v1/responses", headers=headers, **options) as socket,
    ):
        yield Speaking(socket)


def kinds(events: list[Json]) -> list[str]:
    """The types of events."""
    return [event["type"] for event in events]


def text_of(events: list[Json]) -> str:
    """The text that the deltas of a response add up to."""
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


BEGUN = {Dialect.CHAT: 3, Dialect.MESSAGES: 4, Dialect.RESPONSES: 6, Dialect.GENERATE: 2}
"""Frames of a stream of text, one or two words of it included."""


def begun(upstream: Dialect) -> list[Step]:
    """The first frames of a stream of text."""
    return [Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(upstream)[: BEGUN[upstream]])]


def paused(upstream: Dialect, resume: asyncio.Event) -> list[Step]:
    """A stream that stops after its first frames until `resume` is set."""
    frames = [Send(chunk(frame)) for frame in text_stream(upstream)[BEGUN[upstream] :]]
    return [*begun(upstream), Wait(resume), *frames, Send(LAST_CHUNK)]
