"""A response that an upstream stores is continued there: over real sockets, before several stateful upstreams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config, Server
from dragoman_server.config.state_options import StateOptions
from support.gateways import Gate, gate, served
from support.issuing_upstreams import IssuingUpstream
from support.websockets import speaking

RESPONSES = Dialect.RESPONSES
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@dataclass(slots=True)
class Scene:
    """A gateway before stateful upstreams that share a route."""

    gate: Gate
    upstreams: list[IssuingUpstream]
    config: Config

    async def ask(self, text: str, *, key: str | None = None, **fields: Any) -> tuple[int, str]:
        """Send a request. Returns its status, and the id of the response or the code of the error."""
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        body = {"model": "m", "input": text, **fields}
        async with self.gate.post(RESPONSES, body, headers=headers) as reply:
            raw = await reply.read()
            if reply.content_type == "application/json":
                data = json.loads(raw)
                return reply.status, data["id"] if "id" in data else data["error"]["code"]
            return reply.status, json.loads(raw.split(b"data: ", 1)[1].split(b"\n", 1)[0])["response"]["id"]

    def of(self, response_id: str) -> IssuingUpstream:
        """The upstream that issued a response."""
        return next(each for each in self.upstreams if response_id.startswith(f"resp_{each.name}_"))

    async def from_each(self, **fields: Any) -> list[str]:
        """The id of one response of each upstream."""
        found: dict[str, str] = {}
        for number in range(200):
            _, response_id = await self.ask(f"question {number}", **fields)
            found.setdefault(self.of(response_id).name, response_id)
            if len(found) == len(self.upstreams):
                return [found[each.name] for each in self.upstreams]
        raise AssertionError("one upstream never got a request")


@asynccontextmanager
async def scene(*upstreams: IssuingUpstream, **more: Any) -> AsyncIterator[Scene]:
    route = {name: more.pop(name) for name in ("balance", "attempts") if name in more}
    provider = {name: more.pop(name) for name in ("api_keys",) if name in more}
    priorities = more.pop("priorities", None) or [1] * len(upstreams)
    async with AsyncExitStack() as stack:
        providers = {}
        for each in upstreams:
            url, _ = await stack.enter_async_context(served(each.app))
            providers[each.name] = Provider(each.name, RESPONSES, f"{url}/v1", **provider)
        targets = tuple(RouteTarget(name, priority=one) for name, one in zip(providers, priorities, strict=True))
        config = Config(
            providers=providers,
            routes=[Route("*", targets=targets, **route)],
            retries=RetryOptions(backoff=0.01, backoff_max=0.02),
            **more,
        )
        yield Scene(await stack.enter_async_context(gate(config)), list(upstreams), config)


def two(**options: Any) -> tuple[IssuingUpstream, IssuingUpstream]:
    return IssuingUpstream("east", **options), IssuingUpstream("west", **options)


@STREAMED
@pytest.mark.parametrize("balance", ["sticky", "weighted", "least-busy"])
async def test_a_response_is_continued_where_it_was_issued(balance: str, stream: bool) -> None:
    async with scene(*two(), balance=balance) as it:
        for first in await it.from_each(stream=stream):
            before = first
            for number in range(8):
                status, following = await it.ask(f"more {number}", stream=stream, previous_response_id=before)
                assert (status, it.of(following)) == (200, it.of(first)), following
                before = following


async def test_a_stream_that_was_answered_with_json_is_continued_there() -> None:
    async with scene(*two(whole=True)) as it:
        for first in await it.from_each(stream=True):
            for number in range(8):
                assert (await it.ask(f"more {number}", previous_response_id=first))[0] == 200


async def test_a_conversation_stays_where_it_was_found() -> None:
    """The gateway learns a conversation by the first request that its upstream has answered."""
    async with scene(*two(), balance="weighted") as it:
        for reference in ("conv_east", {"id": "conv_west"}):
            for _ in range(100):
                if (await it.ask("begin", conversation=reference))[0] == 200:
                    break
            for number in range(12):
                assert (await it.ask(f"more {number}", conversation=reference))[0] == 200


async def test_a_response_is_continued_with_the_key_that_created_it() -> None:
    keys = tuple(Secret(f"key-number-{number}") for number in range(3))
    async with scene(IssuingUpstream("east", per_key=True), api_keys=keys, balance="weighted") as it:
        (upstream,) = it.upstreams
        for number in range(12):
            _, first = await it.ask(f"question {number}")
            status, _ = await it.ask("more", previous_response_id=first)
            assert status == 200
            assert upstream.keys[-1] == upstream.keys[-2]
        assert len(set(upstream.keys)) > 1


async def test_another_key_of_the_provider_is_tried_but_no_other_provider() -> None:
    keys = Secret("key-number-1"), Secret("key-number-2")
    async with scene(*two(), api_keys=keys) as it:
        first, _ = await it.from_each()
        issuer, other = it.upstreams
        asked = len(other.asked)
        issuer.fails[:] = [429]
        assert (await it.ask("more", previous_response_id=first))[0] == 200
        assert issuer.keys[-1] != issuer.keys[-2]
        assert len(other.asked) == asked


@STREAMED
@pytest.mark.parametrize("status", [500, 429, 401, 400])
async def test_the_error_of_the_issuer_is_returned(status: int, stream: bool) -> None:
    async with scene(*two()) as it:
        first, _ = await it.from_each(stream=stream)
        issuer, other = it.upstreams
        asked = len(other.asked)
        issuer.fails[:] = [status] * 3
        noted = 502 if status == 401 else status  # about a key of the gateway's
        assert (await it.ask("more", stream=stream, previous_response_id=first))[0] == noted
        assert len(other.asked) == asked


async def test_an_issuer_that_pauses_is_not_replaced() -> None:
    async with scene(*two(), attempts=1) as it:
        first, second = await it.from_each()
        issuer, other = it.upstreams
        issuer.fails[:] = [500] * 5
        for number in range(5):
            assert (await it.ask(f"more {number}", previous_response_id=first))[0] == 500
        asked = len(issuer.asked), len(other.asked)
        assert (await it.ask("more", previous_response_id=first))[0] == 503
        assert (len(issuer.asked), len(other.asked)) == asked
        assert (await it.ask("more", previous_response_id=second))[0] == 200
        for number in range(8):
            assert it.of((await it.ask(f"new {number}"))[1]) is other


async def test_after_a_fallback_the_second_provider_is_the_issuer() -> None:
    async with scene(*two(), priorities=[1, 2]) as it:
        it.upstreams[0].fails[:] = [500]
        _, first = await it.ask("question")
        assert it.of(first) is it.upstreams[1]
        status, following = await it.ask("more", previous_response_id=first)
        assert (status, it.of(following)) == (200, it.upstreams[1])
        assert it.of((await it.ask("question"))[1]) is it.upstreams[0]


async def test_an_unknown_response_goes_where_it_went_before() -> None:
    """No provider has it. The first one refuses it; a refusal is no reason for another attempt."""
    async with scene(*two(), priorities=[1, 2]) as it:
        assert await it.ask("more", previous_response_id="resp_of_yesterday") == (400, "previous_response_not_found")
        assert [len(each.asked) for each in it.upstreams] == [1, 0]
        it.upstreams[0].fails[:] = [500, 500]  # it does not answer whether it has it
        assert (await it.ask("more", previous_response_id="resp_of_yesterday"))[0] == 400
        assert [len(each.asked) for each in it.upstreams] == [2, 1]


async def test_a_response_that_is_not_stored_is_not_kept() -> None:
    async with scene(*two()) as it:
        await it.ask("question", store=False)
        assert len(it.gate.gateway.services.routing.issuers) == 0
        await it.ask("question")
        assert len(it.gate.gateway.services.routing.issuers) == 1


async def test_clients_with_other_keys_do_not_share_what_is_known() -> None:
    keys = Secret("first-client"), Secret("second-client")
    async with scene(*two(), priorities=[1, 2], server=Server(keys=keys)) as it:
        it.upstreams[0].fails[:] = [500]
        _, first = await it.ask("question", key="first-client")
        assert it.of(first) is it.upstreams[1]
        assert (await it.ask("more", key="second-client", previous_response_id=first))[0] == 400
        assert (await it.ask("more", key="first-client", previous_response_id=first))[0] == 200


async def test_a_reload_keeps_what_is_known_of_providers_that_stay() -> None:
    async with scene(*two(), balance="weighted") as it:
        east, west = await it.from_each()
        it.gate.gateway.reconfigure(replace(it.config, retries=RetryOptions(attempts=2)))
        for number in range(8):
            assert (await it.ask(f"more {number}", previous_response_id=east))[0] == 200
        moved = replace(it.config.providers["east"], base_url=it.config.providers["west"].base_url)
        it.gate.gateway.reconfigure(replace(it.config, providers={**it.config.providers, "east": moved}))
        assert await it.ask("more", previous_response_id=east) == (400, "previous_response_not_found")
        route = Route("*", targets=(RouteTarget("west"),), attempts=2)
        alone = replace(it.config, providers={"west": it.config.providers["west"]}, routes=[route])
        it.gate.gateway.reconfigure(alone)
        assert await it.ask("more", previous_response_id=east) == (400, "previous_response_not_found")
        assert (await it.ask("more", previous_response_id=west))[0] == 200


async def test_a_response_of_a_route_with_one_provider_is_known_to_other_routes() -> None:
    async with scene(*two(), priorities=[1, 2]) as it:
        config = replace(it.config, routes=[Route("only", "west"), *it.config.routes])
        it.gate.gateway.reconfigure(config)
        _, first = await it.ask("question", model="only")
        status, following = await it.ask("more", previous_response_id=first)
        assert (status, it.of(following)) == (200, it.upstreams[1])


async def test_tokens_are_counted_where_the_response_is() -> None:
    async with scene(*two(), priorities=[1, 2]) as it:
        it.upstreams[0].fails[:] = [500]
        _, first = await it.ask("question")
        assert it.of(first) is it.upstreams[1]
        body = {"model": "m", "input": "more", "previous_response_id": first}
        async with it.gate.session.post(f"{it.gate.url}/v1/responses/input_tokens", json=body) as reply:
            assert (reply.status, (await reply.json())["input_tokens"]) == (200, 7)
        assert [each.counted for each in it.upstreams] == [[], [first]]


async def test_a_websocket_continues_a_response_of_another_connection() -> None:
    async with scene(*two(), priorities=[1, 2]) as it:
        it.upstreams[0].fails[:] = [500]
        _, first = await it.ask("question")
        async with speaking(it.gate.url) as socket:
            events = await socket.turn(model="m", input="more", previous_response_id=first)
        assert events[-1]["type"] == "response.completed"
        assert it.upstreams[1].asked[-1] == first


async def test_a_gateway_that_stores_responses_keeps_none_of_their_issuers() -> None:
    async with scene(*two(), state=StateOptions(kind="memory")) as it:
        await it.ask("question", store=True)
        assert (
            len(it.gate.gateway.services.routing.issuers) == 1
        )  # `state = "upstream"` is the default of such providers
    async with scene(*two(), state=StateOptions(kind="memory")) as it:
        kept = {name: replace(each, state="gateway") for name, each in it.config.providers.items()}
        it.gate.gateway.reconfigure(replace(it.config, providers=kept))
        _, first = await it.ask("question", store=True)
        assert len(it.gate.gateway.services.routing.issuers) == 0
        assert (await it.ask("more", previous_response_id=first))[0] == 200
