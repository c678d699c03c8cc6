"""A simulated host of a vendor that refuses what the types of its requests do not have.

It answers the vendor's own path with the vendor's own credential header only. The first turn of a conversation is
answered with reasoning, a text and a call of the first tool, the turn after a tool's result with a text that quotes it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from aiohttp import web

from dragoman.dialects import Dialect
from dragoman_server.simulator import render_messages
from dragoman_server.simulator.parse_request import Json, read_chat, read_messages, read_responses
from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.scenarios import scenario_for
from dragoman_server.simulator.steps import Scenario
from support.gateways import served
from vendors import chat_replies, errors, responses_replies
from vendors.hosts import Host
from vendors.sdk_types import Misfit, misfits, sdk_type

KEY = "key-of-the-vendor"
_SCRIPT = "sim-thinking"
INDEX = re.compile(r"\[\d+\]")


@dataclass
class Arrived:
    """One request: its path, its body, and what of it the host refused."""

    path: str
    headers: dict[str, str]
    body: Json
    refused: list[Misfit] = field(default_factory=list)


@dataclass
class StrictHost:
    """A host that listens at `url`. `arrived` are its requests, in order."""

    host: Host
    arrived: list[Arrived] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    """Its streams, in order."""
    encrypted: set[str] = field(default_factory=set)
    """The reasoning that it encrypted."""
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The reply to one request."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        body: Json = orjson.loads(await request.read())
        arrived = Arrived(request.path, headers, body)
        self.arrived.append(arrived)
        host = self.host
        wanted = f"Bearer {KEY}" if host.header == "authorization" else KEY
        if request.path != host.endpoint or request.method != "POST":
            arrived.refused.append(Misfit("", f"no endpoint {request.path}"))
            return self._error(404, arrived.refused)
        if headers.get(host.header) != wanted:
            arrived.refused.append(Misfit("", f"no key in {host.header}"))
            return self._error(401, arrived.refused)
        arrived.refused = [*refused(host, body)]
        if host.encrypts and not self.encrypted.issuperset(responses_replies.encrypted(body)):
            arrived.refused.append(Misfit("input", "encrypted content could not be verified"))
        if arrived.refused:
            return self._error(0, arrived.refused)
        scenario, reply = _scenario(host.dialect, body, len(self.arrived))
        if host.dialect is Dialect.CHAT:
            frames, whole = chat_replies.frames(host, scenario, reply), chat_replies.whole_reply
        elif host.dialect is Dialect.MESSAGES:
            frames, whole = render_messages.frames(scenario, reply), _messages_reply
        else:
            frames, whole = responses_replies.frames(host, scenario, reply), responses_replies.whole_reply
            self.encrypted.update(responses_replies.encrypted([orjson.loads(_data(frame)) for frame in frames]))
        if body.get("stream"):
            self.replies.append(b"".join(frames).decode())
            return web.Response(body=b"".join(frames), content_type="text/event-stream")
        return web.json_response(whole(host, scenario, reply))

    def _error(self, status: int, found: list[Misfit]) -> web.Response:
        usual, form = errors.FORMS[self.host.error]
        return web.json_response(form(found), status=status or usual)


def refused(host: Host, body: Json) -> Iterator[Misfit]:
    """Yield what the host refuses of a request."""
    for misfit in misfits(body, sdk_type(host.types)):
        if INDEX.sub("[]", misfit.path) not in host.also:
            yield misfit
    for name in body.keys() - set(host.only.split() or body):
        yield Misfit(name, "not listed")
    yield from host.check(body)
    for path in _paths(body):
        if (source := host.never.get(INDEX.sub("[]", path))) is not None:
            yield Misfit(path, f"refused ({source})")
    if host.call_ids:
        for at, given in _call_ids(body):
            if not re.fullmatch(host.call_ids, given):
                yield Misfit(at, f"{given!r} is no call id")


def _paths(value: Any, at: str = "") -> Iterator[str]:
    """Yield the paths of all fields of a JSON value."""
    if isinstance(value, dict):
        for key, item in value.items():
            path = f"{at}.{key}" if at else key
            yield path
            yield from _paths(item, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{at}[{index}]")


def _call_ids(body: Json) -> Iterator[tuple[str, str]]:
    for number, message in enumerate(body.get("messages", ())):
        if "tool_call_id" in message:
            yield f"messages[{number}].tool_call_id", message["tool_call_id"]
        for index, call in enumerate(message.get("tool_calls") or ()):
            yield f"messages[{number}].tool_calls[{index}].id", call["id"]


def _scenario(dialect: Dialect, body: Json, serial: int) -> tuple[Scenario, SimulatedReply]:
    read = {Dialect.CHAT: read_chat, Dialect.MESSAGES: read_messages, Dialect.RESPONSES: read_responses}[dialect]
    turn = read(body)
    return scenario_for(replace(turn, model=_SCRIPT)), SimulatedReply(turn.model, body, serial)


def _messages_reply(host: Host, scenario: Scenario, reply: SimulatedReply) -> Json:
    return render_messages.whole_reply(scenario, reply)[1]


def _data(frame: bytes) -> bytes:
    return frame.partition(b"data: ")[2]


@asynccontextmanager
async def strict_host(host: Host) -> AsyncIterator[StrictHost]:
    """A host that listens on a port of its own."""
    strict = StrictHost(host)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", strict.answer)
    async with served(app) as (url, _):
        strict.url = url
        yield strict
