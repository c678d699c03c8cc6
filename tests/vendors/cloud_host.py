"""A simulated host of a cloud. It checks the addressing, and leaves the rest to a strict host or to Gemini."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

import orjson
from aiohttp import web

from dragoman_server.simulator import render_generate
from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.scenarios import scenario_for
from dragoman_server.simulator.vendors.gemini import VENDOR
from oracles.gemini import Gemini
from oracles.requests import generate
from support.gateways import served
from support.sigv4 import verify
from vendors.clouds import GENERATE, Cloud
from vendors.sdk_types import Misfit
from vendors.strict_host import KEY, Arrived, StrictHost

SECRET = "secret-of-the-cloud"
_SCRIPT = "sim-thinking"
_CREDENTIALS = frozenset(("authorization", "x-api-key", "api-key", "x-goog-api-key"))


@dataclass
class _Request:
    """A request as the strict host of an ordinary vendor gets it."""

    path: str
    method: str
    headers: dict[str, str]
    body: Json

    async def read(self) -> bytes:
        return orjson.dumps(self.body)


@dataclass
class CloudHost:
    """A host that listens at `url`. `arrived` are its requests, in order; `token` is the key that it accepts."""

    cloud: Cloud
    token: str = KEY
    arrived: list[Arrived] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self._strict = StrictHost(self.cloud.host)
        self._gemini = Gemini()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The reply to one request."""
        raw = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        body: Json = orjson.loads(raw)
        arrived = Arrived(request.path, headers, body)
        self.arrived.append(arrived)
        found = re.fullmatch(self.cloud.path, request.path)
        arrived.refused = [*self._refused(request, headers, raw, found)]
        if arrived.refused or found is None:
            message = "; ".join(f"{misfit.path}: {misfit.reason}" for misfit in arrived.refused)
            error = {"error": {"type": "invalid_request_error", "message": message}}
            return web.json_response(
                {"type": "error", **error} if self.cloud.host.error == "anthropic" else error, status=400
            )
        if "model" in found.groupdict():
            body = {**body, "model": unquote(found["model"])}
        if self.cloud.host.dialect is GENERATE:
            return self._own_gemini_reply(body, stream=found["verb"].startswith("stream"))
        if self.cloud.host.profile == "gemini":
            return self._gemini_reply(body)
        own = {self.cloud.host.header: f"Bearer {KEY}" if self.cloud.host.header == "authorization" else KEY}
        inner = _Request(self.cloud.host.endpoint, "POST", own, body)
        response = await self._strict.answer(cast("Any", inner))
        arrived.refused = self._strict.arrived[-1].refused
        return response

    def _own_gemini_reply(self, body: Json, *, stream: bool) -> web.StreamResponse:
        """The reply of Gemini's own API. It verifies the signatures of calls."""
        model = body.pop("model")
        try:
            generate.check_request(body, verify=True)
        except RequestRejected as refused:
            self.arrived[-1].refused.append(Misfit(refused.param or "", refused.message))
            return web.json_response(VENDOR.rejection(refused, "").body, status=400)
        turn = render_generate.read({**body, "model": _SCRIPT})
        scenario, reply = scenario_for(turn), SimulatedReply(model, body, len(self.arrived))
        if stream:
            frames = b"".join(render_generate.frames(scenario, reply))
            return web.Response(body=frames, content_type="text/event-stream")
        status, whole = render_generate.whole_reply(scenario, reply)
        return web.json_response(whole, status=status)

    def _gemini_reply(self, body: Json) -> web.StreamResponse:
        status, reply = self._gemini.answer({**body, "model": _SCRIPT})
        if status != 200:
            self.arrived[-1].refused.append(Misfit("", str(reply)))
        if status == 200 and body.get("stream"):
            return web.Response(body=b"".join(self._gemini.frames(reply)), content_type="text/event-stream")
        return web.json_response(reply, status=status)

    def _refused(
        self, request: web.Request, headers: dict[str, str], raw: bytes, found: re.Match[str] | None
    ) -> Iterator[Misfit]:
        """Yield what is wrong with the addressing of a request."""
        cloud, body = self.cloud, orjson.loads(raw)
        if request.method != "POST" or found is None:
            yield Misfit("", f"no endpoint {request.method} {request.path}")
            return
        if request.query_string not in (cloud.query, ""):
            yield Misfit("", f"no parameters {request.query_string}")
        if cloud.query.startswith("api-version") and not request.query_string:
            yield Misfit("", "no version in the query")
        yield from self._wrong_key(request, headers, raw)
        for name, pattern in cloud.headers.items():
            if not re.fullmatch(pattern, headers.get(name, "")):
                yield Misfit("", f"no {name}, or a wrong one: {headers.get(name)}")
        if "anthropic-version" in headers and "anthropic_version" in cloud.fields:
            yield Misfit("", "a version in the header, in place of the body")
        if cloud.betas is not None:
            for name in filter(None, headers.get("anthropic-beta", "").split(",")):
                if name not in cloud.betas:
                    yield Misfit("", f"Unexpected value(s) `{name}` for the `anthropic-beta` header.")
        for name, value in cloud.fields.items():
            if body.get(name) != value:
                yield Misfit(name, f"{body.get(name)!r} is not {value!r}")
        if "model" in found.groupdict() and "model" in body:
            yield Misfit("model", "is in the URL")
        if cloud.host.dialect is GENERATE:
            if found["verb"].startswith("stream") != bool(request.query_string):
                yield Misfit("", f"{request.query_string!r} with {found['verb']}")
            if "stream" in body:
                yield Misfit("stream", "is in the URL")
        elif "verb" in found.groupdict() and (found["verb"] == "streamRawPredict") != bool(body.get("stream")):
            yield Misfit("stream", f"is not that of {found['verb']}")

    def _wrong_key(self, request: web.Request, headers: dict[str, str], raw: bytes) -> Iterator[Misfit]:
        header = self.cloud.host.header
        if others := _CREDENTIALS & headers.keys() - {header}:
            yield Misfit("", f"a key in {', '.join(others)}")
        given = headers.get(header, "")
        if self.cloud.signed:
            scope = verify(request.method, request.path_qs, headers, raw, SECRET)
            if not scope.endswith(self.cloud.signed):
                yield Misfit("", f"signed for {scope}")
        elif given != (f"Bearer {self.token}" if header == "authorization" else self.token):
            yield Misfit("", f"no key in {header}")


@asynccontextmanager
async def cloud_host(cloud: Cloud, token: str = KEY) -> AsyncIterator[CloudHost]:
    """A host that listens on a port of its own."""
    host = CloudHost(cloud, token)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", host.answer)
    async with served(app) as (url, _):
        host.url = url
        yield host
