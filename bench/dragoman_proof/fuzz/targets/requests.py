"""Bodies of clients' requests, through the reader and the whole pipeline of gateways to each API of upstreams."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any, NoReturn

import orjson
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import RawRequestMessage
from aiohttp.http_writer import HttpVersion11
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from dragoman import Dialect
from dragoman.aio import StreamTimers, Upload, UpstreamRequest
from dragoman.errors import UpstreamUnreachable
from dragoman_proof.fuzz import seeds
from dragoman_proof.fuzz.mutate import Trees, changed_json
from dragoman_proof.fuzz.target import Target, require
from dragoman_server import Config, Provider, Route, Server
from dragoman_server.config.overload import Overload
from dragoman_server.config.schema import Models
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.simulator.error_replies import RequestRejected
from oracles.requests import check as check_request
from oracles.requests import generate

_PATHS = {
    Dialect.CHAT: "/v1/chat/completions",
    Dialect.MESSAGES: "/v1/messages",
    Dialect.RESPONSES: "/v1/responses",
}
_VENDORS = {
    Dialect.CHAT: "https://api.openai.com/v1",
    Dialect.MESSAGES: "https://api.anthropic.com/v1",
    Dialect.RESPONSES: "https://api.openai.com/v1",
    Dialect.GENERATE: "https://generativelanguage.googleapis.com/v1beta",
}
_HEADERS = {"anthropic-version": "2023-06-01"}
_NOT_SENT = "nothing listens here"
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def target(name: str) -> Target:
    """Return the target of the requests of one dialect."""
    client = Dialect(name.partition("-")[2])
    bodies = seeds.requests(client)
    words = seeds.words_of(bodies)
    trees = Trees(words)
    entrances = [_Entrance(client, upstream) for upstream in Dialect]

    def check(data: bytes) -> None:
        for entrance in entrances:
            entrance.check(data)

    def mutate(data: bytes, other: bytes, random: Random) -> bytes | None:
        return changed_json(trees, data, other, random)

    inputs = [json.dumps(body, separators=(",", ":")).encode() for body in bodies]
    return Target(check, inputs, [word.encode() for word in words], mutate)


class _Recorder:
    """A transport that keeps the request and sends nothing."""

    def __init__(self) -> None:
        self.sent: list[UpstreamRequest] = []

    async def open(self, request: UpstreamRequest, _: StreamTimers) -> NoReturn:
        """Keep a request."""
        self.sent.append(request)
        raise UpstreamUnreachable(_NOT_SENT)

    async def open_upload(self, request: UpstreamRequest, _: Upload, timers: StreamTimers) -> NoReturn:
        """Keep a request."""
        await self.open(request, timers)

    async def close(self) -> None:
        """Close nothing."""


class _Connection(BaseProtocol):
    """The connection of a client, as a request knows it."""

    ssl_context = peername = sockname = None


class _Entrance:
    """One gateway, and a client's requests to it."""

    def __init__(self, client: Dialect, upstream: Dialect) -> None:
        self._client = client
        self._upstream = upstream
        self._direction = f"{client}→{upstream}"
        self._loop = asyncio.new_event_loop()
        self._transport = _Recorder()
        config = Config(
            providers={"up": Provider("up", upstream, _VENDORS[upstream])},
            routes=[Route("*", "up")],
            models=Models(unknown="pass"),
            server=Server(allowed_hosts=("x",), overload=Overload(event_loop_lag=0.0)),
        )
        self._gateway = Gateway(config, upstream=self._transport)
        self._connection = _Connection(self._loop)
        self._loop.run_until_complete(self._gateway.services.responses.open())

    def check(self, body: bytes) -> None:
        """Send a body. It reaches the upstream as JSON, or it is refused by the name of a field."""
        self._transport.sent.clear()
        response: Any = self._loop.run_until_complete(self._gateway.handler.answer(self._request(body), self._client))
        if self._transport.sent:
            sent = self._transport.sent[0].body
            require(type(json.loads(sent)) is dict, f"{self._direction}: JSON is sent upstream")
            if self._upstream is Dialect.GENERATE and _is_valid(self._client, body):
                _check_taken(json.loads(sent, parse_int=_integer))
            return
        require(response.status < 500, f"{self._direction}: no request is answered with status 500")
        if response.status >= 400:
            self._check_refusal(body, json.loads(response.body)["error"])

    def _check_refusal(self, body: bytes, error: Any) -> None:
        require(bool(error["message"]), f"{self._direction}: an error has a message")
        try:
            value = orjson.loads(body)
        except ValueError:
            return
        if type(value) is not dict:
            return
        param = error.get("param") if self._client is not Dialect.MESSAGES else error["message"].partition(":")[0]
        require(bool(param), f"{self._direction}: a 400 names a field: {error}")
        require(_is_in(param, value), f"{self._direction}: the field {param!r} is in the request: {error}")

    def _request(self, body: bytes) -> web.Request:
        headers = CIMultiDict({"host": "x", "content-type": "application/json", "content-length": str(len(body))})
        path = _PATHS[self._client]
        content = StreamReader(self._connection, 2**16, loop=self._loop)
        content.feed_data(body)
        content.feed_eof()
        message = RawRequestMessage(
            "POST", path, HttpVersion11, CIMultiDictProxy(headers), _raw(headers), False, None, False, False, URL(path)
        )
        connection: Any = self._connection
        absent: Any = None
        return web.Request(message, content, connection, absent, absent, self._loop)


def _is_valid(client: Dialect, body: bytes) -> bool:
    """True if the API of the client's dialect takes a request."""
    try:
        check_request(client, json.loads(body), _HEADERS)
    except (RequestRejected, ValueError, TypeError, LookupError, AttributeError):
        return False
    return True


def _check_taken(sent: Any) -> None:
    """Raise RequestRejected if Google would refuse a request. Data that is not base64 is the client's."""
    try:
        generate.check_request(sent)
    except RequestRejected as error:
        if "Base64" not in str(error):
            raise


def _integer(text: str) -> int | float:
    """Return an integer as the simulator holds it."""
    return int(text) if len(text) < 19 else float(text)


def _raw(headers: CIMultiDict[str]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode(), value.encode()) for name, value in headers.items())


def _is_in(path: str, body: Any) -> bool:
    """True if a path leads to a value of the body, or to a key that an object of it lacks."""
    steps: Sequence[int | str] = [int(index) if index else key for index, key in _STEP.findall(path)]
    here = body
    for at, step in enumerate(steps):
        if isinstance(step, int):
            if not isinstance(here, list) or step >= len(here):
                return False
        elif not isinstance(here, dict):
            return False
        elif step not in here:
            return at == len(steps) - 1
        here = here[step]
    return bool(steps)
