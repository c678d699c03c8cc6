"""Refusals of the gateway itself, in every form of request: booked as its own, and as no failure of the provider's."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dragoman import DragomanError, Failure
from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman.errors import FailureKind
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.config.overload import Overload
from dragoman_server.config.schema import Config, Models
from dragoman_server.config.state_options import StateOptions
from dragoman_server.observability.logs import JsonFormatter
from dragoman_server.observability.prometheus import exposition
from dragoman_server.proxy.hooks import NO_HOOKS, Hooks
from support.exposed import read_exposition, total
from support.gateways import Gate, config_for, gate, until
from support.named_keys import keyed, made
from support.samples import text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, Wait, chunk, sse_head, stream
from support.websockets import speaking

CHAT, MESSAGES, RESPONSES, *_ = Dialect


async def choose_raises(*_: Any) -> Any:
    raise web.HTTPTooManyRequests


async def choose_explains(*_: Any) -> Any:
    raise DragomanError(Failure(FailureKind.PERMISSION, "not on Sundays", 403))


async def choose_fails(*_: Any) -> Any:
    raise web.HTTPServiceUnavailable


@dataclass(frozen=True)
class Case:
    """A reason to refuse a request, and what its line of the log names. `own` is the kind of a gateway's error."""

    status: int
    named: str
    limits: dict[str, Any] = field(default_factory=dict)
    occupied: bool = False
    change: Callable[[Config], Config] = lambda config: config
    hooks: Hooks[Any] = NO_HOOKS
    stopping: bool = False
    own: str = ""
    counts: bool = True
    """True if requests for token counts are refused as well."""


def one_place(config: Config) -> Config:
    return replace(config, providers={"up": replace(config.providers["up"], concurrent=1)})


CASES = {
    "requests": Case(429, "limit=requests: ", {"requests_per_minute": 1}, occupied=True, counts=False),
    "concurrent": Case(429, "limit=concurrent: ", {"concurrent_requests": 1}, occupied=True, counts=False),
    "tokens": Case(429, "limit=daily_tokens: ", {"daily_tokens": 1}, counts=False),
    "price": Case(403, "the model 'm' has no price", {"monthly_cost": 1}, counts=False),
    "permission": Case(403, "may not use the model 'm'", {"models": ("small-*",)}),
    "unknown": Case(404, "m", change=lambda config: replace(config, routes=[], models=Models(unknown="reject"))),
    "place": Case(503, "as many requests", occupied=True, change=one_place, own="no_provider", counts=False),
    "load": Case(
        503,
        "more requests than it can answer",
        change=lambda config: replace(config, server=replace(config.server, overload=Overload(memory=1))),
        own="overloaded",
    ),
    "stopping": Case(503, "shutting down", stopping=True, own="stopping"),
    "hook": Case(429, "too many requests", hooks=Hooks(choose=choose_raises)),
    "hook's words": Case(403, "not on Sundays", hooks=Hooks(choose=choose_explains)),
    "hook's trouble": Case(503, "not available", hooks=Hooks(choose=choose_fails), own="hook"),
}

Change = Callable[[], Awaitable[None]]
Form = Callable[[Gate, str, Change], Awaitable[int]]
"""Sends a request with a key once the gateway has changed, and returns the status."""


