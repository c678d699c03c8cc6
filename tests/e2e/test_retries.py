"""Retries, breakers, keys, places and conversations over real sockets."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from itertools import pairwise
from random import Random
from time import monotonic
from typing import Any

import pytest
from aiohttp import ClientError

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.draft import Draft
from dragoman_server.observability.metric_families import BREAKERS_OPEN, OPEN_REQUESTS, QUEUED_REQUESTS, RETRIES_DENIED
from dragoman_server.proxy.attempts import Attempts
from support.gateways import CHAT, MESSAGES, Gate, gate, until
from support.samples import dump, reply, request, text_stream
from support.sockets import (
    LAST_CHUNK,
    Abort,
    Close,
    Pause,
    ScriptedServer,
    Send,
    Step,
    Wait,
    answer,
    chunk,
    sse_head,
    stream,
)

QUICK = RetryOptions(backoff=0.01, backoff_max=0.02, failures=0)
"""Short pauses, and no breaker."""


def config_of(*providers: Provider, retries: RetryOptions = QUICK, **route: Any) -> Config:
    """A route to these providers, in this order."""
    targets = tuple(RouteTarget(provider.name) for provider in providers)
    return Config(
        providers={provider.name: provider for provider in providers},
        routes=[Route("*", targets=targets, **route)],
        retries=retries,
    )


def error(status: int, *headers: tuple[str, str]) -> list[Step]:
    body = {"type": "error", "error": {"type": "api_error", "message": "no"}}
    return answer(status, dump(body), headers=headers)


GOOD = answer(200, dump(reply(MESSAGES)))


async def status_of(entrance: Gate, client: Dialect = MESSAGES, **fields: Any) -> int:
    async with asyncio.timeout(30), entrance.post(client, **fields) as response:
        await response.read()
        return int(response.status)


class Arrivals(ScriptedServer):
    """A scripted server that knows when its requests arrived."""

    def __init__(self, *scripts: Sequence[Step]) -> None:
        super().__init__(*scripts)
        self.times: list[float] = []

    async def watch(self) -> None:
        while True:
            await self.arrived.wait()
            self.arrived.clear()
            self.times += [monotonic()] * (len(self.requests) - len(self.times))


# --- the budget ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("failure", [error(503), [Close()]], ids=["503", "closed"])
async def test_an_outage_is_not_multiplied(targets: int, failure: list[Step]) -> None:
    """With a breaker that never opens: then only the budget limits what the upstreams get."""
    clients, each = 8, 25
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ScriptedServer(failure)) for _ in range(targets)]
        providers = [Provider(f"up{n}", MESSAGES, server.url) for n, server in enumerate(servers)]
        config = config_of(*providers, attempts=4)
        async with gate(config) as entrance:

            async def ask() -> None:
                for _ in range(each):
                    assert await status_of(entrance) in (502, 503)

            await asyncio.gather(*(ask() for _ in range(clients)))
            denied = entrance.gateway.metrics.totals.read(RETRIES_DENIED, "budget")
    sent = sum(len(server.requests) for server in servers)
    assert clients * each < sent <= 1.2 * clients * each
    assert denied[0] > 0


async def test_a_provider_that_works_takes_over_all_requests_of_one_that_does_not() -> None:
    """The budget does not stop fallbacks to a provider that answers."""
    async with ScriptedServer(error(503)) as first, ScriptedServer(GOOD) as second:
        providers = Provider("up1", MESSAGES, first.url), Provider("up2", MESSAGES, second.url)
        async with gate(config_of(*providers)) as entrance:
            statuses = await asyncio.gather(*(status_of(entrance) for _ in range(40)))
        assert statuses == [200] * 40
        assert len(second.requests) == 40


# --- the breaker -----------------------------------------------------------------------------------------------------


async def test_the_breaker_opens_and_closes() -> None:
    retries = RetryOptions(backoff=0.01, failures=3, cooldown=0.3, cooldown_max=0.3)
    async with ScriptedServer(*[error(500)] * 3, GOOD) as first, ScriptedServer(GOOD) as second:
        providers = Provider("up1", MESSAGES, first.url), Provider("up2", MESSAGES, second.url)
        async with gate(config_of(*providers, retries=retries)) as entrance:
            totals = entrance.gateway.metrics.totals
            before = 0.0
            for _ in range(3):
                before = monotonic()
                assert await status_of(entrance) == 200
            assert len(first.requests) == 3
            assert totals.read(BREAKERS_OPEN, "up1") == [1]
            for _ in range(1000):
                assert await status_of(entrance) == 200
                if len(first.requests) > 3:
                    break
                await asyncio.sleep(0.01)
            assert monotonic() - before >= 0.3
            assert totals.read(BREAKERS_OPEN, "up1") == [0]
            others = len(second.requests)
            assert await status_of(entrance) == 200
            assert len(second.requests) == others


async def test_a_route_whose_providers_all_pause_fails_at_once() -> None:
    retries = RetryOptions(backoff=0.01, failures=2, cooldown=60)
    async with ScriptedServer(error(500)) as server:
        provider = Provider("up1", MESSAGES, server.url)
        async with gate(config_of(provider, retries=retries, attempts=2)) as entrance:
            assert await status_of(entrance) == 500
            status, noted, headers = await entrance.refusal(MESSAGES, stream=True)
        assert (status, noted.type) == (529, "overloaded_error")
        assert 1 <= int(headers["retry-after"]) <= 60
        assert len(server.requests) == 2


# --- pauses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [("retry-after-ms", "300"), ("Retry-After", "0.3")])
async def test_retry_after_is_waited_for(header: tuple[str, str]) -> None:
    async with Arrivals(error(429, header), GOOD) as server:
        watching = asyncio.create_task(server.watch())
        async with gate(config_of(Provider("up1", MESSAGES, server.url), attempts=2)) as entrance:
            assert await status_of(entrance) == 200
        watching.cancel()
    (first, second), *_ = pairwise(server.times)
    assert second - first >= 0.29


async def test_a_long_retry_after_is_not_waited_for() -> None:
    async with ScriptedServer(error(503, ("retry-after", "31")), GOOD) as server:
        async with gate(config_of(Provider("up1", MESSAGES, server.url), attempts=2)) as entrance:
            status, _, headers = await entrance.refusal(MESSAGES)
        assert (status, headers["retry-after"]) == (503, "31")
        assert len(server.requests) == 1


async def test_x_should_retry_forbids_a_retry_at_the_same_provider() -> None:
    no = error(500, ("x-should-retry", "false"))
    async with ScriptedServer(no, GOOD) as first, ScriptedServer(GOOD) as second:
        alone, both = Provider("up1", MESSAGES, first.url), Provider("up2", MESSAGES, second.url)
        async with gate(config_of(alone, attempts=3)) as entrance:
            assert await status_of(entrance) == 500
        assert len(first.requests) == 1
        first.requests.clear()
        async with gate(config_of(alone, both)) as entrance:
            assert await status_of(entrance) == 200
        assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_x_should_retry_asks_for_a_retry() -> None:
    async with (
        ScriptedServer(error(400, ("x-should-retry", "true")), GOOD) as server,
        gate(config_of(Provider("up1", MESSAGES, server.url), attempts=2)) as entrance,
    ):
        assert await status_of(entrance) == 200


@pytest.mark.parametrize("cancelling", [True, False], ids=["cancelled", "noticed"])
async def test_a_client_that_leaves_during_a_pause_ends_the_request(cancelling: bool) -> None:
    async with ScriptedServer(error(503, ("retry-after", "20"))) as server:
        config = config_of(Provider("up1", MESSAGES, server.url), attempts=2)
        async with gate(config, handler_cancellation=cancelling) as entrance:
            gateway = entrance.gateway
            request = asyncio.create_task(status_of(entrance, stream=True))
            await until(lambda: len(server.requests) == 1 and gateway.services.routing.clock())
            receipts = gateway.receipts._filed
            await until(lambda: receipts and next(iter(receipts.values())).attempts)
            request.cancel()
            await until(lambda: next(iter(receipts.values())).ended == "abandoned")
            await until(lambda: not gateway.services.open_requests)
            assert not next(iter(receipts.values())).reached_upstream
            assert gateway.services.routing.of(gateway.config.providers["up1"]).slots.taken == 0
        assert len(server.requests) == 1


async def test_a_gateway_that_stops_does_not_wait_for_pauses() -> None:
    async with ScriptedServer(error(503, ("retry-after", "25"))) as server:
        config = config_of(Provider("up1", MESSAGES, server.url), attempts=2)
        async with gate(config) as entrance:
            request = asyncio.create_task(status_of(entrance))
            receipts = entrance.gateway.receipts._filed
            await until(lambda: receipts and next(iter(receipts.values())).attempts)
            await entrance.gateway.stop(0)
            assert await request == 529
        assert len(server.requests) == 1


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 429])
async def test_a_key_that_is_refused_is_replaced(status: int) -> None:
    """The key rests afterwards: the next requests do not try it."""
    keys = Secret("key-of-the-first-account"), Secret("key-of-the-second-account")
    async with ScriptedServer(GOOD) as server:
        provider = Provider("up", MESSAGES, server.url, api_keys=keys)
        async with gate(config_of(provider, balance="least-busy", attempts=2)) as entrance:
            await status_of(entrance)
            used = server.requests[0].headers["x-api-key"]
            other = next(key.reveal() for key in keys if key.reveal() != used)
            server.scripts = (error(status),)
            first = await status_of(entrance)
            assert first == (502 if status == 401 else status)  # the last answer, about a key of the gateway's
            sent = [request.headers["x-api-key"] for request in server.requests[1:]]
            assert sorted(sent) == sorted((used, other))


async def test_requests_avoid_a_key_at_its_limit() -> None:
    keys = Secret("key-of-the-first-account"), Secret("key-of-the-second-account")
    async with ScriptedServer(error(429, ("retry-after", "60")), GOOD) as server:
        provider = Provider("up", MESSAGES, server.url, api_keys=keys)
        async with gate(config_of(provider)) as entrance:
            for _ in range(6):
                assert await status_of(entrance) == 200
        sent = [request.headers["x-api-key"] for request in server.requests]
        assert len(sent) == 7
        assert sent[0] != sent[1]
        assert set(sent[1:]) == {sent[1]}


async def test_keys_appear_nowhere() -> None:
    keys = Secret("sk-canary-of-the-first-account"), Secret("sk-canary-of-the-second-account")
    async with ScriptedServer(error(500), GOOD) as server:
        config = config_of(Provider("up", MESSAGES, server.url, api_keys=keys), attempts=3)
        async with gate(config) as entrance:
            async with entrance.post(MESSAGES) as response:
                assert response.status == 200
                request_id = response.headers["x-dragoman-request-id"]
            seen = [repr(config), repr(entrance.gateway.services.router.resolve("m", MESSAGES))]
            for path in (f"/v1/dragoman/receipts/{request_id}", "/metrics"):
                async with entrance.session.get(entrance.url + path) as page:
                    seen.append(await page.text())
    assert "attempts" in seen[2]
    assert not any("canary" in text for text in seen)


# --- places ----------------------------------------------------------------------------------------------------------


async def test_requests_beyond_the_limit_wait_and_those_beyond_the_queue_are_refused() -> None:
    release = asyncio.Event()
    frames = text_stream(MESSAGES)
    held: list[Step] = [
        Send(sse_head() + chunk(frames[0])),
        Wait(release),
        Send(chunk(b"".join(frames[1:])) + LAST_CHUNK),
    ]
    async with ScriptedServer(held) as server:
        provider = Provider("up", MESSAGES, server.url, concurrent=2, queue=1, queue_seconds=20)
        async with gate(config_of(provider, attempts=1)) as entrance:
            state = entrance.gateway.services.routing.of(provider)
            streams = [asyncio.create_task(entrance.stream(MESSAGES)) for _ in range(2)]
            await until(lambda: len(server.requests) == 2)
            streams.append(asyncio.create_task(entrance.stream(MESSAGES)))
            await until(lambda: state.slots.waiting == 1)
            totals = entrance.gateway.metrics.totals
            assert totals.read(QUEUED_REQUESTS, "up") == [1]
            status, noted, headers = await entrance.refusal(MESSAGES)
            assert (status, noted.type, headers["retry-after"]) == (529, "overloaded_error", "1")
            assert len(server.requests) == 2
            release.set()
            assert all(b"message_stop" in body for body in await asyncio.gather(*streams))
            await until(lambda: state.slots.taken == 0)
            assert totals.read(QUEUED_REQUESTS, "up") == [0]
        assert len(server.requests) == 3


async def test_a_client_that_leaves_the_queue_makes_room() -> None:
    release = asyncio.Event()
    async with ScriptedServer([Wait(release), *GOOD]) as server:
        provider = Provider("up", MESSAGES, server.url, concurrent=1, queue=1, queue_seconds=20)
        async with gate(config_of(provider, attempts=1)) as entrance:
            state = entrance.gateway.services.routing.of(provider)
            first = asyncio.create_task(status_of(entrance))
            await until(lambda: len(server.requests) == 1)
            second = asyncio.create_task(status_of(entrance))
            await until(lambda: state.slots.waiting == 1)
            second.cancel()
            await until(lambda: state.slots.waiting == 0)
            await until(lambda: list(entrance.gateway.receipts._filed.values())[1].ended == "abandoned")
            assert not list(entrance.gateway.receipts._filed.values())[1].reached_upstream
            release.set()
            assert await first == 200
            assert await status_of(entrance) == 200
            await until(lambda: state.slots.taken == 0)


async def test_a_full_provider_is_passed_over() -> None:
    release = asyncio.Event()
    async with ScriptedServer([Wait(release), *GOOD]) as first, ScriptedServer(GOOD) as second:
        providers = Provider("up1", MESSAGES, first.url, concurrent=1), Provider("up2", MESSAGES, second.url)
        async with gate(config_of(*providers)) as entrance:
            held = asyncio.create_task(status_of(entrance))
            await until(lambda: len(first.requests) == 1)
            assert await status_of(entrance) == 200
            assert (len(first.requests), len(second.requests)) == (1, 1)
            release.set()
            assert await held == 200


async def test_a_queue_is_left_after_a_while() -> None:
    release = asyncio.Event()
    async with ScriptedServer([Wait(release), *GOOD]) as server:
        provider = Provider("up", MESSAGES, server.url, concurrent=1, queue=1, queue_seconds=0.1)
        async with gate(config_of(provider, attempts=1)) as entrance:
            held = asyncio.create_task(status_of(entrance))
            await until(lambda: len(server.requests) == 1)
            assert (await entrance.refusal(MESSAGES))[0] == 529
            release.set()
            assert await held == 200


# --- conversations ---------------------------------------------------------------------------------------------------


async def balanced(balance: str, ask: Any, count: int = 3) -> list[list[dict[str, Any]]]:
    """The bodies that each of several providers of one priority got."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ScriptedServer(GOOD)) for _ in range(count)]
        providers = {f"up{n}": Provider(f"up{n}", MESSAGES, server.url) for n, server in enumerate(servers)}
        targets = tuple(RouteTarget(name, priority=1) for name in providers)
        config = Config(providers=providers, routes=[Route("*", targets=targets, balance=balance)], retries=QUICK)
        async with gate(config) as entrance:
            await ask(entrance)
        return [[json.loads(request.body) for request in server.requests] for server in servers]


