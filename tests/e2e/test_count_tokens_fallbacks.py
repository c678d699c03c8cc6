"""An upstream that cannot count, or not now: the estimate replaces it, marked as one, and it is not asked each time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession, web

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman.wire.json_codec import dumps
from dragoman_server.config.provider import Auth
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.count_tokens import ESTIMATE, REMEMBERED, THREAD_FROM, TokenCounts
from dragoman_server.endpoints.ttl_cache import TTLCache
from dragoman_server.observability.metric_families import COUNTS
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.routing.router import RoutedTarget, Router
from support.gateways import CHAT, MESSAGES, config_for, gate, served, until
from support.samples import dump, read_error
from support.sockets import Abort, ScriptedServer, Stall, Step, Wait, answer

RESPONSES = Dialect.RESPONSES
COUNTING_UPSTREAMS = [MESSAGES, RESPONSES]
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "How many tokens?"}], "tools": []}
COUNTED = answer(200, b'{"input_tokens": 4711}')
MISSING = answer(404, b'{"detail": "Not Found"}')


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Client:
    """Asks for counts as a client of Messages."""

    def __init__(self, url: str, session: ClientSession, gateway: Gateway, clock: Clock) -> None:
        self.url = url
        self._session = session
        self.gateway = gateway
        self.clock = clock

    async def count(self, body: Any = BODY, **headers: str) -> tuple[int, str | None]:
        """The tokens, and what made the estimate."""
        status, noted, how = await self.ask(body, **headers)
        assert status == 200, noted
        return noted["input_tokens"], how

    async def ask(self, body: Any = BODY, **headers: str) -> tuple[int, Any, str | None]:
        async with (
            asyncio.timeout(30),
            self._session.post(f"{self.url}/v1/messages/count_tokens", data=dump(body), headers=headers) as response,
        ):
            return response.status, await response.json(), response.headers.get(ESTIMATE)


@asynccontextmanager
async def counting(config: Config) -> AsyncIterator[Client]:
    """The endpoint alone, on a clock of the test's."""
    clock, gateway = Clock(), Gateway(config)
    app = web.Application()
    app.router.add_post("/v1/messages/count_tokens", TokenCounts(gateway, clock=clock).post)
    gateway.open()
    try:
        async with served(app) as (url, _), ClientSession() as session:
            yield Client(url, session, gateway, clock)
    finally:
        await gateway.close()


@pytest.mark.parametrize("upstream", COUNTING_UPSTREAMS)
@pytest.mark.parametrize("status", [404, 405, 501])
async def test_T61_an_upstream_without_the_endpoint_is_asked_again_after_a_time_only(
    upstream: Dialect, status: int
) -> None:
    script = answer(status, b"{}")
    async with ScriptedServer(script, COUNTED) as server, counting(config_for(server.url, upstream)) as client:
        for _ in range(3):
            tokens, how = await client.count()
            assert 0 < tokens < 100
            assert how
        assert len(server.requests) == 1
        await client.count({**BODY, "model": "another"})  # which the upstream may well know
        assert len(server.requests) == 2
        client.clock.now = REMEMBERED
        assert await client.count() == (4711, None)


@pytest.mark.parametrize("upstream", COUNTING_UPSTREAMS)
@pytest.mark.parametrize(
    "script",
    [
        answer(429, b"{}"),
        answer(500, b"{}"),
        answer(529, b"{}"),
        [Abort()],
        answer(503, b"busy", content_type="text/plain"),
    ],
    ids=["429", "500", "529", "reset", "503"],
)
async def test_an_upstream_that_cannot_count_now_is_asked_again_at_once(upstream: Dialect, script: list[Step]) -> None:
    async with ScriptedServer(script, COUNTED) as server, counting(config_for(server.url, upstream)) as client:
        tokens, how = await client.count()
        assert 0 < tokens < 100
        assert how
        assert await client.count() == (4711, None)


async def test_an_upstream_that_is_silent_is_not_waited_for_long() -> None:
    config = config_for("", MESSAGES, timeouts=Timeouts(first_byte=0.05))
    async with ScriptedServer([Stall()]) as server:
        (provider,) = config.providers.values()
        config = replace(config, providers={"up": replace(provider, base_url=server.url)})
        async with counting(config) as client:
            assert (await client.count())[1]


@pytest.mark.parametrize("upstream", COUNTING_UPSTREAMS)
@pytest.mark.parametrize("stated", [b'{"input_tokens": 0}', b'{"input_tokens": "many"}', b"{}", b"[]", b"nothing"])
async def test_T60_an_answer_without_a_count_is_none(upstream: Dialect, stated: bytes) -> None:
    """Claude Code believes a 0, and then never compacts."""
    async with ScriptedServer(answer(200, stated)) as server, counting(config_for(server.url, upstream)) as client:
        tokens, how = await client.count()
        assert tokens > 0
        assert how


