"""A fallback by the reason of an error, whatever its status: an empty account, a long request, a retired model."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from support.gateways import CHAT, MESSAGES, Gate, gate
from support.samples import dump, reply, text_stream
from support.sockets import ScriptedServer, Step, answer, chunk, sse_head, stream
from support.sockets import Send as SendBytes

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
LIMIT = "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."


def anthropic(status: int, kind: str, message: str) -> list[Step]:
    return answer(status, dump({"type": "error", "error": {"type": kind, "message": message}}))


def openai(status: int, code: str) -> list[Step]:
    error = {"message": "no", "type": code, "code": code, "param": None}
    return answer(status, dump({"error": error}))


EMPTY: dict[str, tuple[Dialect, list[Step]]] = {
    "credit": (MESSAGES, anthropic(400, "invalid_request_error", CREDIT)),
    "limit": (MESSAGES, anthropic(400, "invalid_request_error", LIMIT)),
    "billing_error": (MESSAGES, anthropic(402, "billing_error", "no")),
    "insufficient_quota": (CHAT, openai(429, "insufficient_quota")),
    "billing_hard_limit": (Dialect.RESPONSES, openai(400, "billing_hard_limit_reached")),
    "arrearage": (CHAT, openai(400, "Arrearage")),
}
TOO_LONG: dict[str, tuple[Dialect, list[Step]]] = {
    "messages": (MESSAGES, anthropic(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")),
    "messages 413": (MESSAGES, anthropic(413, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")),
    "chat": (CHAT, openai(400, "context_length_exceeded")),
}


def works(dialect: Dialect, streamed: bool) -> list[Step]:
    return stream(text_stream(dialect)) if streamed else answer(200, dump(reply(dialect)))


def config(*upstreams: tuple[str, Dialect], larger: int = 0, keys: bool = False, **retries: Any) -> Config:
    """Providers `up1`, `up2`, … in this order. The last `larger` of them get only what is too long for the others."""
    secrets = (Secret("sk-1"), Secret("sk-2")) if keys else ()
    numbered = enumerate(upstreams, 1)
    providers = {f"up{n}": Provider(f"up{n}", dialect, url, api_keys=secrets) for n, (url, dialect) in numbered}
    names = list(providers)
    targets = tuple(RouteTarget(name, larger=names.index(name) >= len(names) - larger) for name in names)
    return Config(
        providers=providers,
        routes=[Route("*", targets=targets)],
        retries=RetryOptions(backoff=0.01, backoff_max=0.02, **retries),
    )


async def receipt_of(entrance: Gate, *, streamed: bool = False) -> dict[str, Any]:
    """The receipt of a request that must succeed."""
    async with entrance.post(MESSAGES, stream=streamed) as response:
        body = await response.read()
        assert response.status == 200, body
        assert b'"error"' not in body
        request_id = response.headers["x-dragoman-request-id"]
    async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}") as response:
        found: dict[str, Any] = json.loads(await response.read())
        return found


@STREAMED
@pytest.mark.parametrize("case", EMPTY)
async def test_an_empty_account_leads_to_the_next_provider_once_for_all_requests(case: str, streamed: bool) -> None:
    dialect, refusal = EMPTY[case]
    async with ScriptedServer(refusal) as first, ScriptedServer(works(CHAT, streamed)) as second:
        async with gate(config((first.url, dialect), (second.url, CHAT))) as entrance:
            receipt = await receipt_of(entrance, streamed=streamed)
            again = await receipt_of(entrance, streamed=streamed)
        assert [row["outcome"] for row in receipt["attempts"]] == ["no_credit", "answered"]
        # The provider pauses for everybody: its account is empty for the next request, too.
        assert [row["outcome"] for row in again["attempts"]] == ["answered"]
        assert again["skipped"] == [{"provider": "up1", "reason": "paused"}]
        assert (len(first.requests), len(second.requests)) == (1, 2)


async def test_an_empty_account_as_the_first_event_of_a_stream_leads_to_the_next_provider() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": CREDIT}}
    event = b"event: error\ndata: " + dump(error) + b"\n\n"
    begun: list[Step] = [SendBytes(sse_head() + chunk(event)), SendBytes(b"0\r\n\r\n")]
    async with ScriptedServer(begun) as first, ScriptedServer(works(CHAT, streamed=True)) as second:
        async with gate(config((first.url, MESSAGES), (second.url, CHAT))) as entrance:
            receipt = await receipt_of(entrance, streamed=True)
        assert [row["outcome"] for row in receipt["attempts"]] == ["no_credit", "answered"]


async def test_an_empty_account_leads_to_another_key_and_is_not_asked_again() -> None:
    """A 429 is sent again to the same provider; an empty account is one that no pause fills."""
    async with ScriptedServer(EMPTY["insufficient_quota"][1], works(CHAT, streamed=False)) as upstream:
        async with gate(config((upstream.url, CHAT), keys=True)) as entrance:
            receipt = await receipt_of(entrance)
        keys = [request.headers["authorization"] for request in upstream.requests]
        assert sorted(keys) == ["Bearer sk-1", "Bearer sk-2"]
    assert [row["outcome"] for row in receipt["attempts"]] == ["no_credit", "answered"]


async def test_the_client_gets_the_error_if_no_account_has_credit() -> None:
    refusal = EMPTY["credit"][1]
    async with ScriptedServer(refusal) as first, ScriptedServer(refusal) as second:
        async with gate(config((first.url, MESSAGES), (second.url, MESSAGES))) as entrance:
            status, *error = await entrance.refusal(MESSAGES)
        assert (status, CREDIT in str(error)) == (400, True)
        assert (len(first.requests), len(second.requests)) == (1, 1)


@STREAMED
@pytest.mark.parametrize("case", TOO_LONG)
async def test_a_request_that_is_too_long_goes_to_the_larger_provider(case: str, streamed: bool) -> None:
    dialect, refusal = TOO_LONG[case]
    async with ScriptedServer(refusal) as first, ScriptedServer(works(CHAT, streamed)) as second:
        async with gate(config((first.url, dialect), (second.url, CHAT), larger=1)) as entrance:
            receipt = await receipt_of(entrance, streamed=streamed)
            await receipt_of(entrance, streamed=streamed)
        assert [row["outcome"] for row in receipt["attempts"]] == ["too_long", "answered"]
        # A long request is no failure of the provider: the next one begins there again.
        assert (len(first.requests), len(second.requests)) == (2, 2)


async def test_without_a_larger_provider_the_client_compacts() -> None:
    refusal = TOO_LONG["messages"][1]
    async with ScriptedServer(refusal) as first, ScriptedServer(works(CHAT, streamed=False)) as second:
        async with gate(config((first.url, MESSAGES), (second.url, CHAT))) as entrance:
            status, *error = await entrance.refusal(MESSAGES)
        assert (status, "prompt is too long" in str(error)) == (400, True)
        assert len(second.requests) == 0


async def test_a_larger_provider_gets_no_other_requests() -> None:
    failed = anthropic(529, "overloaded_error", "no")
    async with ScriptedServer(failed) as first, ScriptedServer(works(CHAT, streamed=False)) as second:
        async with gate(config((first.url, MESSAGES), (second.url, CHAT), larger=1)) as entrance:
            assert (await entrance.refusal(MESSAGES))[0] == 529
        assert len(second.requests) == 0


@pytest.mark.parametrize("status", [404, 413])
@pytest.mark.parametrize("unserved", [False, True])
async def test_what_a_provider_does_not_serve_leads_to_the_next_by_a_knob(status: int, unserved: bool) -> None:
    refusal = anthropic(status, "not_found_error", "model: claude-2 has been retired")
    async with ScriptedServer(refusal) as first, ScriptedServer(works(CHAT, streamed=False)) as second:
        async with gate(config((first.url, MESSAGES), (second.url, CHAT), unserved=unserved)) as entrance:
            if unserved:
                assert [row["outcome"] for row in (await receipt_of(entrance))["attempts"]] == ["refused", "answered"]
            else:
                assert (await entrance.refusal(MESSAGES))[0] == status
        assert len(second.requests) == unserved


async def test_a_fallback_is_in_the_line_of_the_request_and_the_first_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    async with (
        ScriptedServer(EMPTY["credit"][1]) as first,
        ScriptedServer(works(CHAT, streamed=False)) as second,
        gate(config((first.url, MESSAGES), (second.url, CHAT))) as entrance,
    ):
        await receipt_of(entrance)
        await receipt_of(entrance)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line.partition(" ")[2] for line in warnings] == [
        "provider up1 failed (no_credit, status 400): the request goes to up2"
    ]
    lines = [record.getMessage() for record in caplog.records if " completed status=" in record.getMessage()]
    assert " attempts=2 first:no_credit" in lines[0]
    assert " skipped=up1" in lines[1]
    assert "attempts=" not in lines[1]