async def test_a_conversation_stays_with_its_provider() -> None:
    """A turn later its first message has lost its cache mark, and is a string instead of a list."""

    async def ask(entrance: Gate) -> None:
        for number in range(12):
            opening: dict[str, Any] = {"role": "user", "content": f"question {number}"}
            marked = [{"type": "text", "text": f"question {number}", "cache_control": {"type": "ephemeral"}}]
            await status_of(entrance, messages=[{"role": "user", "content": marked}])
            more = [{"role": "assistant", "content": "yes"}, {"role": "user", "content": f"and {number}?"}]
            await status_of(entrance, messages=[opening, *more])

    bodies = await balanced("sticky", ask)
    assert sum(map(len, bodies)) == 24
    assert all(len(each) % 2 == 0 for each in bodies)
    assert sum(bool(each) for each in bodies) >= 2


@pytest.mark.parametrize(
    ("client", "named"),
    [(CHAT, {"prompt_cache_key": "session-7"}), (MESSAGES, {"metadata": {"user_id": "session-7"}})],
    ids=["chat", "messages"],
)
async def test_a_conversation_is_known_by_the_id_that_the_client_sends(client: Dialect, named: dict[str, Any]) -> None:
    async def ask(entrance: Gate) -> None:
        for number in range(9):
            await status_of(entrance, client, messages=[{"role": "user", "content": f"question {number}"}], **named)

    bodies = await balanced("sticky", ask)
    assert sorted(map(len, bodies)) == [0, 0, 9]


