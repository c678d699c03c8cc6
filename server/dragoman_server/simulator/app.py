"""The simulated upstream as an aiohttp application: the APIs of `api.py`, recorded requests, scripted failures."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

import orjson
from aiohttp import web
from multidict import CIMultiDict

from dragoman_server.simulator import background_endpoints, other_endpoints
from dragoman_server.simulator.api import APIS, DEFAULT, in_versions
from dragoman_server.simulator.background import check_background
from dragoman_server.simulator.error_replies import ErrorReply, RequestRejected
from dragoman_server.simulator.ledger import Ledger
from dragoman_server.simulator.modifiers import LOST, modified
from dragoman_server.simulator.parse_request import Json, RequestTurn
from dragoman_server.simulator.renderers import RENDERERS
from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.scenarios import CUT_ONCE, SCRIPTS, scenario_for
from dragoman_server.simulator.send_reply import cut, json_reply, send_stream, send_whole, wait_for_client
from dragoman_server.simulator.state import (
    REQUESTS,
    SETTINGS,
    STATE,
    STREAMS,
    Received,
    RequestCheck,
    Settings,
    State,
    Streams,
)
from dragoman_server.simulator.steps import Ending, Scenario
from dragoman_server.simulator.tokens import PROMPT, by_fragment, by_words
from dragoman_server.simulator.vendors.known import VENDORS

_MIB = 1024 * 1024
_RECORDED = 64
_PATHS = {path: dialect for dialect, api in APIS.items() for path in in_versions(api.path)}
_COUNTS = {path: dialect for dialect, api in APIS.items() for path in in_versions(api.count_path)}
_STREAMS = {path: dialect for dialect, api in APIS.items() for path in in_versions(api.stream_path)}
_DIALECT = _PATHS | _STREAMS | _COUNTS


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
    app[SETTINGS] = Settings(pace, slow, stall, retry_after, require_key, check, ledger, clock)
    app[STATE] = State()
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
    app.router.add_get("/v1/responses/{id}", _recorded(background_endpoints.show))
    app.router.add_post("/v1/responses/{id}/cancel", _recorded(background_endpoints.cancel))
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
        serial = next(request.app[STATE].request_numbers)
        request_id = f"req_sim{serial:024x}"
        try:
            if request.app[SETTINGS].require_key:
                _check_key(dialect, request.headers)
            response = await handler(request, received, request_id)
        except RequestRejected as refused:
            response = _error(request, dialect, VENDORS[dialect].rejection(refused, request_id), request_id)
        received.status = response.status
        return response

    return handle


async def _create(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    dialect = _DIALECT[_own_path(request)]
    api, renderer = APIS[dialect], RENDERERS[dialect]
    settings, state = request.app[SETTINGS], request.app[STATE]
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
        cut(request, Ending.RESET)
        return web.Response()  # it is not sent
    if failure is not None:
        scenario = Scenario(status=503)
    if "sim-agent-cut" in turn.model and turn.offers and turn.plan and turn.plan not in state.cut_plans:
        state.cut_plans.append(turn.plan)
        scenario = SCRIPTS[CUT_ONCE](turn)
    if scenario.status >= 400:
        failed = VENDORS[dialect].scripted_error(scenario.status, scenario.variant, request_id, settings.retry_after)
        return _error(request, dialect, failed, request_id)
    if scenario.slow and not await wait_for_client(request, settings.slow):
        raise ConnectionResetError("the client disconnected before the first byte")
    count = by_fragment if settings.ledger is None else partial(by_words, body)
    reply = SimulatedReply(turn.model, body, int(request_id[7:], 16), int(settings.clock()), count)
    headers = VENDORS[dialect].reply_headers(request_id, settings.clock())
    if body.get("thread") is not None:
        # Rendered twice: equal number and time produce equal ids.
        state.threads.store(body, renderer.whole_reply(scenario, replace(reply))[1])
    if streamed and (not api.stream_query or api.stream_query in request.query_string.split("&")):
        frames: list[bytes] = renderer.frames(scenario, reply)
        if api.stored and body.get("store") is not False:
            state.responses.append(_response_id(frames[0]))
        entry = settings.ledger.begin(dialect, scenario, reply) if settings.ledger is not None else None
        if api.stored and body.get("background"):
            return await background_endpoints.follow(
                request, background_endpoints.begin(request, scenario, frames, entry, streamed=True), -1, headers
            )
        return await send_stream(request, received, scenario, frames, headers, entry)
    if api.stored and body.get("background"):
        frames = renderer.frames(scenario, reply)
        state.responses.append(_response_id(frames[0]))
        entry = settings.ledger.begin(dialect, scenario, reply) if settings.ledger is not None else None
        begun = background_endpoints.begin(request, scenario, frames, entry, streamed=False)
        return json_reply(request, dialect, request_id, begun.state)
    status, whole = renderer.whole_reply(scenario, reply)
    if api.stored and body.get("store") is not False:
        state.responses.append(whole["id"])
    sent = orjson.dumps([whole] if streamed else whole)
    if settings.ledger is not None and status < 400:
        entry = settings.ledger.begin(dialect, scenario, reply)
        if scenario.ending is Ending.WHOLE:
            entry.sent(sent)
    return await send_whole(request, scenario, status, sent, headers)


def _check_key(dialect: str, headers: Mapping[str, str]) -> None:
    """Accept any key: Bearer, or in the vendor's own header. Raises RequestRejected without one."""
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return
    vendor = VENDORS[dialect]
    if not headers.get(vendor.key_header, "").strip():
        raise RequestRejected(vendor.keyless_text, status=vendor.keyless_status)


