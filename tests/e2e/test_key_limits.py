"""The limits of a key at the gateway: what is counted, what a client is reported, and what is released again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest

from dragoman import Usage
from dragoman.dialects import Dialect
from dragoman.gateway import ServiceReport
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.proxy.hooks import Hooks
from support.gateways import gate, until
from support.named_keys import keyed, made, spent
from support.samples import PATHS, dump, error_frame, reply, request, text_stream
from support.sockets import Close, ScriptedServer, Send, Stall, Step, Wait, answer, chunk, sse_head, stream

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
DIALECTS = (CHAT, MESSAGES, RESPONSES)
USED = 14
"""Tokens of the sample replies."""


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def ok(upstream: Dialect = CHAT) -> Any:
    return answer(200, dump(reply(upstream)))


@dataclass
class Clock:
    now: float = 1_795_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("client", DIALECTS, ids=str)
async def test_requests_above_the_limit_learn_when_to_come_back(client: Dialect) -> None:
    key, record = made(requests_per_minute=2)
    async with ScriptedServer(ok()) as server, gate(keyed(server.url, CHAT, record)) as entrance:
        for _ in range(2):
            async with entrance.post(client, headers=bearer(key)) as response:
                assert response.status == 200
        status, error, headers = await entrance.refusal(client, headers=bearer(key))
        assert status == 429
        assert error.type == "rate_limit_error"
        assert error.code == (None if client is MESSAGES else "rate_limit_exceeded")
        assert 1 <= int(headers["retry-after"]) <= 30
        assert "2 requests per minute" in error.message
        assert "x-should-retry" not in headers
        assert record.hash.digest.hex() not in str(headers)
    assert len(server.requests) == 2


@pytest.mark.parametrize("stream_reply", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("client", DIALECTS, ids=str)
async def test_replies_carry_the_limits_of_the_key(client: Dialect, stream_reply: bool) -> None:
    key, record = made(requests_per_minute=60, tokens_per_minute=600_000)
    upstream = [("x-ratelimit-limit-requests", "9999"), ("x-ratelimit-remaining-tokens", "9")]
    script = (
        [Send(sse_head(extra=upstream)), *stream(text_stream(CHAT))[1:]]
        if stream_reply
        else answer(200, dump(reply(CHAT)), headers=upstream)
    )
    async with (
        ScriptedServer(script) as server,
        gate(keyed(server.url, CHAT, record)) as entrance,
        entrance.post(client, headers=bearer(key), stream=stream_reply) as response,
    ):
        assert response.status == 200
        headers: Mapping[str, str] = response.headers
        if client is MESSAGES:
            assert headers["anthropic-ratelimit-requests-limit"] == "60"
            assert headers["anthropic-ratelimit-requests-remaining"] == "59"
            assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", headers["anthropic-ratelimit-requests-reset"])
            assert headers["anthropic-ratelimit-tokens-limit"] == "600000"
        else:
            assert headers["x-ratelimit-limit-requests"] == "60"
            assert headers["x-ratelimit-remaining-requests"] == "59"
            assert headers["x-ratelimit-reset-requests"] == "1s"
            assert headers["x-ratelimit-limit-tokens"] == "600000"
            assert 599_000 < int(headers["x-ratelimit-remaining-tokens"]) < 600_000
        await response.read()


@pytest.mark.parametrize("client", DIALECTS, ids=str)
async def test_limits_of_the_upstream_are_not_mixed_with_those_of_the_key(client: Dialect) -> None:
    key, record = made(requests_per_minute=60)
    upstream = [("x-ratelimit-remaining-tokens", "9"), ("x-request-id", "req_upstream")]
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)), headers=upstream)) as server,
        gate(keyed(server.url, CHAT, record)) as entrance,
        entrance.post(client, headers=bearer(key)) as response,
    ):
        assert response.headers[client.request_id_header] == "req_upstream"
        limits = [name.lower() for name in response.headers if "ratelimit" in name.lower()]
        assert len(limits) == 3, limits
        assert not [name for name in limits if "tokens" in name]


async def test_the_limit_is_free_again_after_the_time_that_was_reported() -> None:
    clock = Clock()
    key, record = made(requests_per_minute=3)
    async with ScriptedServer(ok()) as server, gate(keyed(server.url, CHAT, record), now=clock) as entrance:
        for _ in range(3):
            async with entrance.post(CHAT, headers=bearer(key)) as response:
                assert response.status == 200
        _, _, headers = await entrance.refusal(CHAT, headers=bearer(key))
        clock.now += int(headers["retry-after"]) - 1
        assert (await entrance.refusal(CHAT, headers=bearer(key)))[0] == 429
        clock.now += 1
        async with entrance.post(CHAT, headers=bearer(key)) as response:
            assert response.status == 200


@pytest.mark.parametrize("upstream", DIALECTS, ids=str)
@pytest.mark.parametrize("client", DIALECTS, ids=str)
async def test_a_budget_counts_what_the_upstream_reports(client: Dialect, upstream: Dialect) -> None:
    key, record = made(daily_tokens=10**6, monthly_tokens=10**6)
    async with (
        ScriptedServer(ok(upstream), stream(text_stream(upstream))) as server,
        gate(keyed(server.url, upstream, record)) as entrance,
    ):
        async with entrance.post(client, headers=bearer(key)) as response:
            assert response.status == 200
        first = await spent(entrance, record)
        assert first["daily_tokens"] == first["monthly_tokens"]
        if upstream is not RESPONSES:
            assert first["daily_tokens"] == USED
        await entrance.stream(client, headers=bearer(key))
        second = await spent(entrance, record)
        assert second["daily_tokens"] > first["daily_tokens"]
        if upstream is not RESPONSES:
            assert second == {"daily_tokens": 2 * USED, "monthly_tokens": 2 * USED}


@pytest.mark.parametrize("client", DIALECTS, ids=str)
async def test_an_exhausted_budget_is_an_error_that_is_not_retried(client: Dialect) -> None:
    key, record = made(monthly_tokens=20)
    async with ScriptedServer(ok()) as server, gate(keyed(server.url, CHAT, record)) as entrance:
        statuses = []
        for _ in range(4):
            async with entrance.post(client, headers=bearer(key)) as response:
                statuses.append(response.status)
        assert statuses[-1] == 429
        status, error, headers = await entrance.refusal(client, headers=bearer(key))
        assert status == 429
        assert error.type == "rate_limit_error"
        assert error.code == (None if client is MESSAGES else "insufficient_quota")
        assert headers["x-should-retry"] == "false"
        assert 1 <= int(headers["retry-after"]) <= 31 * 86400
        assert "of 20 for this month" in error.message
    assert len(server.requests) == statuses.count(200)


@pytest.mark.parametrize(
    ("script", "tokens"),
    [
        (answer(400, b'{"error": {"message": "no", "type": "invalid_request_error"}}'), 0),
        (answer(500, b"{}"), 0),
        ([Close()], 0),
    ],
    ids=["refused", "failed", "closed"],
)
async def test_a_request_that_the_upstream_did_not_serve_costs_nothing(script: Any, tokens: int) -> None:
    key, record = made(daily_tokens=10**6, concurrent_requests=1)
    async with ScriptedServer(script) as server, gate(keyed(server.url, CHAT, record)) as entrance:
        for _ in range(3):  # the request that may be open at the same time is released each time
            async with entrance.post(MESSAGES, headers=bearer(key)) as response:
                assert response.status in (400, 500, 502)
        assert await spent(entrance, record) == {"daily_tokens": tokens}


@pytest.mark.parametrize("client", [CHAT, MESSAGES], ids=str)
async def test_a_stream_that_fails_or_is_left_is_counted_as_far_as_it_came(client: Dialect) -> None:
    key, record = made(daily_tokens=10**6, concurrent_requests=1)
    begun = text_stream(CHAT)[:4]
    failing = stream([*begun, error_frame(CHAT)])
    held: list[Step] = [Send(sse_head()), *(Send(chunk(piece)) for piece in begun), Stall()]
    async with ScriptedServer(failing, held) as server, gate(keyed(server.url, CHAT, record)) as entrance:
        async with entrance.post(client, headers=bearer(key), stream=True) as response:
            assert response.status == 200
            await response.read()
        first = (await spent(entrance, record))["daily_tokens"]
        assert first > 0
        async with entrance.post(client, headers=bearer(key), stream=True) as response:
            assert response.status == 200
            await response.content.readany()
        await until(lambda: server.hangups > 0)
        await until(lambda: not entrance.gateway.services.open_requests)
        assert (await spent(entrance, record))["daily_tokens"] > first


async def test_open_requests_are_limited() -> None:
    key, record = made(concurrent_requests=2)
    go = asyncio.Event()
    held = [Send(sse_head()), Wait(go), *stream(text_stream(CHAT))[1:]]
    async with ScriptedServer(held) as server, gate(keyed(server.url, CHAT, record)) as entrance:
        streams = [asyncio.create_task(entrance.stream(MESSAGES, headers=bearer(key))) for _ in range(2)]
        await until(lambda: len(server.requests) == 2)
        status, error, headers = await entrance.refusal(MESSAGES, headers=bearer(key))
        assert (status, headers["retry-after"]) == (429, "1")
        assert "2 requests open" in error.message
        go.set()
        await asyncio.gather(*streams)
        assert await entrance.stream(MESSAGES, headers=bearer(key))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_request_right_after_another_one_is_not_rejected_for_it(kind: str, tmp_path: Any) -> None:
    key, record = made(concurrent_requests=1)
    options = StoreOptions(kind, path=str(tmp_path / "limits.db"), timeout=5)
    async with (
        ScriptedServer(ok(), stream(text_stream(CHAT)), ok()) as server,
        gate(keyed(server.url, CHAT, record, store=options)) as entrance,
    ):
        for number in range(30):
            async with entrance.post(CHAT, headers=bearer(key), stream=number == 1) as response:
                assert response.status == 200
                await response.read()


async def test_a_client_that_disconnects_before_the_reply_releases_its_request() -> None:
    key, record = made(concurrent_requests=1)
    async with ScriptedServer([Stall()], ok()) as server, gate(keyed(server.url, CHAT, record)) as entrance:
        request = asyncio.create_task(entrance.post(CHAT, headers=bearer(key)).__aenter__())
        await until(lambda: len(server.requests) == 1)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await until(lambda: not entrance.gateway.services.open_requests)
        async with entrance.post(CHAT, headers=bearer(key)) as response:
            assert response.status == 200


class FlatPrices:
    """A token of input costs 1, one of output 2; the model `free` has no price."""

    def cost(
        self, usage: Usage, model: str, provider: str | None = None, service: ServiceReport | None = None
    ) -> Decimal | None:
        if model == "unknown":
            return None
        return Decimal(usage.input_total or 0) + 2 * Decimal(usage.output_total or 0)


async def test_a_budget_of_cost_follows_the_price_table() -> None:
    key, record = made(daily_cost=45.0)
    async with (
        ScriptedServer(ok()) as server,
        gate(keyed(server.url, CHAT, record), hooks=Hooks(prices=FlatPrices())) as entrance,
    ):
        async with entrance.post(MESSAGES, max_tokens=10, headers=bearer(key)) as response:
            assert response.status == 200
        assert await spent(entrance, record) == {"daily_cost": (5 + 2 * 9) * UNITS}
        status, error, _ = await entrance.refusal(MESSAGES, max_tokens=10, headers=bearer(key))
        assert status == 429
        assert "used 23.00 of 45.00 for this day" in error.message
        status, error, _ = await entrance.refusal(MESSAGES, headers=bearer(key), model="unknown")
        assert status == 403
        assert "no price" in error.message
    assert len(server.requests) == 1


@pytest.mark.parametrize("priced", [False, True])
@pytest.mark.parametrize("forwarded", [False, True], ids=["translated", "forwarded"])
async def test_a_model_without_a_price_is_no_fallback_for_a_budget_of_cost(forwarded: bool, priced: bool) -> None:
    key, record = made(daily_cost=1000.0)
    async with ScriptedServer(answer(503, b"{}")) as first, ScriptedServer(ok()) as second:
        config = keyed(first.url, CHAT, record)
        providers = {**config.providers, "next": replace(config.providers["up"], name="next", base_url=second.url)}
        targets = RouteTarget("up", "m"), RouteTarget("next", "m" if priced else "unknown")
        config = replace(config, providers=providers, routes=[Route("*", targets=targets)])
        async with gate(config, hooks=Hooks(prices=FlatPrices())) as entrance:
            path, body = ("/v1/embeddings", {"input": "Hi"}) if forwarded else (PATHS[CHAT], request(CHAT))
            url, body = entrance.url + path, {**body, "model": "m"}
            async with entrance.session.post(url, json=body, headers=bearer(key)) as response:
                assert response.status == (200 if priced else 503)
    assert len(second.requests) == priced


async def test_without_a_price_table_a_budget_of_cost_rejects() -> None:
    key, record = made(daily_cost=40.0)
    async with ScriptedServer(ok()) as server, gate(keyed(server.url, CHAT, record)) as entrance:
        assert (await entrance.refusal(CHAT, headers=bearer(key)))[0] == 403


async def test_what_was_spent_survives_a_restart_in_sqlite(tmp_path: Any) -> None:
    key, record = made(daily_tokens=10**6)
    options = StoreOptions("sqlite", path=str(tmp_path / "limits.db"), timeout=5)
    async with ScriptedServer(ok()) as server:
        for number in range(1, 4):
            async with gate(keyed(server.url, CHAT, record, store=options)) as entrance:
                async with entrance.post(CHAT, headers=bearer(key)) as response:
                    assert response.status == 200
                assert await spent(entrance, record) == {"daily_tokens": number * USED}


async def test_rejections_are_counted_by_limit() -> None:
    key, record = made(requests_per_minute=1, admin=True)
    async with ScriptedServer(ok()) as server, gate(keyed(server.url, CHAT, record)) as entrance:
        async with entrance.post(CHAT, headers=bearer(key)) as response:
            assert response.status == 200
        for _ in range(2):
            await entrance.refusal(CHAT, headers=bearer(key))
        async with entrance.session.get(f"{entrance.url}/metrics", headers=bearer(key)) as response:
            page = await response.text()
        assert 'dragoman_limit_rejections_total{limit="requests"} 2' in page
        assert "dragoman_store_up 1" in page