async def test_requests_go_to_the_provider_with_the_fewest() -> None:
    release = asyncio.Event()
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ScriptedServer([Wait(release), *GOOD])) for _ in range(3)]
        providers = {f"up{n}": Provider(f"up{n}", MESSAGES, server.url) for n, server in enumerate(servers)}
        targets = tuple(RouteTarget(name, priority=1) for name in providers)
        config = Config(providers=providers, routes=[Route("*", targets=targets, balance="least-busy")], retries=QUICK)
        async with gate(config) as entrance:
            tasks = [asyncio.create_task(status_of(entrance)) for _ in range(9)]
            await until(lambda: sum(len(server.requests) for server in servers) == 9)
            assert [len(server.requests) for server in servers] == [3, 3, 3]
            release.set()
            assert await asyncio.gather(*tasks) == [200] * 9


async def test_a_reload_keeps_what_is_known_of_providers() -> None:
    retries = RetryOptions(failures=1, cooldown=60)
    async with ScriptedServer(error(500)) as first, ScriptedServer(GOOD) as second:
        providers = Provider("up1", MESSAGES, first.url), Provider("up2", MESSAGES, second.url)
        config = config_of(*providers, retries=retries)
        async with gate(config) as entrance:
            assert await status_of(entrance) == 200
            entrance.gateway.reconfigure(replace(config, retries=replace(retries, cooldown=50)))
            assert await status_of(entrance) == 200
        assert (len(first.requests), len(second.requests)) == (1, 2)


