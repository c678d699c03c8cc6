"""Group G: what clients ask next to the conversation: counts of tokens, and whether there is someone."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anthropic
import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from regressions.live import MESSAGES, ask
from support.gateways import Gate, config_for, gate
from support.samples import dump, read_error, reply
from support.sockets import ScriptedServer, answer

every_upstream = pytest.mark.parametrize("upstream", list(Dialect))
COUNT = "/v1/messages/count_tokens?beta=true"
MISSING = answer(404, b'{"error":{"message":"Not Found"}}')


async def _count(entrance: Gate, words: str, **fields: Any) -> tuple[int, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": words}], "tools": [], **fields}
    headers = {"anthropic-version": "2023-06-01", "content-type": "application/json"}
    async with entrance.session.post(entrance.url + COUNT, data=dump(body), headers=headers) as response:
        return response.status, await response.json()


@every_upstream
async def test_T60_there_is_a_count_before_every_upstream(upstream: Dialect) -> None:
    """`count_tokens` is a 404 (BerriAI/litellm#13252): asked by the vendor's own client, of upstreams without it."""
    async with (
        ScriptedServer(MISSING) as server,
        gate(config_for(server.url, upstream)) as entrance,
        anthropic.AsyncAnthropic(base_url=entrance.url, api_key="x", max_retries=0) as client,
    ):
        few = await client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "Hi"}])
        more = await client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "Hi there " * 500}])
    assert 0 < few.input_tokens < 50
    assert more.input_tokens > few.input_tokens + 500


@every_upstream
@pytest.mark.parametrize("stated", [b'{"input_tokens":0}', b"{}", b"[]", b""])
async def test_T60_a_count_is_never_nothing(upstream: Dialect, stated: bytes) -> None:
    """Answering 200 with 0 is worse than a 404: Claude Code trusts it and never compacts (Wei-Shaw/sub2api#657),
    anyone who states it."""
    async with ScriptedServer(answer(200, stated)) as server, gate(config_for(server.url, upstream)) as entrance:
        for words in ("foo", "x" * 4000):
            status, noted = await _count(entrance, words)
            assert status == 200
            assert noted["input_tokens"] > len(words) // 100


@every_upstream
async def test_T60_a_burst_of_counts_is_answered(upstream: Dialect) -> None:
    """The editor fires 40 to 50 counts in a second when it starts (Wei-Shaw/claude-relay-service#731): each has its
    answer, and an upstream that cannot count does not receives of most of them."""
    async with (
        ScriptedServer(MISSING) as server,
        gate(config_for(server.url, upstream)) as entrance,
        asyncio.timeout(30),
    ):
        await _count(entrance, "the first")
        burst = await asyncio.gather(*(_count(entrance, f"tool {number}") for number in range(50)))
        assert {status for status, _ in burst} == {200}
        assert all(noted["input_tokens"] > 0 for _, noted in burst)
        assert len(server.requests) <= 1


@every_upstream
async def test_T61_a_missing_count_states_nothing_of_the_model(upstream: Dialect) -> None:
    """A 404 on `count_tokens` put the model out of service for 12 h (router-for-me/CLIProxyAPI#4410): it goes on
    answering."""
    asked = 0 if upstream is Dialect.CHAT else 1
    scripts = [MISSING] * asked + [answer(200, dump(reply(upstream)))]
    async with ScriptedServer(*scripts) as server, gate(config_for(server.url, upstream)) as entrance:
        status, _ = await _count(entrance, "Hi")
        assert status == 200
        assert len(server.requests) == asked
        for client in CLIENT_DIALECTS:
            async with entrance.post(client) as response:
                assert response.status == 200, await response.text()


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 200)])
async def test_T62_the_endpoint_is_up(method: str, status: int) -> None:
    """`HEAD /` is answered 405, and the client states that the endpoint is down (headroomlabs-ai/headroom#2032)."""
    async with (
        gate(config_for("http://127.0.0.1:9", MESSAGES)) as entrance,
        entrance.session.request(method, entrance.url + "/") as response,
    ):
        assert response.status == status


async def test_T62_probes_of_a_client_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """`HEAD /api/hello` floods the log (router-for-me/CLIProxyAPI#5905): it gets a plain 404, without a line."""
    caplog.set_level(logging.INFO)
    async with gate(config_for("http://127.0.0.1:9", MESSAGES)) as entrance:
        before = len(caplog.records)
        for _ in range(20):
            async with entrance.session.head(f"{entrance.url}/api/hello") as response:
                assert response.status == 404
                assert await response.read() == b""
        assert len(caplog.records) == before
        async with entrance.session.get(f"{entrance.url}/api/hello") as response:
            assert "/api/hello" in read_error(Dialect.CHAT, await response.read()).message
        async with ask(entrance, MESSAGES, model="") as response:
            assert response.status >= 400
        assert len(caplog.records) > before, "what is a client's mistake is told"
