"""One client sends what its provider answers with errors: the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from dragoman.dialects import Dialect
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from support.gateways import Gate, gate, served
from support.named_keys import made, with_keys
from support.samples import reply

CHAT = Dialect.CHAT
RETRIES = RetryOptions(backoff=0.001, backoff_max=0.002, failures=3, cooldown=600, cooldown_max=600, budget=9.0)
Reply = tuple[int, dict[str, str]]


@dataclass
class Upstream:
    """A provider that answers a poisoned request with `bad`, and every one while it is `down`."""

    bad: Reply | None = (500, {})
    down: bool = False
    requests: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.requests.append(text)
        if self.bad is not None and (self.down or "poison" in text):
            status, headers = self.bad
            return web.json_response({"error": {"message": "no", "type": "x"}}, status=status, headers=headers)
        return web.json_response(reply(CHAT) if "messages" in text else {"data": [], "usage": {"total_tokens": 1}})

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/{path:.*}", self.answer)
        return app


@dataclass
class Scene:
    """A gateway before that provider, with the clients `keys`."""

    entrance: Gate
    upstream: Upstream
    keys: tuple[str, ...]

    async def ask(self, text: str, client: int | None = 0, *, path: str = "chat/completions") -> int:
        headers = {} if client is None else {"authorization": f"Bearer {self.keys[client]}"}
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": text}]}
        if path == "embeddings":
            body = {"model": "m", "input": text}
        url = f"{self.entrance.url}/v1/{path}"
        async with asyncio.timeout(30), self.entrance.session.post(url, json=body, headers=headers) as response:
            await response.read()
            return int(response.status)

    async def attack(self, text: str = "poison", client: int | None = 0, times: int = 10, **path: str) -> list[int]:
        return [await self.ask(text, client, **path) for _ in range(times)]


_FAILS: Reply = (500, {})


@asynccontextmanager
async def scene(
    bad: Reply = _FAILS, keys: int = 3, *, attempts: int = 2, failures: int = 3, auth: Auth = Auth.CONFIGURED
) -> AsyncIterator[Scene]:
    upstream = Upstream(bad)
    clients = [made(f"client-{number}") for number in range(keys)]
    async with served(upstream.app()) as (url, _):
        # With a limit, a request with one attempt has a breaker, too.
        provider = Provider("up", CHAT, f"{url}/v1", auth=auth, concurrent=100)
        config = Config(
            providers={"up": provider},
            routes=[Route("*", targets=(RouteTarget("up"),), attempts=attempts)],
            retries=replace(RETRIES, failures=failures),
        )
        records: list[KeyRecord] = [record for _, record in clients]
        async with gate(with_keys(config, *records)) as entrance:
            yield Scene(entrance, upstream, tuple(key for key, _ in clients))


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("path", ["chat/completions", "embeddings"])
@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_failures_of_one_key_pause_only_this_key(status: int, path: str, attempts: int) -> None:
    async with scene((status, {}), attempts=attempts) as it:
        statuses = await it.attack(path=path)
        assert statuses[-1] == 503
        sent = len(it.upstream.requests)
        print(f"10 poisoned requests: {sent} at the provider, then a pause of their client")
        assert sent <= 5
        assert await it.attack("fine", client=1, path=path) == [200] * 10
        assert it.entrance.gateway.services.routing.share is None


async def test_many_conversations_of_one_key_pause_only_this_key() -> None:
    async with scene() as it:
        for number in range(10):
            await it.ask(f"poison {number}")
        assert await it.ask("fine") == 503
        assert await it.ask("fine", client=1) == 200


@pytest.mark.parametrize("client", [0, None], ids=["shared-key", "no-keys"])
async def test_failures_of_one_conversation_pause_only_this_conversation(client: int | None) -> None:
    """The clients of a shared key, or of no key, have nothing else that differs."""
    async with scene(keys=0 if client is None else 1) as it:
        assert (await it.attack(client=client))[-1] == 503
        assert await it.attack("fine", client=client) == [200] * 10


async def test_a_failing_request_of_another_client_does_not_complete_those_of_the_attacker() -> None:
    async with scene(failures=5) as it:
        for number in range(5):
            await it.attack()
            assert await it.ask(f"poison {number}", client=1) == 500
            assert await it.ask("fine", client=1) == 200
            assert await it.ask("fine", client=2) == 200


async def test_failures_of_two_keys_pause_the_provider() -> None:
    async with scene() as it:
        it.upstream.down = True
        for client in (0, 1):
            await it.attack("fine", client=client, times=2)
        sent = len(it.upstream.requests)
        print(f"an outage: paused for all after {sent} requests of two clients")
        assert sent <= 5
        assert await it.ask("fine", client=2) == 503
        assert len(it.upstream.requests) == sent


async def test_failures_of_two_conversations_pause_the_provider_without_keys() -> None:
    async with scene(keys=0) as it:
        it.upstream.down = True
        for text in ("one", "two"):
            await it.attack(text, client=None, times=2)
        sent = len(it.upstream.requests)
        assert sent <= 5
        assert await it.ask("three", client=None) == 503
        assert len(it.upstream.requests) == sent


async def test_a_provider_that_cannot_be_reached_pauses_for_all() -> None:
    provider = Provider("up", CHAT, "http://127.0.0.1:9/v1")
    keys = [made("a"), made("b")]
    config = Config(
        providers={"up": provider}, routes=[Route("*", targets=(RouteTarget("up"),), attempts=2)], retries=RETRIES
    )
    async with gate(with_keys(config, *(record for _, record in keys))) as entrance:
        it = Scene(entrance, Upstream(), tuple(key for key, _ in keys))
        assert (await it.attack("fine", times=3))[-1] == 503
        assert await it.ask("fine", client=1) == 503


@pytest.mark.parametrize(
    "bad", [(503, {"retry-after": "600"}), (403, {}), (429, {})], ids=["retry-after", "moderation", "too-large"]
)
async def test_a_pause_that_content_has_caused_is_for_its_client(bad: Reply) -> None:
    """Seen by what the others prefer: the first provider, as if nothing had happened."""
    first, second = Upstream(bad), Upstream(None)
    keys = [made("a"), made("b")]
    async with served(first.app()) as (one, _), served(second.app()) as (two, _):
        config = Config(
            providers={"one": Provider("one", CHAT, f"{one}/v1"), "two": Provider("two", CHAT, f"{two}/v1")},
            routes=[Route("*", targets=(RouteTarget("one"), RouteTarget("two")))],
            retries=RETRIES,
        )
        async with gate(with_keys(config, *(record for _, record in keys))) as entrance:
            it = Scene(entrance, first, tuple(key for key, _ in keys))
            await it.ask("poison")
            before = len(first.requests)
            assert before == 1
            for _ in range(5):
                assert await it.ask("fine", client=1) == 200
            assert len(first.requests) == before + 5
            await it.ask("poison")
            assert len(first.requests) == before + 5, "the pause is none for its own client"


@pytest.mark.parametrize("status", [401, 402, 403, 429])
async def test_answers_to_a_clients_own_key_pause_no_one(status: int) -> None:
    async with scene((status, {"retry-after": "600"}), keys=0, auth=Auth.PASSTHROUGH) as it:
        it.keys = ("sk-of-the-attacker", "sk-of-another-client")
        assert set(await it.attack(times=5)) == {status}
        assert await it.ask("fine", client=1) == 200
        assert await it.ask("fine", client=0) == 200


async def test_a_client_is_known_by_the_key_that_its_provider_gets() -> None:
    async with scene(keys=0, auth=Auth.PASSTHROUGH) as it:
        it.keys = ("sk-of-the-attacker", "sk-of-another-client")
        for number in range(10):
            await it.ask(f"poison {number}")
        assert await it.ask("fine", client=0) == 503
        assert await it.ask("fine", client=1) == 200


async def test_retries_of_one_client_leave_the_others_their_share() -> None:
    retries = RetryOptions(backoff=0.001, backoff_max=0.002, failures=0, budget=0.2, budget_min=3)
    upstream, keys = Upstream(), [made("a"), made("b")]
    async with served(upstream.app()) as (url, _):
        config = Config(
            providers={"up": Provider("up", CHAT, f"{url}/v1")},
            routes=[Route("*", targets=(RouteTarget("up"),), attempts=2)],
            retries=retries,
        )
        async with gate(with_keys(config, *(record for _, record in keys))) as entrance:
            it = Scene(entrance, upstream, tuple(key for key, _ in keys))
            await it.attack(times=30)
            spent = len(upstream.requests) - 30
            assert spent <= 6
            await it.ask("poison", client=1)
            others = len(upstream.requests) - 31 - spent
            print(f"30 requests of one client: {spent} retries; one of another client: {others}")
            assert len(upstream.requests) == 30 + spent + 2, "the other client has no retry"
