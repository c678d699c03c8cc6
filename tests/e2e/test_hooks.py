"""The hooks of an embedding application, over sockets: who may, where to, and the record of each exchange."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientSession, web

from dragoman import Dialect, DragomanError, Failure, Knobs
from dragoman.dialects import CLIENT_DIALECTS
from dragoman.errors import FailureKind, FailureOrigin
from dragoman_server import (
    Config,
    ExchangeRecord,
    Gateway,
    Hooks,
    Principal,
    Provider,
    Route,
    Server,
    Target,
    make_app,
    setup,
)
from dragoman_server.config.provider import Secret
from support.gateways import ALL, CHAT, MESSAGES, config_for, gate, served, until
from support.samples import PATHS, TEXT, dump, error_frame, judge, read_error, reply, request, text_stream
from support.sockets import ScriptedServer, Send, Stall, answer, chunk, sse_head, stream

RESPONSES = Dialect.RESPONSES
ADA = Principal("ada", {"plan": "pro"})
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)
CLIENTS = pytest.mark.parametrize("client", CLIENT_DIALECTS)
CANCELLING = pytest.mark.parametrize("cancelling", [True, False], ids=["cancelling", "not-cancelling"])
NOWHERE = "http://127.0.0.1:9"
ENDPOINT = {**PATHS, RESPONSES: "/v1/responses"}


def minimal(client: Dialect, *, stream: bool = False) -> bytes:
    """A request of any of the three dialects."""
    if client is RESPONSES:
        return dump({"model": "m", "input": "Hi", "stream": stream})
    return dump(request(client, stream=stream))


@dataclass(slots=True)
class Users:
    """An application's hooks, which note their calls. `error` is raised by the hook with the name `fails`."""

    fails: str = ""
    error: BaseException | None = None
    target: Target | None = None
    records: list[ExchangeRecord[Any]] = field(default_factory=list)
    chosen: list[tuple[str, Dialect, Principal[Any] | None]] = field(default_factory=list)

    async def authorize(self, request: web.Request) -> Principal[Any] | None:
        await asyncio.sleep(0)
        if self.fails == "authorize" and self.error is not None:
            raise self.error
        return ADA if request.headers.get("x-user") == "ada" else None

    async def choose(
        self, request: web.Request, model: str, dialect: Dialect, principal: Principal[Any] | None
    ) -> Target | None:
        await asyncio.sleep(0)
        if self.fails == "choose" and self.error is not None:
            raise self.error
        self.chosen.append((model, dialect, principal))
        return self.target

    def on_end(self, record: ExchangeRecord[Any]) -> None:
        self.records.append(record)

    @property
    def hooks(self) -> Hooks[Any]:
        return Hooks(self.authorize, self.choose, self.on_end)


@asynccontextmanager
async def embedded(
    config: Config, users: Users, *, cancelling: bool = True
) -> AsyncIterator[tuple[str, ClientSession]]:
    """An application with the gateway below /llm, and a session of the user ada."""
    app = web.Application()
    setup(app, config, prefix="/llm", on_end=users.on_end, authorize=users.authorize, choose=users.choose)
    headers = {"x-user": "ada", "content-type": "application/json"}
    async with (
        served(app, handler_cancellation=cancelling) as (url, _),
        ClientSession(headers=headers) as session,
    ):
        yield f"{url}/llm", session


# --- on_end ----------------------------------------------------------------------------------------------------------


@DIRECTIONS
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
async def test_a_completed_exchange_is_recorded_once(client: Dialect, upstream: Dialect, streamed: bool) -> None:
    users = Users()
    script = stream(text_stream(upstream)) if streamed else answer(200, dump(reply(upstream)))
    async with (
        ScriptedServer(script) as server,
        embedded(config_for(server.url, upstream), users) as (url, session),
        session.post(url + PATHS[client], data=minimal(client, stream=streamed)) as response,
    ):
        assert response.status == 200
        await response.read()
        await until(lambda: bool(users.records))
        request_id = response.headers["x-dragoman-request-id"]
    (record,) = users.records
    assert (record.request_id, record.client, record.upstream) == (request_id, client, upstream)
    assert (record.ended, record.status, record.stream) == ("completed", 200, streamed)
    assert (record.model, record.provider, record.upstream_model, record.route) == ("m", "up", "m", "*")
    assert record.principal is ADA
    assert record.usage is not None
    assert record.usage.output_total
    assert record.duration > 0
    assert (record.first_event is not None) is streamed
    assert (record.error_kind, record.error_origin, record.error_code) == (None, None, None)