@pytest.mark.parametrize("status", [400, 413])
@pytest.mark.parametrize("upstream", COUNTING_UPSTREAMS)
async def test_a_refusal_is_reported(status: int, upstream: Dialect) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no such thing"}}
    script = answer(status, dump(error), headers=[("retry-after", "7")])
    async with ScriptedServer(script) as server, counting(config_for(server.url, upstream)) as client:
        answered, noted, how = await client.ask()
        assert answered == status
        assert "no such thing" in read_error(MESSAGES, dump(noted)).message
        assert how is None


# --- many at once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", COUNTING_UPSTREAMS)
async def test_T60_the_same_question_is_asked_upstream_once(upstream: Dialect) -> None:
    async with ScriptedServer(COUNTED) as server, counting(config_for(server.url, upstream)) as client:
        for _ in range(50):
            assert await client.count() == (4711, None)
        assert len(server.requests) == 1
        longer = {**BODY, "messages": [{"role": "user", "content": "Another one."}]}
        await client.count(longer)
        assert len(server.requests) == 2
        client.clock.now = REMEMBERED
        await client.count()
        assert len(server.requests) == 3
        counts = client.gateway.metrics.totals
        assert counts.read(COUNTS, "messages", "up", "exact") == [3]
        assert counts.read(COUNTS, "messages", "up", "remembered") == [49]