@pytest.mark.parametrize("failure", [error(503), [Close()], [Send(sse_head()), Close()]], ids=["503", "closed", "cut"])
async def test_failed_requests_are_freed_at_once(failure: list[Step]) -> None:
    """Without a garbage collection, which may come late: a request may have megabytes."""
    async with ScriptedServer(failure) as first, ScriptedServer(failure) as second:
        providers = Provider("up1", MESSAGES, first.url), Provider("up2", CHAT, second.url)
        async with gate(config_of(*providers)) as entrance:
            gc.collect()
            gc.disable()
            try:
                assert await status_of(entrance, stream=True) in (502, 503, 529)
                assert len(first.requests) + len(second.requests) == 3
                await until(lambda: not any(isinstance(each, Attempts) for each in gc.get_objects()))
            finally:
                gc.enable()


@pytest.mark.parametrize("providers", [1, 2])
async def test_a_request_that_cannot_be_translated_is_freed_at_once(providers: int) -> None:
    """Its error was raised by a function that has it as a parameter, and once for each provider."""
    document = {"type": "document", "source": {"type": "url", "url": "http://a.test/b.pdf"}}
    names = [f"up{number}" for number in range(providers)]
    async with gate(config_of(*(Provider(name, CHAT, "http://127.0.0.1:9") for name in names))) as entrance:
        gc.collect()
        gc.disable()
        try:
            body = request(MESSAGES, messages=[{"role": "user", "content": [document]}])
            async with entrance.post(MESSAGES, body) as response:
                assert response.status == 400
                assert b"documents by URL" in await response.read()
            await until(lambda: not any(isinstance(each, Draft) for each in gc.get_objects()))
        finally:
            gc.enable()