@CLIENTS
async def test_a_rejected_request_is_recorded(client: Dialect) -> None:
    users = Users()
    async with (
        embedded(config_for(NOWHERE, CHAT), users) as (url, session),
        session.post(url + ENDPOINT[client], data=b"[]") as response,
    ):
        assert response.status == 400
    (record,) = users.records
    assert (record.ended, record.status, record.model, record.provider) == ("rejected", 400, None, None)
    assert (record.error_kind, record.error_origin) == (FailureKind.INVALID_REQUEST, FailureOrigin.CLIENT)


async def test_an_error_status_of_the_upstream_is_recorded() -> None:
    users = Users()
    body = dump({"error": {"message": "slow down", "type": "rate_limit_error", "code": "too_fast"}})
    async with (
        ScriptedServer(answer(429, body)) as server,
        embedded(config_for(server.url, CHAT), users) as (url, session),
        session.post(url + PATHS[MESSAGES], data=minimal(MESSAGES)) as response,
    ):
        assert response.status == 429
    (record,) = users.records
    assert (record.ended, record.status) == ("refused", 429)
    assert (record.error_kind, record.error_origin) == (FailureKind.RATE_LIMIT, FailureOrigin.UPSTREAM)
    assert record.error_code == "too_fast"


@DIRECTIONS
async def test_an_error_within_a_stream_is_recorded(client: Dialect, upstream: Dialect) -> None:
    users = Users()
    frames = [*text_stream(upstream)[:4], error_frame(upstream)]
    async with (
        ScriptedServer(stream(frames)) as server,
        embedded(config_for(server.url, upstream), users) as (url, session),
        session.post(url + PATHS[client], data=minimal(client, stream=True)) as response,
    ):
        await response.read()
        await until(lambda: bool(users.records))
    (record,) = users.records
    assert (record.ended, record.status) == ("failed", 200)
    assert record.error_kind is not None
    assert record.error_origin is FailureOrigin.UPSTREAM


@DIRECTIONS
@CANCELLING
@pytest.mark.parametrize("began", [False, True], ids=["before", "within"])
async def test_a_client_that_disconnects_is_recorded_once(
    client: Dialect, upstream: Dialect, cancelling: bool, began: bool
) -> None:
    users = Users()
    script = [Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(upstream)[:4])] if began else []
    async with (
        ScriptedServer([*script, Stall()]) as server,
        embedded(config_for(server.url, upstream), users, cancelling=cancelling) as (url, session),
    ):
        asked = asyncio.create_task(session.post(url + PATHS[client], data=minimal(client, stream=True)))
        await asyncio.wait_for(server.arrived.wait(), 30)
        if began:
            response = await asked
            await response.content.readany()
            response.close()
        else:
            asked.cancel()
        await until(lambda: bool(users.records))
        await asyncio.wait_for(server.hung_up.wait(), 30)
    (record,) = users.records
    assert record.ended == "abandoned"
    assert record.principal is ADA
    assert record.upstream is upstream


async def test_an_async_on_end_outlives_its_request_and_is_awaited_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    written: list[str] = []
    unlocked = asyncio.Event()

    async def on_end(record: ExchangeRecord[Any]) -> None:
        await unlocked.wait()
        written.append(record.ended)
        raise RuntimeError("the table is locked")

    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        app = make_app(config_for(server.url, CHAT), on_end=on_end)
        async with served(app) as (url, _), ClientSession() as session:
            async with session.post(url + PATHS[CHAT], data=minimal(CHAT)) as response:
                assert response.status == 200
            assert written == []
            unlocked.set()
    assert written == ["completed"]
    assert "the hook on_end failed" in caplog.text


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
async def test_an_on_end_that_fails_changes_no_reply(streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    def on_end(record: ExchangeRecord[Any]) -> None:
        raise RuntimeError("the table is locked")

    script = stream(text_stream(CHAT)) if streamed else answer(200, dump(reply(CHAT)))
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, CHAT), hooks=Hooks(on_end=on_end)) as entrance,
    ):
        async with entrance.post(MESSAGES, stream=streamed) as response:
            assert response.status == 200
            body = await response.read()
        if streamed:
            assert judge(MESSAGES, body).text == TEXT
        await until(lambda: "the hook on_end failed" in caplog.text)
        assert entrance.gateway.metrics.totals.values["dragoman_open_requests"][("messages",)] == [0]