class Arrivals:
    """Counts the requests that are understood, and so are about to wait for an upstream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        resolve = Router.resolve

        def counted(router: Router, model: str, client: Dialect) -> RoutedTarget:
            self.number += 1
            return resolve(router, model, client)

        monkeypatch.setattr(Router, "resolve", counted)


@pytest.mark.parametrize("upstream", COUNTING_UPSTREAMS)
@pytest.mark.parametrize("noted", [COUNTED, MISSING, answer(500, b"{}"), answer(200, b"{}")])
async def test_fifty_at_once_ask_the_same_question_once(
    monkeypatch: pytest.MonkeyPatch, upstream: Dialect, noted: list[Step]
) -> None:
    """A meter that asks for fifty counts in a second (T-60)."""
    arrivals, go = Arrivals(monkeypatch), asyncio.Event()
    async with (
        ScriptedServer([Wait(go), *noted]) as server,
        counting(config_for(server.url, upstream)) as client,
        asyncio.TaskGroup() as group,
    ):
        asking = [group.create_task(client.count()) for _ in range(50)]
        await until(lambda: arrivals.number == 50 and server.requests)
        go.set()
        counts = {await task for task in asking}
        assert len(server.requests) == len(counts) == 1
        assert (counts == {(4711, None)}) is (noted is COUNTED)


async def test_a_client_that_waits_asks_again_where_the_first_to_ask_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals = Arrivals(monkeypatch)
    async with (
        ScriptedServer([Stall()], COUNTED) as server,
        counting(config_for(server.url, MESSAGES)) as client,
        ClientSession() as other,
    ):
        first = asyncio.create_task(Client(client.url, other, client.gateway, client.clock).count())
        await until(lambda: server.requests)
        asking = [asyncio.create_task(client.count()) for _ in range(5)]
        await until(lambda: arrivals.number == 6)
        first.cancel()
        await asyncio.wait((first,))
        await other.close()
        assert set(await asyncio.gather(*asking)) == {(4711, None)}
        assert len(server.requests) == 2


async def test_an_answer_is_remembered_for_clients_of_its_dialect_only() -> None:
    """The two may ask the same: the bytes of one are what the other's request becomes."""
    async with ScriptedServer(COUNTED) as server, gate(config_for(server.url, MESSAGES)) as entrance:
        for path, body in (
            ("/v1/messages/count_tokens", {"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
            ("/v1/responses/input_tokens", {"model": "m", "input": "hi"}),
        ):
            async with entrance.session.post(entrance.url + path, data=dumps(body)) as response:
                noted = await response.json()
            assert noted.get("object") == (None if "messages" in path else "response.input_tokens")
        assert len({request.body for request in server.requests}) == 1


async def test_the_count_of_one_clients_key_is_not_shown_to_another() -> None:
    config = config_for("", MESSAGES)
    async with ScriptedServer(COUNTED, answer(401, b"{}")) as server:
        (provider,) = config.providers.values()
        passing = replace(provider, base_url=server.url, auth=Auth.PASSTHROUGH)
        async with counting(replace(config, providers={"up": passing})) as client:
            assert await client.count(**{"x-api-key": "mine"}) == (4711, None)
            assert (await client.ask(**{"x-api-key": "another"}))[0] == 401


async def test_long_and_short_requests_at_once_are_counted_each_as_alone() -> None:
    """The long ones in threads, with the same memory of what was counted."""
    bodies = []
    for number in range(8):
        texts = [f"part {part} of {number % 2} " * (3000 if number % 2 else 3) for part in range(9)]
        messages = [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}]
        bodies.append({**BODY, "messages": messages})
    assert len(dump(bodies[1])) > THREAD_FROM > len(dump(bodies[0]))
    async with counting(config_for("http://127.0.0.1:9", CHAT)) as client:
        alone = [await client.count(body) for body in bodies[:2]]
    async with counting(config_for("http://127.0.0.1:9", CHAT)) as client:
        assert await asyncio.gather(*(client.count(body) for body in bodies)) == alone * 4


async def test_a_burst_of_fifty_at_once_is_answered() -> None:
    async with counting(config_for("http://127.0.0.1:9", CHAT)) as client:
        counts = await asyncio.gather(*(client.count() for _ in range(50)))
        assert len(set(counts)) == 1
        assert client.gateway.metrics.totals.read(COUNTS, "messages", "up", "estimate") == [50]


# --- choices ----------------------------------------------------------------------------------------------------------


async def test_the_knob_estimate_asks_no_upstream() -> None:
    async with ScriptedServer(COUNTED) as server:
        async with counting(config_for(server.url, MESSAGES, knobs={"count_tokens": "estimate"})) as client:
            assert (await client.count())[1]
        assert not server.requests


@pytest.mark.parametrize(("upstream", "word"), [(CHAT, "cannot count tokens"), (MESSAGES, "Not Found")])
async def test_the_knob_exact_estimates_nothing(upstream: Dialect, word: str) -> None:
    knobs = {"count_tokens": "exact"}
    script = answer(404, b'{"error": {"message": "Not Found"}}')
    async with ScriptedServer(script) as server, counting(config_for(server.url, upstream, knobs=knobs)) as client:
        status, noted, _ = await client.ask()
        assert status == 404
        assert word in read_error(MESSAGES, dump(noted)).message


async def test_a_profile_without_counting_is_not_asked() -> None:
    async with ScriptedServer(COUNTED) as server:
        config = config_for(server.url, MESSAGES)
        (provider,) = config.providers.values()
        profile = provider.profile.replace({"counting": False})
        async with counting(replace(config, providers={"up": replace(provider, profile=profile)})) as client:
            assert (await client.count())[1]
        assert not server.requests


# --- the same dialect -------------------------------------------------------------------------------------------------


async def test_the_clients_own_bytes_go_on_with_its_betas_and_the_answer_comes_back_as_it_was() -> None:
    body = {**BODY, "novelty": {"x": 1}}
    stated = b'{"input_tokens": 4711, "context_management": {"original_input_tokens": 9000}}'
    async with ScriptedServer(answer(200, stated)) as server, counting(config_for(server.url, MESSAGES)) as client:
        status, noted, _ = await client.ask(body, **{"anthropic-beta": "token-counting-2024-11-01"})
        assert (status, noted["context_management"]) == (200, {"original_input_tokens": 9000})
        (request,) = server.requests
        assert request.body == dump(body)
        assert request.headers["anthropic-beta"] == "token-counting-2024-11-01"


async def test_what_only_the_upstream_understands_is_estimated_by_its_size() -> None:
    body = {**BODY, "messages": [{"role": "narrator", "content": "Once upon a time " * 100}]}
    async with ScriptedServer(MISSING) as server, counting(config_for(server.url, MESSAGES)) as client:
        tokens, how = await client.count(body)
        assert how == "size"
        assert 300 < tokens < 600


async def test_what_is_nested_too_deeply_to_be_read_is_estimated_by_its_size() -> None:
    deep: Any = "end"
    for _ in range(900):
        deep = {"content": [deep]} if isinstance(deep, str) else {"x": deep}
    body = {**BODY, "messages": [{"role": "user", "content": [{"type": "novelty", "x": deep}]}]}
    async with ScriptedServer(MISSING) as server, counting(config_for(server.url, MESSAGES)) as client:
        assert (await client.count(body))[0] > 0


# --- what is remembered -----------------------------------------------------------------------------------------------


def test_what_lasts_is_gone_after_its_time_and_beyond_its_number() -> None:
    clock = Clock()
    kept: TTLCache[str, int] = TTLCache(2, 10.0, clock)
    kept.put("a", 1)
    clock.now = 5.0
    kept.put("b", 2)
    assert (kept.get("a"), "b" in kept) == (1, True)
    clock.now = 10.0
    assert (kept.get("a"), kept.get("b")) == (None, 2)
    kept.put("c", 3)
    kept.put("b", 4)
    kept.put("d", 5)
    assert (kept.get("c"), kept.get("b"), kept.get("d")) == (None, 4, 5)
    assert len(kept) == 2
