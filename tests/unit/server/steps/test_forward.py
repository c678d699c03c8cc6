"""Retries and fallbacks of forwarded requests, over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientError

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from support.forms import FORM_TYPE, form, part
from support.gateways import Gate, gate
from support.sockets import Abort, ScriptedServer, Send, Step, answer, chunk, head

EMBEDDED = b'{"object":"list","data":[],"model":"m","usage":{"prompt_tokens":4,"total_tokens":4}}'
GOOD = answer(200, EMBEDDED)
BODY = {"model": "any", "input": "text"}
QUICK = RetryOptions(backoff=0.01, backoff_max=0.02, failures=0)
AUDIO = head(200, [("content-type", "audio/mpeg"), ("transfer-encoding", "chunked")])


def refusal(status: int) -> list[Step]:
    return answer(status, b'{"error":{"message":"no","type":"x"}}')


@asynccontextmanager
async def upstreams(
    *scripts: Sequence[Sequence[Step]], retries: RetryOptions = QUICK, first: Any = None, **route: Any
) -> AsyncIterator[tuple[Gate, list[ScriptedServer]]]:
    """A gateway whose route leads to these upstreams in this order. Each has a script for each of its requests."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ScriptedServer(*script)) for script in scripts]
        providers = {f"up{n}": Provider(f"up{n}", Dialect.CHAT, each.url) for n, each in enumerate(servers, 1)}
        if first is not None:
            providers["up1"] = replace(providers["up1"], **first)
        targets = tuple(RouteTarget(name, f"model-{name}") for name in providers)
        config = Config(providers, [Route("*", targets=targets, **route)], retries=retries)
        yield await stack.enter_async_context(gate(config)), servers


async def ask(entrance: Gate, path: str = "embeddings", **settings: Any) -> tuple[int, bytes, Any]:
    """The status and the body of a reply, and the receipt."""
    sent = settings or {"json": BODY}
    async with entrance.session.post(f"{entrance.url}/v1/{path}", **sent) as response:
        body = await response.read()
        request_id = response.headers["x-dragoman-request-id"]
    async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}") as response:
        return response.status, body, await response.json()


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503, 529])
async def test_another_provider_gets_a_request_that_failed(status: int) -> None:
    async with upstreams([refusal(status)], [GOOD]) as (entrance, servers):
        _, body, receipt = await ask(entrance)
    assert body == EMBEDDED
    assert [json.loads(server.requests[0].body)["model"] for server in servers] == ["model-up1", "model-up2"]
    assert [row["outcome"] for row in receipt["attempts"]][1:] == ["answered"]
    assert [row["status"] for row in receipt["attempts"]] == [status, None]
    assert (receipt["provider"], receipt["upstream_model"]) == ("up2", "model-up2")
    assert receipt["usage"]["input_total"] == 4


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_a_refused_request_is_not_repeated(status: int) -> None:
    async with upstreams([refusal(status)], [GOOD]) as (entrance, servers):
        _, body, receipt = await ask(entrance)
    assert b'"no"' in body
    assert (receipt["ended"], receipt["status"], len(receipt["attempts"])) == ("refused", status, 1)
    assert not servers[1].requests


async def test_one_provider_is_tried_again() -> None:
    async with upstreams([refusal(503), refusal(503), GOOD], attempts=3) as (entrance, servers):
        _, body, receipt = await ask(entrance)
    assert body == EMBEDDED
    assert [row["outcome"] for row in receipt["attempts"]] == ["unavailable", "unavailable", "answered"]
    assert len(servers[0].requests) == 3


async def test_the_last_error_is_the_clients() -> None:
    async with upstreams([refusal(503), refusal(500)], attempts=2) as (entrance, _):
        _, _, receipt = await ask(entrance)
    assert (receipt["ended"], receipt["status"], len(receipt["attempts"])) == ("refused", 500, 2)


async def test_only_providers_of_the_endpoint_get_it() -> None:
    first = {"endpoints": ("images",)}
    async with upstreams([GOOD], [GOOD], first=first) as (entrance, servers):
        _, body, receipt = await ask(entrance)
    assert body == EMBEDDED
    assert (receipt["provider"], len(receipt["attempts"]), len(servers[0].requests)) == ("up2", 1, 0)


async def test_a_reply_that_is_cut_before_its_first_byte_is_requested_again() -> None:
    cut: list[Step] = [Send(AUDIO), Abort()]
    whole: list[Step] = [Send(AUDIO + chunk(b"mp3") + b"0\r\n\r\n")]
    async with upstreams([cut], [whole]) as (entrance, _):
        _, body, receipt = await ask(entrance, "audio/speech")
    assert body == b"mp3"
    assert [row["outcome"] for row in receipt["attempts"]] == ["cut", "answered"]


async def test_a_reply_that_has_begun_is_not_requested_again() -> None:
    async with upstreams([[Send(AUDIO + chunk(b"mp3")), Abort()]], [GOOD]) as (entrance, servers):
        with pytest.raises(ClientError):
            await ask(entrance, "audio/speech")
        assert not servers[1].requests


async def test_a_form_has_one_attempt() -> None:
    data = form(part("model", b"any"), part("file", b"x" * 1000, filename="a"))
    async with upstreams([refusal(503)], [GOOD]) as (entrance, servers):
        sent = {"data": data, "headers": {"content-type": FORM_TYPE}}
        _, _, receipt = await ask(entrance, "audio/transcriptions", **sent)
    assert (receipt["ended"], receipt["status"], len(receipt["attempts"])) == ("refused", 503, 1)
    assert b"model-up1" in servers[0].requests[0].body
    assert not servers[1].requests


async def test_the_retry_budget_and_the_breaker_are_those_of_all_requests() -> None:
    retries = RetryOptions(backoff=0.001, backoff_max=0.001, budget=0.0, budget_min=2, failures=4, cooldown=60)
    async with upstreams([refusal(500)] * 9, attempts=3, retries=retries) as (entrance, servers):
        receipts = [(await ask(entrance))[2] for _ in range(4)]
    assert [len(receipt.get("attempts", ())) for receipt in receipts] == [3, 1, 0, 0]
    assert [receipt["status"] for receipt in receipts] == [500, 500, 503, 503]
    assert len(servers[0].requests) == 4