# --- authorize -------------------------------------------------------------------------------------------------------


async def _post(url: str, session: ClientSession, client: Dialect, **headers: str) -> tuple[int, Any, dict[str, str]]:
    async with session.post(url + ENDPOINT[client], data=minimal(client), headers=headers) as response:
        raw = await response.read()
        return response.status, json.loads(raw), {name.lower(): value for name, value in response.headers.items()}


@CLIENTS
async def test_the_hook_replaces_the_keys(client: Dialect) -> None:
    users = Users()
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = config_for(server.url, CHAT, keys=("the gateway's own",))
        async with embedded(config, users) as (url, session):
            assert (await _post(url, session, client))[0] == 200
            status, body, _ = await _post(url, session, client, **{"x-user": "eve", "x-api-key": "the gateway's own"})
            assert status == 401
            assert body["error"]["message"] == "the API key is missing or not valid"
            assert (body["type"] == "error") if client is MESSAGES else ("code" in body["error"])
            assert len(server.requests) == 1
    assert [record.ended for record in users.records] == ["completed", "rejected"]
    assert users.records[1].principal is None


SECRET = "sk-the-hooks-own-secret"
REJECTIONS: list[tuple[BaseException, int, str, bool]] = [
    (web.HTTPForbidden(text="your plan has no such model"), 403, "your plan has no such model", False),
    (web.HTTPForbidden(reason="Not Your Model"), 403, "Not Your Model", False),
    (web.HTTPForbidden(), 403, "this request is not permitted", False),
    (web.HTTPForbidden(text=f"the key {SECRET} is blocked"), 403, "the key sk-*** is blocked", False),
    (
        web.HTTPForbidden(text='{"error": {"message": "no such plan"}}', content_type="application/json"),
        403,
        "no such plan",
        False,
    ),
    (web.HTTPUnauthorized(reason=f"unknown {SECRET}"), 401, "unknown sk-***", False),
    (web.HTTPTooManyRequests(headers={"retry-after": "7"}), 429, "too many requests; try again later", False),
    (web.HTTPTooManyRequests(text="one at a time", headers={"retry-after": "7"}), 429, "one at a time", False),
    (web.HTTPMethodNotAllowed("POST", ["GET"]), 405, "the request was rejected", False),
    (web.HTTPUnprocessableEntity(text="no such user"), 422, "no such user", False),
    (web.HTTPUnavailableForLegalReasons(None, text="not here"), 451, "not here", False),
    (web.HTTPServiceUnavailable(text="closed until noon"), 503, "closed until noon", False),
    (RuntimeError(SECRET), 500, "internal error of the gateway", True),
    (ConnectionRefusedError(SECRET), 500, "internal error of the gateway", True),
    (TimeoutError(SECRET), 500, "internal error of the gateway", True),
    (web.HTTPFound("/login", text=SECRET), 500, "internal error of the gateway", True),
    (
        DragomanError(Failure(FailureKind.BILLING, "your credit is used up", 402, origin=FailureOrigin.CLIENT)),
        402,
        "your credit is used up",
        False,
    ),
    (
        DragomanError(Failure(FailureKind.INVALID_REQUEST, "no such user", 422, origin=FailureOrigin.CLIENT)),
        422,
        "no such user",
        False,
    ),
]


