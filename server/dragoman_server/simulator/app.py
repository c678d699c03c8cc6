"""The simulated upstream as an aiohttp application: the APIs of `api.py`, recorded requests, scripted failures."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import orjson
from aiohttp import web
from multidict import CIMultiDict

from dragoman_server.simulator import other_endpoints
from dragoman_server.simulator.api import APIS, DEFAULT, STORED, in_versions
from dragoman_server.simulator.background import (
    BackgroundResponse,
    BackgroundResponses,
    check_background,
    starting_after,
)
from dragoman_server.simulator.error_replies import ErrorReply, RequestRejected
from dragoman_server.simulator.ledger import Entry, Ledger
from dragoman_server.simulator.modifiers import LOST, FirstRequests, modified
from dragoman_server.simulator.parse_request import Json, RequestTurn
from dragoman_server.simulator.renderers import RENDERERS
from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.scenarios import CUT_ONCE, SCRIPTS, Ending, Scenario, scenario_for
from dragoman_server.simulator.stored_threads import Threads
from dragoman_server.simulator.tokens import PROMPT, by_fragment, by_words
from dragoman_server.simulator.vendors.vendor import Vendor

_MIB = 1024 * 1024
_RECORDED = 64
_KNOWN_RESPONSES = 1024
_CUT_PLANS = 64
_SPLIT_PAUSE = 0.001
"""Seconds between two writes that must not arrive in one read."""
_LEAD_BYTE = re.compile(rb"[\xc2-\xf4]")


class RequestCheck(Protocol):
    """Checks requests as the real API of a dialect does. `counting` is True for a token-counting request."""

    def __call__(self, dialect: str, body: Json, headers: Mapping[str, str], *, counting: bool) -> object:
        """Raise RequestRejected if the real API would reject the request."""
        ...


@dataclass(slots=True)
class Received:
    """A recorded request; `status` is that of its response (0 while it is pending)."""

    method: str
    path: str
    query: dict[str, str]
    headers: CIMultiDict[str]
    body: Any
    """The parsed JSON, or None if there was no body or it did not parse."""
    status: int = 0


@dataclass(slots=True)
class Streams:
    """Counts of event streams."""

    open: int = 0
    started: int = 0
    ended: int = 0
    """Streams that reached their scripted end."""
    abandoned: int = 0
    """Streams whose client disconnected first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of `make_simulator`."""

    pace: float
    slow: float
    stall: float
    retry_after: float
    require_key: bool
    check: RequestCheck | None
    ledger: Ledger | None
    clock: Callable[[], float]


@dataclass(slots=True)
class _State:
    request_numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    responses: deque[str] = field(default_factory=lambda: deque(maxlen=_KNOWN_RESPONSES))
    """Ids of stored responses, for `previous_response_id`."""
    cut_plans: deque[str] = field(default_factory=lambda: deque(maxlen=_CUT_PLANS))
    """Plans (`tool_plan.py`) whose first stream was cut."""
    first_requests: FirstRequests = field(default_factory=FirstRequests)
    threads: Threads = field(default_factory=Threads)
    background: BackgroundResponses = field(default_factory=BackgroundResponses)


REQUESTS: web.AppKey[deque[Received]] = web.AppKey("simulator_requests", deque)
STREAMS: web.AppKey[Streams] = web.AppKey("simulator_streams", Streams)
_SETTINGS: web.AppKey[Settings] = web.AppKey("simulator_settings", Settings)
_STATE: web.AppKey[_State] = web.AppKey("simulator_state", _State)

_PATHS = {path: dialect for dialect, api in APIS.items() for path in in_versions(api.path)}
_COUNTS = {path: dialect for dialect, api in APIS.items() for path in in_versions(api.count_path)}
_STREAMS = {path: dialect for dialect, api in APIS.items() for path in in_versions(api.stream_path)}
_DIALECT = _PATHS | _STREAMS | _COUNTS
_VENDORS: dict[str, Vendor] = {
    dialect: import_module(f"dragoman_server.simulator.vendors.{api.vendor}").VENDOR for dialect, api in APIS.items()
}


def make_simulator(
    pace: float = 0.0,
    require_key: bool = False,
    *,
    slow: float = 1.0,
    stall: float = 60.0,
    retry_after: float = 1.0,
    check: RequestCheck | None = None,
    ledger: Ledger | None = None,
    clock: Callable[[], float] = time.time,
) -> web.Application:
    """Return an upstream that plays the scripts of `scenarios.SCRIPTS`, selected by model name.

    In seconds: `pace` between two frames, `slow` for the pauses of `sim-slow` and `sim-agent-silent`, `stall` before a
    stalled stream is closed, `retry_after` in the header of that name. Without `check`, every request that can be
    read is accepted. With a `ledger`, tokens are counted by words, and each reply is entered there. The last requests
    are in `app[REQUESTS]`, the counts of streams in `app[STREAMS]`.
    """
    app = web.Application(client_max_size=64 * _MIB)
    app[_SETTINGS] = Settings(pace, slow, stall, retry_after, require_key, check, ledger, clock)
    app[_STATE] = _State()
    app[REQUESTS] = deque(maxlen=_RECORDED)
    app[STREAMS] = Streams()
    for path in (*_PATHS, *_STREAMS):
        app.router.add_post(_pattern(path), _recorded(_create))
    for path in _COUNTS:
        app.router.add_post(_pattern(path), _recorded(_count))
    for path in other_endpoints.PATHS:
        app.router.add_post(f"/v1/{path}", _recorded(_other))
    for version in dict.fromkeys(api.version for api in APIS.values()):
        app.router.add_get(f"/{version}/models", _recorded(_models))
        app.router.add_get(f"/{version}/models/{{id:.+}}", _recorded(_model))
    app.router.add_get("/v1/responses", _no_websocket)
    app.router.add_get("/v1/responses/{id}", _recorded(_background))
    app.router.add_post("/v1/responses/{id}/cancel", _recorded(_cancel))
    app.router.add_get("/", _health)
    app.router.add_get("/health", _health)
    return app


def _pattern(path: str) -> str:
    """Return the pattern of a path. The name of a model may have slashes and colons in it."""
    return path.replace("{model}", "{model:.+}")


def _own_path(request: web.Request) -> str:
    """Return the path of the request's endpoint as `APIS` has it."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _recorded(
    handler: Callable[[web.Request, Received, str], Awaitable[web.StreamResponse]],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return a handler that records the request, checks its key, and answers `RequestRejected` in the dialect's
    form."""

    async def handle(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        try:
            body = orjson.loads(raw) if raw else None
        except orjson.JSONDecodeError:
            body = None
        received = Received(request.method, request.path, dict(request.query), CIMultiDict(request.headers), body)
        request.app[REQUESTS].append(received)
        dialect = _DIALECT.get(_own_path(request)) or _dialect_of(request)
        serial = next(request.app[_STATE].request_numbers)
        request_id = f"req_sim{serial:024x}"
        try:
            if request.app[_SETTINGS].require_key:
                _check_key(dialect, request.headers)
            response = await handler(request, received, request_id)
        except RequestRejected as refused:
            response = _error(request, dialect, _VENDORS[dialect].rejection(refused, request_id), request_id)
        received.status = response.status
        return response

    return handle


async def _create(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    dialect = _DIALECT[_own_path(request)]
    api, renderer = APIS[dialect], RENDERERS[dialect]
    settings, state = request.app[_SETTINGS], request.app[_STATE]
    request_body = state.threads.resume(received.body) if isinstance(received.body, dict) else received.body
    body = _checked(request, dialect, request_body)
    if api.stored:
        _check_previous_response(state, body)
        check_background(body)
    streamed = bool(body.get("stream"))
    if (name := request.match_info.get("model")) is not None:
        streamed, body = _own_path(request) in _STREAMS, {**body, "model": name}
    try:
        turn: RequestTurn = renderer.read(body)
    except (AttributeError, KeyError, TypeError) as error:
        raise RequestRejected(f"The request could not be read: {error!r}") from None
    scenario = modified(scenario_for(turn), turn.model)
    if (failure := state.first_requests.failure_of(turn.model)) == LOST:
        _cut(request, Ending.RESET)
        return web.Response()  # it is not sent
    if failure is not None:
        scenario = Scenario(status=503)
    if "sim-agent-cut" in turn.model and turn.offers and turn.plan and turn.plan not in state.cut_plans:
        state.cut_plans.append(turn.plan)
        scenario = SCRIPTS[CUT_ONCE](turn)
    if scenario.status >= 400:
        failed = _VENDORS[dialect].scripted_error(scenario.status, scenario.variant, request_id, settings.retry_after)
        return _error(request, dialect, failed, request_id)
    if scenario.slow and not await _wait_for_client(request, settings.slow):
        raise ConnectionResetError("the client disconnected before the first byte")
    count = by_fragment if settings.ledger is None else partial(by_words, body)
    reply = SimulatedReply(turn.model, body, int(request_id[7:], 16), int(settings.clock()), count)
    headers = _VENDORS[dialect].reply_headers(request_id, settings.clock())
    if body.get("thread") is not None:
        # Rendered twice: equal number and time produce equal ids.
        state.threads.store(body, renderer.whole_reply(scenario, replace(reply))[1])
    if streamed and (not api.stream_query or api.stream_query in request.query_string.split("&")):
        frames: list[bytes] = renderer.frames(scenario, reply)
        if api.stored and body.get("store") is not False:
            state.responses.append(_response_id(frames[0]))
        entry = settings.ledger.begin(dialect, scenario, reply) if settings.ledger is not None else None
        if api.stored and body.get("background"):
            return await _follow(request, _begin(request, scenario, frames, entry, streamed=True), -1, headers)
        return await _send_stream(request, received, scenario, frames, headers, entry)
    if api.stored and body.get("background"):
        frames = renderer.frames(scenario, reply)
        state.responses.append(_response_id(frames[0]))
        entry = settings.ledger.begin(dialect, scenario, reply) if settings.ledger is not None else None
        begun = _begin(request, scenario, frames, entry, streamed=False)
        return web.Response(body=orjson.dumps(begun.state), headers=headers, content_type="application/json")
    status, whole = renderer.whole_reply(scenario, reply)
    if api.stored and body.get("store") is not False:
        state.responses.append(whole["id"])
    sent = orjson.dumps([whole] if streamed else whole)
    if settings.ledger is not None and status < 400:
        entry = settings.ledger.begin(dialect, scenario, reply)
        if scenario.ending is Ending.WHOLE:
            entry.sent(sent)
    return await _send_whole(request, scenario, status, sent, headers)


def _check_key(dialect: str, headers: Mapping[str, str]) -> None:
    """Accept any key: Bearer, or in the vendor's own header. Raises RequestRejected without one."""
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return
    vendor = _VENDORS[dialect]
    if not headers.get(vendor.key_header, "").strip():
        raise RequestRejected(vendor.keyless_text, status=vendor.keyless_status)