@pytest.mark.parametrize("attempts", [1, 3])
async def test_streams_are_counted_until_they_end(attempts: int) -> None:
    release = asyncio.Event()
    frames = text_stream(MESSAGES)
    held: list[Step] = [*stream(frames[:2], end=False), Wait(release), Send(chunk(b"".join(frames[2:])) + LAST_CHUNK)]
    async with ScriptedServer(held) as server:
        provider = Provider("up", MESSAGES, server.url, concurrent=9)
        async with gate(config_of(provider, attempts=attempts)) as entrance:
            state = entrance.gateway.services.routing.of(provider)
            gc.collect()  # what other tests left in cycles
            async with entrance.post(MESSAGES, stream=True) as response:
                await response.content.readany()
                assert state.slots.taken == 1
                # An open stream keeps neither its attempts nor the client's request.
                assert not any(isinstance(each, Attempts) for each in gc.get_objects())
                release.set()
                await response.read()
            await until(lambda: state.slots.taken == 0)


@pytest.mark.turns
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_left_after_mixed_failures(seed: int) -> None:
    """Clients that leave at any time, queues, and upstreams that fail in all ways, some in the middle of a stream."""
    random = Random(seed)
    frames = text_stream(MESSAGES)
    good = stream(frames)
    cut: list[Step] = [*stream(frames[:3], end=False), Abort()]
    slow: list[Step] = [Pause(0.02), *good]
    scripts: list[Sequence[Step]] = [
        good,
        error(503),
        cut,
        slow,
        [Close()],
        error(429, ("retry-after-ms", "20")),
        good,
        [Abort()],
        error(401),
    ]
    keys = Secret("key-of-the-first-account"), Secret("key-of-the-second-account")
    async with ScriptedServer(*(scripts * 80)) as first, ScriptedServer(*(scripts[::-1] * 80)) as second:
        providers = (
            Provider("up1", MESSAGES, first.url, concurrent=3, queue=4, queue_seconds=0.2, api_keys=keys),
            Provider("up2", MESSAGES, second.url, concurrent=4, queue=4, queue_seconds=0.2),
        )
        retries = RetryOptions(backoff=0.005, backoff_max=0.02, failures=4, cooldown=0.05, cooldown_max=0.1, budget=1.0)
        async with gate(config_of(*providers, retries=retries, attempts=4)) as entrance:
            gateway = entrance.gateway

            async def ask(client: Dialect) -> None:
                body = b""
                with suppress(asyncio.TimeoutError, ClientError):
                    async with asyncio.timeout(random.choice((0.01, 0.03, 30, 30))):
                        async with entrance.post(client, stream=True) as response:
                            async for data in response.content.iter_any():
                                body += data
                assert body.count(b"event: message_start") <= 1

            for _ in range(8):
                await asyncio.gather(*(ask(random.choice((CHAT, MESSAGES))) for _ in range(25)))
            states = [gateway.services.routing.of(provider) for provider in providers]
            await until(
                lambda: not gateway.services.open_requests and not any(state.slots.taken for state in states), 30
            )
            assert [state.slots.waiting for state in states] == [0, 0]
            assert [state.busy for state in states] == [{}, {}]
            totals = gateway.metrics.totals
            assert totals.read(OPEN_REQUESTS, CHAT) == totals.read(OPEN_REQUESTS, MESSAGES) == [0]
            assert {number[0] for number in totals.series(QUEUED_REQUESTS).values()} <= {0}
            assert all(receipt.ended != "open" for receipt in gateway.receipts._filed.values())