@CLIENTS
@pytest.mark.parametrize("hook", ["authorize", "choose"])
@pytest.mark.parametrize(("error", "status", "message", "logged"), REJECTIONS, ids=lambda each: type(each).__name__)
async def test_errors_of_hooks_become_errors_of_the_dialect(
    client: Dialect,
    hook: str,
    error: BaseException,
    status: int,
    message: str,
    logged: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    users = Users(hook, error)
    async with embedded(config_for(NOWHERE, CHAT), users) as (url, session):
        got, body, headers = await _post(url, session, client)
    assert (got, headers["content-type"].partition(";")[0]) == (status, "application/json")
    assert read_error(client, dump(body)).message == message
    assert SECRET not in json.dumps(body) + json.dumps(headers)
    assert headers.get("retry-after") == ("7" if status == 429 else None)
    assert (f"the hook {hook} failed for POST /llm{ENDPOINT[client]}" in caplog.text) is logged
    assert [(record.ended, record.status) for record in users.records] == [("rejected", status)]


@pytest.mark.parametrize("hook", ["authorize", "choose"])
@pytest.mark.parametrize("path", ["embeddings", "messages/count_tokens", "dragoman/explain?from=messages"])
async def test_the_text_of_a_rejection_reaches_clients_of_the_other_endpoints(hook: str, path: str) -> None:
    users = Users(hook, web.HTTPForbidden(text="your plan has no such model"))
    body = dump({"model": "m", "input": "Hi"}) if path == "embeddings" else minimal(MESSAGES)
    async with (
        embedded(config_for(NOWHERE, CHAT), users) as (url, session),
        session.post(f"{url}/v1/{path}", data=body) as response,
    ):
        assert response.status == 403
        assert (await response.json())["error"]["message"] == "your plan has no such model"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/metrics"),
        ("GET", "/v1/dragoman/receipts/x"),
        ("POST", "/v1/dragoman/explain"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/responses/input_tokens"),
    ],
)
async def test_the_other_endpoints_ask_the_hook_too(method: str, path: str) -> None:
    users = Users()
    async with embedded(config_for(NOWHERE, CHAT), users) as (url, session):
        body = minimal(MESSAGES if "messages" in path else RESPONSES) if method == "POST" else None
        async with session.request(method, url + path, data=body) as response:
            assert response.status == (404 if "receipts" in path else 200)
        async with session.request(method, url + path, data=body, headers={"x-user": "eve"}) as response:
            assert response.status == 401
            assert "error" in await response.json()
    assert users.records == []


async def test_a_receipt_belongs_to_its_user() -> None:
    async def authorize(request: web.Request) -> Principal[Any]:
        return Principal(request.headers["x-user"])

    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        hooks = Hooks(authorize=authorize)
        async with gate(config_for(server.url, CHAT), hooks=hooks) as entrance:
            async with entrance.post(CHAT, headers={"x-user": "ada"}) as response:
                request_id = response.headers["x-dragoman-request-id"]
            url = f"{entrance.url}/v1/dragoman/receipts/{request_id}"
            for user, status in (("ada", 200), ("eve", 404)):
                async with entrance.session.get(url, headers={"x-user": user}) as response:
                    assert response.status == status


@CANCELLING
async def test_a_hook_is_cancelled_with_its_request(cancelling: bool) -> None:
    """Without `handler_cancellation` aiohttp lets handlers run on: then the request ends after the hook."""
    began, released, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
    records: list[ExchangeRecord[Any]] = []

    async def authorize(request: web.Request) -> Principal[Any]:
        began.set()
        try:
            await released.wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ADA

    async with ScriptedServer([Stall()]) as server:
        app = make_app(config_for(server.url, CHAT), authorize=authorize, on_end=records.append)
        async with served(app, handler_cancellation=cancelling) as (url, _), ClientSession() as session:
            asked = asyncio.create_task(session.post(url + PATHS[CHAT], data=minimal(CHAT)))
            await asyncio.wait_for(began.wait(), 30)
            asked.cancel()
            if cancelling:
                await asyncio.wait_for(cancelled.wait(), 30)
            else:
                released.set()
            await until(lambda: bool(records))
    assert cancelled.is_set() is cancelling
    assert [record.ended for record in records] == ["abandoned"]


# --- choose ----------------------------------------------------------------------------------------------------------


@CLIENTS
async def test_the_hook_chooses_provider_and_model(client: Dialect) -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as routed,
        ScriptedServer(answer(200, dump(reply(MESSAGES)))) as other,
    ):
        config = Config(
            {"up": Provider("up", CHAT, routed.url), "other": Provider("other", MESSAGES, other.url)},
            [Route("*", "up")],
        )
        users = Users(target=Target("other", "claude-x"))
        async with embedded(config, users) as (url, session):
            assert (await _post(url, session, client))[0] == 200
            users.target = None
            assert (await _post(url, session, client))[0] == 200
    assert users.chosen == [("m", client, ADA)] * 2
    assert [(record.provider, record.upstream_model, record.route) for record in users.records] == [
        ("other", "claude-x", "choose"),
        ("up", "m", "*"),
    ]
    assert json.loads(other.requests[0].body)["model"] == "claude-x"
    assert json.loads(routed.requests[0].body)["model"] == "m"


