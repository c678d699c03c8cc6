"""`GET /metrics` of a gateway that is one process: who may read it, and what it states after real requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiohttp import web

from dragoman.dialects import Dialect
from dragoman_server.app import setup
from dragoman_server.config.provider import Secret
from dragoman_server.config.route import Route
from dragoman_server.observability.metric_families import OPEN_REQUESTS
from support.exposed import Sample, read_exposition, total
from support.gateways import ALL, CHAT, MESSAGES, Gate, config_for, gate, served, until
from support.samples import dump, read_error, reply, text_stream
from support.sockets import ScriptedServer, Send, Stall, Step, answer, chunk, sse_head, stream

DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)


async def scraped(entrance: Gate, **headers: str) -> dict[Sample, float]:
    async with entrance.session.get(f"{entrance.url}/metrics", headers=headers) as response:
        assert response.status == 200
        assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return read_exposition(await response.read())


@DIRECTIONS
async def test_what_became_of_requests(client: Dialect, upstream: Dialect) -> None:
    lossy = {"seed": 7} if client is CHAT else {"top_k": 3}
    refusal = answer(429, dump({"error": {"type": "rate_limit_error", "message": "slow down"}}))
    scripts = (
        stream(text_stream(upstream)),
        answer(200, dump(reply(upstream))),
        refusal,
        stream(text_stream(upstream)[:4]),
    )
    async with ScriptedServer(*scripts) as server:
        config = config_for(server.url, upstream)
        config = replace(config, routes=[Route("m*", "up"), Route("n", "up")])
        async with gate(config) as entrance:
            await entrance.stream(client, **lossy)
            for streamed, model in ((False, "m"), (False, "n"), (True, "m")):
                async with entrance.post(client, stream=streamed, model=model) as response:
                    await response.read()
            assert (await entrance.refusal(client, b"{"))[0] == 400
            samples = await scraped(entrance)
    of_client = {"client": client, "provider": "up"}
    for ended, status, route, count in (
        ("completed", "2xx", "m*", 2),
        ("refused", "4xx", "n", 1),
        ("failed", "2xx", "m*", 1),
    ):
        found = total(samples, "dragoman_requests_total", **of_client, ended=ended, status=status, route=route)
        assert found == count, ended
    assert total(samples, "dragoman_requests_total", client=client, provider="", ended="rejected", status="4xx") == 1
    assert total(samples, "dragoman_requests_total") == 5
    assert total(samples, "dragoman_open_requests") == total(samples, "dragoman_open_streams") == 0
    assert total(samples, "dragoman_request_duration_seconds_count", **of_client, stream="true") == 2
    assert total(samples, "dragoman_request_duration_seconds_count", **of_client, stream="false") == 2
    assert total(samples, "dragoman_first_event_seconds_count", **of_client) == 2
    assert total(samples, "dragoman_upstream_errors_total", provider="up", kind="rate_limit") == 1
    assert total(samples, "dragoman_upstream_errors_total", provider="up", kind="stream_truncated") == 1
    assert total(samples, "dragoman_tokens_total", provider="up", kind="output") > 0
    lost = total(samples, "dragoman_losses_total", route="m*")
    assert lost == (0 if client is upstream else 1)
    assert total(samples, "dragoman_gateway_errors_total") == 0
    assert total(samples, "dragoman_worker_up", worker="1") == 1
    assert total(samples, "dragoman_workers_leaving") == 0


@DIRECTIONS
async def test_an_open_stream_is_seen_and_one_that_was_left_is_counted(client: Dialect, upstream: Dialect) -> None:
    begun: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(upstream)[:4]), Stall()]
    async with ScriptedServer(begun) as server, gate(config_for(server.url, upstream)) as entrance:
        response = await entrance.post(client, stream=True)
        await response.content.readany()
        samples = await scraped(entrance)
        assert total(samples, "dragoman_open_streams", client=client) == 1
        assert total(samples, "dragoman_open_requests", client=client) == 1
        response.close()
        await until(lambda: entrance.gateway.metrics.totals.read(OPEN_REQUESTS, client) == [0])
        samples = await scraped(entrance)
        assert total(samples, "dragoman_open_streams") == total(samples, "dragoman_open_requests") == 0
        assert total(samples, "dragoman_requests_total", ended="abandoned") == 1
        assert total(samples, "dragoman_upstream_errors_total") == 0


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_strangers_learn_nothing(client: Dialect) -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = config_for(server.url, CHAT, keys=(Secret("k"),))
        config = replace(config, routes=[Route("secret-model", "up")])
        async with gate(config) as entrance:
            async with entrance.post(client, model="secret-model", headers={"x-api-key": "k"}) as response:
                assert response.status == 200
            asked = {"anthropic-version": "2023-06-01"} if client is MESSAGES else {}
            for headers in (asked, {**asked, "authorization": "Bearer wrong"}):
                async with entrance.session.get(f"{entrance.url}/metrics", headers=headers) as response:
                    body = await response.read()
                    assert response.status == 401
                    assert b"secret" not in body
                    assert "API key" in read_error(client, body).message
            samples = await scraped(entrance, authorization="Bearer k")
            assert total(samples, "dragoman_requests_total", route="secret-model") == 1


async def test_a_mounted_gateway_has_its_own() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        app = web.Application()
        setup(app, config_for(server.url, CHAT), prefix="/llm")
        async with served(app) as (url, _), gate(config_for(server.url, CHAT)) as entrance:
            async with entrance.session.post(f"{url}/llm/v1/chat/completions", data=b"{") as response:
                assert response.status == 400
            async with entrance.session.get(f"{url}/llm/metrics") as response:
                assert total(read_exposition(await response.read()), "dragoman_requests_total") == 1
            assert total(await scraped(entrance), "dragoman_requests_total") == 0