def _checked(request: web.Request, dialect: str, body: object, *, counting: bool = False) -> Json:
    """Return the body if it is an object that the configured check accepts. Raises RequestRejected."""
    found = _VENDORS[dialect].canonical(_checked_fields(body))
    if (check := request.app[_SETTINGS].check) is not None:
        check(dialect, found, request.headers, counting=counting)
    return found


def _check_previous_response(state: _State, body: Json) -> None:
    previous = body.get("previous_response_id")
    if previous is not None and previous not in state.responses:
        why = f"Previous response with id '{previous}' not found."
        raise RequestRejected(why, "previous_response_id", "previous_response_not_found")


def _response_id(created: bytes) -> str:
    event = orjson.loads(created.partition(b"data: ")[2])
    return str(event["response"]["id"])


def _begin(
    request: web.Request, scenario: Scenario, frames: list[bytes], entry: Entry | None, *, streamed: bool
) -> BackgroundResponse:
    """Begin a response that goes on without its client."""
    settings = request.app[_SETTINGS]
    response = BackgroundResponse(
        frames,
        streamed=streamed,
        pace=settings.pace,
        sent=entry.sent if entry is not None else None,
        pause=(len(frames) // 2 if scenario.silent else -1, settings.slow),
        stall=settings.stall if scenario.ending is Ending.STALL else 0.0,
    )
    request.app[_STATE].background.add(response)
    return response


async def _follow(
    request: web.Request, background: BackgroundResponse, after: int, headers: dict[str, str]
) -> web.StreamResponse:
    """Send the events of a response in the background after this number."""
    streams = request.app[STREAMS]
    response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream; charset=utf-8"})
    streams.open += 1
    streams.started += 1
    there = False
    try:
        await response.prepare(request)
        async for frame in background.follow(after):
            await response.write(frame)
        await response.write_eof()
        there = True
    finally:
        streams.open -= 1
        if there:
            streams.ended += 1
        else:
            streams.abandoned += 1
    return response


async def _background(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    """Answer a request for a response in the background: its last state, or its events."""
    found = request.app[_STATE].background.get(request.match_info["id"])
    headers = _VENDORS[STORED].reply_headers(request_id, request.app[_SETTINGS].clock())
    if request.query.get("stream") == "true":
        if not found.streamed:
            raise RequestRejected("This response was not created with `stream`: it cannot be streamed.", "stream")
        return await _follow(request, found, starting_after(request.query.get("starting_after")), headers)
    return web.Response(body=orjson.dumps(found.state), headers=headers, content_type="application/json")


async def _cancel(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    """Cancel a response in the background. One that has ended is returned as it is."""
    found = request.app[_STATE].background.get(request.match_info["id"])
    found.cancel()
    headers = _VENDORS[STORED].reply_headers(request_id, request.app[_SETTINGS].clock())
    return web.Response(body=orjson.dumps(found.state), headers=headers, content_type="application/json")


async def _send_stream(
    request: web.Request,
    received: Received,
    scenario: Scenario,
    frames: list[bytes],
    headers: dict[str, str],
    entry: Entry | None,
) -> web.StreamResponse:
    settings, streams = request.app[_SETTINGS], request.app[STREAMS]
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
    streams.open += 1
    streams.started += 1
    there = True
    try:
        await response.prepare(request)
        for number, frame in enumerate(frames):
            if number and pace > 0:
                await asyncio.sleep(pace)
            elif number % 16 == 15:
                await asyncio.sleep(0)  # small writes never block, and the loop has other streams
            if scenario.silent and number == len(frames) // 2 and not await _wait_for_client(request, settings.slow):
                raise ConnectionResetError("the client disconnected during a pause")
            await response.write(frame)
            if entry is not None and frames is rendered:
                entry.sent(frame)
        if entry is not None and frames is not rendered:
            for frame in rendered:
                entry.sent(frame)
        if scenario.ending is Ending.STALL:
            there = await _wait_for_client(request, settings.stall)
        if there and scenario.ending is Ending.WHOLE:
            await response.write_eof()
        else:
            _cut(request, scenario.ending)
    except (ConnectionError, asyncio.CancelledError):
        there = False
        raise
    finally:
        streams.open -= 1
        if there:
            streams.ended += 1
        else:
            streams.abandoned += 1
    return response


async def _send_whole(
    request: web.Request, scenario: Scenario, status: int, body: bytes, headers: dict[str, str]
) -> web.StreamResponse:
    """Send a whole reply; if the scenario cuts it, half of it or nothing."""
    if scenario.ending is Ending.STALL:
        await _wait_for_client(request, request.app[_SETTINGS].stall)
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
    _cut(request, scenario.ending)
    return response


def _split_characters(data: bytes) -> list[bytes]:
    """Return the data in pieces that end after the first byte of each multi-byte character."""
    ends = [found.end() for found in _LEAD_BYTE.finditer(data)]
    return [data[start:end] for start, end in itertools.pairwise([0, *ends, len(data)])]


def _cut(request: web.Request, ending: Ending) -> None:
    """Close the connection in the middle of a reply. Only a reset may lose data written before."""
    transport = request.transport
    if transport is not None:
        if ending is Ending.RESET:
            transport.abort()
        else:
            transport.close()


async def _wait_for_client(request: web.Request, seconds: float) -> bool:
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


def _error(request: web.Request, dialect: str, failed: ErrorReply, request_id: str) -> web.Response:
    headers = _VENDORS[dialect].reply_headers(request_id, request.app[_SETTINGS].clock()) | failed.headers
    return web.Response(
        status=failed.status, body=orjson.dumps(failed.body), headers=headers, content_type="application/json"
    )


async def _count(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    """Answer a token-counting request: one token per four characters, at least 1."""
    dialect = _DIALECT[_own_path(request)]
    api = APIS[dialect]
    body = _checked(request, dialect, received.body, counting=True)
    request_body = body.get(api.count_request, body)
    counted = {key: request_body.get(key) for key in PROMPT}
    answer: Json = {"object": api.count_object} if api.count_object else {}
    answer[api.count_field] = max(1, len(orjson.dumps(counted)) // 4)
    return _json(request, dialect, request_id, answer)


async def _other(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    """Answer a request to one of the endpoints that are not conversations."""
    if request.content_type == "multipart/form-data":
        received.body = other_endpoints.parse_form(request.headers["Content-Type"], await request.read())
    reply = other_endpoints.reply_to(request.path.removeprefix("/v1/"), _checked_fields(received.body))
    settings = request.app[_SETTINGS]
    headers = {**_VENDORS[DEFAULT].reply_headers(request_id, settings.clock()), "Content-Type": reply.content_type}
    if len(reply.pieces) == 1:
        return web.Response(body=reply.pieces[0], headers=headers)
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    for number, piece in enumerate(reply.pieces):
        if number:
            await asyncio.sleep(settings.pace)
        await response.write(piece)
    return response


def _checked_fields(body: object) -> Json:
    if not isinstance(body, dict):
        raise RequestRejected("We could not parse the JSON body of your request: expected an object.")
    return body


def _dialect_of(request: web.Request) -> str:
    """Return the dialect of a request to a path that several dialects have."""
    version = request.path.split("/")[1]
    found = {dialect: api for dialect, api in APIS.items() if api.version == version}
    named = (dialect for dialect, api in found.items() if api.version_header in request.headers)
    return next(named, next(iter(found)))


async def _models(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    dialect = _dialect_of(request)
    return _json(request, dialect, request_id, _VENDORS[dialect].model_list(SCRIPTS, request.query))


async def _model(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    name = request.match_info["id"]
    if name not in SCRIPTS:
        raise RequestRejected(f"The model '{name}' does not exist", "model", "model_not_found", status=404)
    dialect = _dialect_of(request)
    return _json(request, dialect, request_id, _VENDORS[dialect].model(name))


def _json(request: web.Request, dialect: str, request_id: str, body: Json) -> web.Response:
    headers = _VENDORS[dialect].reply_headers(request_id, request.app[_SETTINGS].clock())
    return web.Response(body=orjson.dumps(body), headers=headers, content_type="application/json")


async def _health(request: web.Request) -> web.StreamResponse:
    return web.json_response({"status": "ok", "service": "dragoman simulator"})


async def _no_websocket(request: web.Request) -> web.StreamResponse:
    # 426 makes clients that try the WebSocket first continue with HTTP at once.
    return web.json_response({"error": {"message": "Use HTTP", "type": "invalid_request_error"}}, status=426)