def _checked(request: web.Request, dialect: str, body: object, *, counting: bool = False) -> Json:
    """Return the body if it is an object that the configured check accepts. Raises RequestRejected."""
    found = VENDORS[dialect].canonical(_checked_fields(body))
    if (check := request.app[SETTINGS].check) is not None:
        check(dialect, found, request.headers, counting=counting)
    return found


def _check_previous_response(state: State, body: Json) -> None:
    previous = body.get("previous_response_id")
    if previous is not None and previous not in state.responses:
        why = f"Previous response with id '{previous}' not found."
        raise RequestRejected(why, "previous_response_id", "previous_response_not_found")


def _response_id(created: bytes) -> str:
    event = orjson.loads(created.partition(b"data: ")[2])
    return str(event["response"]["id"])


def _error(request: web.Request, dialect: str, failed: ErrorReply, request_id: str) -> web.Response:
    headers = VENDORS[dialect].reply_headers(request_id, request.app[SETTINGS].clock()) | failed.headers
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
    return json_reply(request, dialect, request_id, answer)


async def _other(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    """Answer a request to one of the endpoints that are not conversations."""
    if request.content_type == "multipart/form-data":
        received.body = other_endpoints.parse_form(request.headers["Content-Type"], await request.read())
    reply = other_endpoints.reply_to(request.path.removeprefix("/v1/"), _checked_fields(received.body))
    settings = request.app[SETTINGS]
    headers = {**VENDORS[DEFAULT].reply_headers(request_id, settings.clock()), "Content-Type": reply.content_type}
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
    return json_reply(request, dialect, request_id, VENDORS[dialect].model_list(SCRIPTS, request.query))


async def _model(request: web.Request, received: Received, request_id: str) -> web.StreamResponse:
    name = request.match_info["id"]
    if name not in SCRIPTS:
        raise RequestRejected(f"The model '{name}' does not exist", "model", "model_not_found", status=404)
    dialect = _dialect_of(request)
    return json_reply(request, dialect, request_id, VENDORS[dialect].model(name))


async def _health(request: web.Request) -> web.StreamResponse:
    return web.json_response({"status": "ok", "service": "dragoman simulator"})


async def _no_websocket(request: web.Request) -> web.StreamResponse:
    # 426 makes clients that try the WebSocket first continue with HTTP at once.
    return web.json_response({"error": {"message": "Use HTTP", "type": "invalid_request_error"}}, status=426)
