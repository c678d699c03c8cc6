"""An upstream that records its requests, checks their credential, and answers each of its dialect's endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from dragoman.dialects import Dialect
from dragoman.wire import Json, json_loads
from support.gateways import served
from support.samples import dump, reply, text_stream


@dataclass
class Arrived:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """Its body."""
        found: Json = json_loads(self.body)
        return found


@dataclass
class RecordingHost:
    """An upstream of a dialect. With `tokens`, a request with another credential gets a 401 that repeats it."""

    dialect: Dialect
    header: str = "authorization"
    tokens: set[str] = field(default_factory=set)
    arrived: list[Arrived] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.arrived.append(Arrived(request.method, request.path_qs, headers, body))
        given = headers.get(self.header, "").removeprefix("Bearer ")
        if self.tokens and given not in self.tokens:
            error = {"type": "authentication_error", "message": f"wrong token {given}", "code": given, "param": given}
            own = {"x-request-id": given, "request-id": given, "retry-after": given}
            envelope = {"error": error} | ({"type": "error"} if self.dialect is Dialect.MESSAGES else {})
            return web.json_response(envelope, status=401, headers=own)
        if request.method == "GET":
            return web.json_response({"object": "list", "data": [{"id": "listed", "object": "model"}]})
        if "count" in request.path or "input_tokens" in request.path:
            return web.json_response({"object": "response.input_tokens", "input_tokens": 7, "totalTokens": 7})
        if "embeddings" in request.path:
            return web.json_response({"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 1}})
        if "transcriptions" in request.path:
            return web.json_response({"text": "spoken"})
        if not json_loads(body).get("stream"):
            return web.Response(body=dump(reply(self.dialect)), content_type="application/json")
        return web.Response(body=b"".join(text_stream(self.dialect)), content_type="text/event-stream")


@asynccontextmanager
async def recording_host(dialect: Dialect, header: str = "authorization") -> AsyncIterator[RecordingHost]:
    """A host that listens."""
    host = RecordingHost(dialect, header)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", host.answer)
    async with served(app) as (url, _):
        host.url = url
        yield host
