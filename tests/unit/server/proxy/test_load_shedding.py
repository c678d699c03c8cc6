"""New requests of a process that has more load than it may have."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.config.overload import Overload
from dragoman_server.config.schema import Config
from dragoman_server.observability.load_monitor import TICK
from dragoman_server.observability.metric_families import LAG_MAX, SHED
from support.gateways import CHAT, MESSAGES, config_for, gate, until
from support.samples import dump, reply, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, Wait, answer, chunk, sse_head


def bounded(config: Config, **bounds: Any) -> Config:
    return replace(config, server=replace(config.server, overload=Overload(**bounds)))


@pytest.mark.parametrize("client", CLIENT_DIALECTS, ids=str)
async def test_beyond_the_open_requests_a_client_gets_an_error_and_a_time(client: Dialect) -> None:
    resume = asyncio.Event()
    frames = [Send(chunk(frame)) for frame in text_stream(CHAT)]
    script: list[Step] = [Send(sse_head()), *frames[:3], Wait(resume), *frames[3:], Send(LAST_CHUNK)]
    async with ScriptedServer(script) as server:
        config = bounded(config_for(server.url, CHAT), open_requests=1)
        async with gate(config) as entrance:
            first = await entrance.post(CHAT, stream=True)
            assert first.status == 200
            status, error, headers = await entrance.refusal(client)
            assert status == (529 if client is MESSAGES else 503)
            assert error.message == "the gateway has more requests than it can answer; please retry"
            assert headers["retry-after"] == "5"
            assert entrance.gateway.metrics.totals.read(SHED, "open_requests") == [1]
            resume.set()
            assert (await first.read()).endswith(b"data: [DONE]\n\n")
            entrance.gateway.reconfigure(bounded(config, open_requests=0))
            assert not entrance.gateway.services.instruments.load.checked
    assert len(server.requests) == 1


async def test_requests_are_admitted_again_when_the_lag_is_over() -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(bounded(config_for(server.url, CHAT), event_loop_lag=0.5)) as entrance,
    ):
        load = entrance.gateway.services.instruments.load
        load.stop()
        for late in (1.0, 1.0, 0.0):
            load._due = load._clock() - late if late else load._clock() + 60
            load.measure()
            if load.checked:
                status, _, headers = await entrance.refusal(CHAT)
                assert (status, headers["retry-after"]) == (503, "5")
        async with entrance.post(CHAT) as response:
            assert response.status == 200
        assert entrance.gateway.metrics.totals.read(SHED, "event_loop_lag") == [1]


async def test_a_loop_that_is_blocked_again_and_again_is_an_overload() -> None:
    """With real time: the lag is measured, requests are rejected, and later they are admitted again."""
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(bounded(config_for(server.url, CHAT), event_loop_lag=0.25)) as entrance,
    ):
        load, loop = entrance.gateway.services.instruments.load, asyncio.get_running_loop()
        async with asyncio.timeout(60):
            while not load.checked:
                loop.call_soon(time.sleep, TICK + 0.3)
                await asyncio.sleep(0)
        load.stop()  # a slow machine must not change the state in the middle of a request
        assert (await entrance.refusal(CHAT))[0] == 503
        load.start()
        await until(lambda: not load.checked, 60)
        load.stop()
        async with entrance.post(CHAT) as response:
            assert response.status == 200
        totals = entrance.gateway.metrics.snapshot()
    assert totals.read(LAG_MAX)[0] > 0.25
    assert totals.read(SHED, "event_loop_lag") == [1]


async def test_other_endpoints_are_not_rejected() -> None:
    async with ScriptedServer([]) as server, gate(bounded(config_for(server.url, CHAT), memory=1)) as entrance:
        entrance.gateway.services.instruments.load.measure()
        assert (await entrance.refusal(CHAT))[0] == 503
        for path in ("/health", "/metrics", "/ready?strict"):
            async with entrance.session.get(entrance.url + path) as response:
                assert response.status == (503 if "ready" in path else 200)