def headers(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def posted(path: str, **fields: Any) -> Form:
    async def send(entrance: Gate, key: str, change: Change) -> int:
        await change()
        body = {"model": "m", **fields}
        async with entrance.session.post(entrance.url + path, json=body, headers=headers(key)) as response:
            assert key not in await response.text()
            return response.status

    return send


async def uploaded(entrance: Gate, key: str, change: Change) -> int:
    await change()
    form = aiohttp.FormData()
    form.add_field("model", "m")
    form.add_field("file", b"RIFF", filename="a.wav")
    path = f"{entrance.url}/v1/audio/transcriptions"
    async with entrance.session.post(path, data=form, headers=headers(key)) as response:
        assert key not in await response.text()
        return response.status


async def on_websocket(entrance: Gate, key: str, change: Change) -> int:
    async with speaking(entrance.url, headers=headers(key)) as client:
        await change()  # the handshake would be refused otherwise
        (error,) = await client.turn()
        return int(error["status"])


TURN = [{"role": "user", "content": "Hi"}]
FORMS: dict[str, Form] = {
    "whole": posted("/v1/chat/completions", messages=TURN),
    "stream": posted("/v1/messages", messages=TURN, max_tokens=9, stream=True),
    "responses": posted("/v1/responses", input="Hi"),
    "background": posted("/v1/responses", input="Hi", background=True),
    "embeddings": posted("/v1/embeddings", input="Hi"),
    "form": uploaded,
    "websocket": on_websocket,
    "count": posted("/v1/messages/count_tokens", messages=TURN),
}


@asynccontextmanager
async def occupant(entrance: Gate, key: str) -> AsyncIterator[None]:
    body = {"model": "m", "messages": TURN, "stream": True}
    path = f"{entrance.url}/v1/chat/completions"
    async with entrance.session.post(path, json=body, headers=headers(key)) as response:
        assert response.status == 200
        yield


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
async def test_a_refusal_is_the_gateways_own(
    name: str, form: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    case = CASES[name]
    if (form == "count" and not case.counts) or (form, name) == ("form", "tokens"):
        pytest.skip("requests for counts do not use this limit, and the tokens of a form are not estimated")
    overloaded = case.status == 503 and case.own != "hook" and form in ("stream", "count")
    status = 529 if overloaded else case.status  # a hook's status is the client's in every dialect
    caplog.set_level(logging.INFO, "dragoman")
    key, record = made("alice", **case.limits)
    released, frames, book = asyncio.Event(), text_stream(CHAT), tmp_path / "usage.jsonl"
    open_stream: list[Step] = [Send(sse_head()), Send(chunk(frames[0])), Wait(released), Send(LAST_CHUNK)]
    async with ScriptedServer(open_stream if case.occupied else stream(frames)) as server, AsyncExitStack() as stack:
        config = case.change(keyed(server.url, CHAT, record))
        state = StateOptions(kind="memory", background=2)
        config = replace(config, state=state, usage=UsageOptions(kind="jsonl", path=str(book)))
        calm = replace(config, server=replace(config.server, overload=Overload(event_loop_lag=0.0)))
        entrance = await stack.enter_async_context(gate(calm, hooks=case.hooks))
        if case.occupied:
            await stack.enter_async_context(occupant(entrance, key))
        gateway, sent = entrance.gateway, len(server.requests)

        async def change() -> None:
            gateway.services.open_requests.stopping = case.stopping
            if config.server.overload != calm.server.overload:
                gateway.reconfigure(config)
                await until(lambda: gateway.services.instruments.load.reason() is not None)

        assert await FORMS[form](entrance, key, change) == status
        gateway.services.open_requests.stopping = False
        assert len(server.requests) == sent
        samples = read_exposition(exposition(gateway.metrics.alone()))
        receipts = [each for each in gateway.receipts.newest() if each.ended != "open"]
        released.set()
    (line,) = [each for each in caplog.records if " rejected status=" in each.getMessage()]
    text, shown = line.getMessage(), json.loads(JsonFormatter().format(line))
    assert line.levelno == logging.INFO
    assert f" rejected status={status}" in text
    assert case.named in text
    assert key not in text + json.dumps(shown)
    assert not total(samples, "dragoman_upstream_errors_total")
    if form == "count":
        assert total(samples, "dragoman_rejected_requests_total") == 1
        return
    assert total(samples, "dragoman_requests_total", ended="rejected", status=f"{case.status // 100}xx") == 1
    assert total(samples, "dragoman_requests_total") == 1
    assert total(samples, "dragoman_request_duration_seconds_count") == 0
    assert total(samples, "dragoman_provider_down") == 0
    assert total(samples, "dragoman_gateway_errors_total") == bool(case.own)
    assert total(samples, "dragoman_gateway_errors_total", kind=case.own) == bool(case.own)
    (row,) = [each for each in map(json.loads, book.read_text().splitlines()) if each["ended"] == "rejected"]
    assert (row["status"], row["input"], row["cost"]) == (status, None, None)
    if case.own not in ("overloaded", "stopping"):  # those are rejected before the key is read
        assert " key=alice" in text
        assert shown["key"] == row["key"] == "alice"
        (receipt,) = receipts
        assert receipt.ended == "rejected"
        noted = json.loads(receipt.json())["error"]
        assert noted["message"] in text.replace("\\'", "'")
    if case.limits and case.status == 429:
        assert shown["limit"] == case.named.removeprefix("limit=").removesuffix(": ")


async def test_an_invalid_form_is_the_clients_fault_after_its_beginning_was_sent() -> None:
    boundary = "xyz"
    field = '--xyz\r\ncontent-disposition: form-data; name="{}"\r\n\r\n{}\r\n'.format
    form = f"{field('model', 'm')}{field('file', 'R' * 1_000_000)}{field('model', 'other')}--xyz--\r\n"
    sent = {"content-type": f"multipart/form-data; boundary={boundary}"}
    async with ScriptedServer([Wait(asyncio.Event())]) as server, gate(config_for(server.url, CHAT)) as entrance:
        path = f"{entrance.url}/v1/audio/transcriptions"
        async with entrance.session.post(path, data=form, headers=sent) as response:
            assert response.status == 400
        (receipt,) = entrance.gateway.receipts.newest()
        samples = read_exposition(exposition(entrance.gateway.metrics.alone()))
    assert (receipt.ended, receipt.provider) == ("rejected", "up")
    assert not total(samples, "dragoman_upstream_errors_total")


async def test_a_stream_that_began_before_a_place_was_free_is_rejected_in_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    key, record = made("alice")
    released, frames = asyncio.Event(), text_stream(CHAT)
    async with ScriptedServer([Send(sse_head()), Send(chunk(frames[0])), Wait(released)]) as server:
        config = keyed(server.url, CHAT, record, timeouts=Timeouts(early_reply=0.02))
        waiting = replace(config.providers["up"], concurrent=1, queue=1, queue_seconds=0.2)
        async with gate(replace(config, providers={"up": waiting})) as entrance, occupant(entrance, key):
            assert b'"error"' in await entrance.stream(MESSAGES, headers=headers(key))
            first, _ = entrance.gateway.receipts.newest()
            samples = read_exposition(exposition(entrance.gateway.metrics.alone()))
    assert (first.ended, first.status) == ("rejected", 200)
    assert total(samples, "dragoman_gateway_errors_total", kind="no_provider") == 1
    assert not total(samples, "dragoman_upstream_errors_total")
    (line,) = [each.getMessage() for each in caplog.records if " rejected in the stream " in each.getMessage()]
    assert " key=alice: the providers of this model have as many requests" in line