async def test_a_provider_of_the_application_gets_its_own_url_and_key() -> None:
    """Also if it has the name of a configured one, whose URL and headers are cached."""
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as routed,
        ScriptedServer(answer(200, dump(reply(CHAT)))) as own,
    ):
        config = Config({"up": Provider("up", CHAT, routed.url, Secret("key of all"))}, [Route("*", "up")])
        users = Users()
        async with embedded(config, users) as (url, session):
            for target in (None, Target(Provider("up", CHAT, own.url, Secret("key of ada")), "m"), None):
                users.target = target
                assert (await _post(url, session, MESSAGES))[0] == 200
    assert [each.headers["authorization"] for each in routed.requests] == ["Bearer key of all"] * 2
    assert [each.headers["authorization"] for each in own.requests] == ["Bearer key of ada"]


async def test_the_key_of_a_chosen_provider_does_not_come_back() -> None:
    key = "an-unusual-secret-of-ada"
    echoed = dump({"error": {"message": f"no such key: {key}", "type": "invalid_request_error"}})
    async with ScriptedServer(answer(400, echoed)) as server:
        users = Users(target=Target(Provider("own", CHAT, server.url, Secret(key)), "m"))
        async with embedded(config_for(NOWHERE, CHAT), users) as (url, session):
            status, body, _ = await _post(url, session, MESSAGES)
    assert status == 400
    assert "no such key" in body["error"]["message"]
    assert key not in json.dumps(body)


@pytest.mark.parametrize(
    "target",
    [
        Target("nowhere", "m"),
        Target(Provider("bad name", CHAT, NOWHERE), "m"),
        Target(Provider("a", CHAT, "ftp:x"), "m"),
    ],
    ids=["unknown", "name", "url"],
)
async def test_a_target_that_cannot_be_used_is_an_error_of_the_gateway(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    users = Users(target=target)
    async with embedded(config_for(NOWHERE, CHAT), users) as (url, session):
        status, body, _ = await _post(url, session, MESSAGES)
    assert (status, body["error"]["message"]) == (500, "internal error of the gateway")
    assert "the hook choose failed" in caplog.text


async def test_knobs_of_a_target_are_those_of_the_request() -> None:
    body = {"model": "m", "max_tokens": 5, "top_k": 3, "messages": [{"role": "user", "content": "Hi"}]}
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        users = Users()
        async with embedded(config_for(server.url, CHAT), users) as (url, session):
            for knobs, status in ((None, 200), (Knobs(on_loss="reject"), 400)):
                users.target = Target("up", "m", knobs)
                async with session.post(url + PATHS[MESSAGES], json=body) as response:
                    assert response.status == status, await response.text()


async def test_counts_and_explanations_use_the_target_of_the_hook() -> None:
    async with ScriptedServer(answer(200, b'{"input_tokens":11}')) as server:
        users = Users(target=Target(Provider("own", MESSAGES, server.url), "claude-x"))
        async with embedded(config_for(NOWHERE, CHAT), users) as (url, session):
            async with session.post(f"{url}/v1/messages/count_tokens", data=minimal(MESSAGES)) as response:
                assert (await response.json())["input_tokens"] == 11
            async with session.post(f"{url}/v1/dragoman/explain?from=chat", data=minimal(CHAT)) as response:
                explained = await response.json()
    assert json.loads(server.requests[0].body)["model"] == "claude-x"
    assert (explained["provider"], explained["upstream_model"], explained["client"]) == ("own", "claude-x", "chat")
    assert [principal for _, _, principal in users.chosen] == [ADA, ADA]


# --- reconfigure -----------------------------------------------------------------------------------------------------


async def test_hooks_stay_after_a_reconfiguration() -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as before,
        ScriptedServer(answer(200, dump(reply(CHAT)))) as after,
    ):
        users = Users(target=Target("up", "m"))
        async with gate(config_for(before.url, CHAT), hooks=users.hooks) as entrance:
            for server in (before, after):
                entrance.gateway.reconfigure(config_for(server.url, CHAT))
                async with entrance.post(CHAT, headers={"x-user": "ada"}) as response:
                    assert response.status == 200
        assert (len(before.requests), len(after.requests), len(users.records)) == (1, 1, 2)


def test_a_gateway_that_is_given_has_its_own_hooks() -> None:
    config = Config(server=Server())
    with pytest.raises(ValueError, match="a gateway has its own hooks"):
        setup(web.Application(), config, gateway=Gateway(config), on_end=print)
