"""A response that an upstream stores is read, cancelled and deleted there, with or without a store of the gateway's.

Over real sockets, by the official SDK.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import openai
import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config, Server
from dragoman_server.config.state_options import StateOptions
from support.gateways import Gate, gate, served
from support.issuing_upstreams import IssuingUpstream
from support.websockets import speaking

RESPONSES = Dialect.RESPONSES
STORES = pytest.mark.parametrize("state", [StateOptions(), StateOptions(kind="off")], ids=["memory", "off"])
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@dataclass(slots=True)
class Scene:
    """A gateway before upstreams that store responses, and the SDK as its client."""

    gate: Gate
    upstreams: list[IssuingUpstream]
    sdk: Any

    @property
    def asked(self) -> list[tuple[str, str, str]]:
        """The requests about responses that reached an upstream."""
        return [each for upstream in self.upstreams for each in upstream.requests]

    async def created(self, text: str = "Hello", *, stream: bool = False, **fields: Any) -> str:
        """The id of a new response."""
        made = await self.sdk.responses.create(model="m", input=text, stream=stream, **fields)
        if not stream:
            return str(made.id)
        events = [event async for event in made]
        return str(events[0].response.id)


@asynccontextmanager
async def scene(*upstreams: IssuingUpstream, state: StateOptions, **more: Any) -> AsyncIterator[Scene]:
    provider = {name: more.pop(name) for name in ("api_key", "api_keys", "auth") if name in more}
    async with AsyncExitStack() as stack:
        providers = {}
        for each in upstreams:
            url, _ = await stack.enter_async_context(served(each.app))
            providers[each.name] = Provider(each.name, RESPONSES, f"{url}/v1", **provider)
        targets = tuple(map(RouteTarget, providers))
        route = Route("*", targets=targets) if len(targets) > 1 else Route("*", upstreams[0].name)
        entrance = await stack.enter_async_context(gate(Config(providers, [route], state=state, **more)))
        sdk = openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="first-client", max_retries=0, timeout=30)
        yield Scene(entrance, list(upstreams), await stack.enter_async_context(sdk))


@STORES
@STREAMED
@pytest.mark.parametrize("number", [1, 2])
async def test_a_response_is_read_cancelled_and_deleted(number: int, stream: bool, state: StateOptions) -> None:
    upstreams = [IssuingUpstream(name) for name in ("east", "west")[:number]]
    async with scene(*upstreams, state=state) as it:
        made = ""
        for _ in range(3):
            made = await it.created(stream=stream, background=True)
            responses = it.sdk.responses
            read = await responses.retrieve(made, include=["reasoning.encrypted_content"])
            assert (read.id, read.output_text) == (made, "Hi")
            items = [item async for item in responses.input_items.list(made, order="asc", limit=5)]
            assert [item.content[0].text for item in items] == ["Hello"]
            assert (await responses.cancel(made)).status == "cancelled"
            events = [event async for event in await responses.retrieve(made, stream=True, starting_after=0)]
            assert (events[0].response.id, events[-1].type) == (made, "response.completed")
            await responses.delete(made)
            with pytest.raises(openai.NotFoundError, match=f"Response with id '{made}' not found"):
                await responses.retrieve(made)
        sent = [(method, unquote(path)) for method, path, _ in it.asked if made in path]
        one = f"/v1/responses/{made}"
        assert sent == [
            ("GET", f"{one}?include[]=reasoning.encrypted_content"),
            ("GET", f"{one}/input_items?limit=5&order=asc"),
            ("POST", f"{one}/cancel"),
            ("GET", f"{one}?starting_after=0&stream=true"),
            ("DELETE", one),
            ("GET", one),
        ]


@STORES
async def test_a_turn_of_a_websocket_is_read(state: StateOptions) -> None:
    async with scene(IssuingUpstream("east"), state=state) as it:
        async with speaking(it.gate.url) as socket:
            events = await socket.turn(input="Hello", store=True)
        made = events[-1]["response"]["id"]
        assert (await it.sdk.responses.retrieve(made)).id == made


@STORES
async def test_one_that_is_not_stored_or_not_known_is_a_404(state: StateOptions) -> None:
    """The only provider that may have it is asked."""
    async with scene(IssuingUpstream("east"), state=state) as it:
        made = await it.created(store=False)
        for unknown in (made, "resp_of_yesterday"):
            for call in (it.sdk.responses.retrieve, it.sdk.responses.delete, it.sdk.responses.cancel):
                with pytest.raises(openai.NotFoundError, match=f"Response with id '{unknown}' not found"):
                    await call(unknown)
        one = "/v1/responses/resp_of_yesterday"
        assert [each[:2] for each in it.asked[3:]] == [("GET", one), ("DELETE", one), ("POST", f"{one}/cancel")]


@STORES
async def test_a_client_reaches_its_own_only(state: StateOptions) -> None:
    server = Server(keys=(Secret("first-client"), Secret("second-client")))
    async with scene(IssuingUpstream("east"), state=state, server=server, api_key=Secret("sk-upstream")) as it:
        made = await it.created()
        other = it.sdk.with_options(api_key="second-client")
        for call in (other.responses.retrieve, other.responses.delete, other.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                await call(made)
        with pytest.raises(openai.AuthenticationError):
            await it.sdk.with_options(api_key="third-client").responses.retrieve(made)
        assert it.asked == []
        await it.sdk.responses.retrieve(made)
        assert [key for *_, key in it.asked] == ["sk-upstream"]


@STORES
async def test_the_key_that_created_it_is_used(state: StateOptions) -> None:
    keys = tuple(Secret(f"key-number-{number}") for number in range(3))
    async with scene(IssuingUpstream("east", per_key=True), state=state, api_keys=keys) as it:
        for number in range(8):
            made = await it.created(f"question {number}")
            assert (await it.sdk.responses.retrieve(made)).id == made
        assert len({key for *_, key in it.asked}) > 1


@STORES
async def test_a_client_with_a_key_of_its_own_uses_it(state: StateOptions) -> None:
    async with scene(IssuingUpstream("east", per_key=True), state=state, auth=Auth.PASSTHROUGH) as it:
        made = await it.created()
        assert (await it.sdk.responses.retrieve(made)).id == made
        with pytest.raises(openai.NotFoundError):
            await it.sdk.with_options(api_key="another").responses.retrieve(made)
        assert [key for *_, key in it.asked] == ["first-client", "another"]


@pytest.mark.parametrize(("status", "noted"), [(400, 400), (401, 502), (429, 429), (500, 500)])
async def test_an_error_of_the_upstream_is_passed_on(status: int, noted: int) -> None:
    """One about the gateway's own key is the gateway's fault, and the key is masked."""
    async with scene(IssuingUpstream("east"), state=StateOptions(), api_key=Secret("sk-canary-key")) as it:
        made = await it.created()
        it.upstreams[0].fails[:] = [status]
        with pytest.raises(openai.APIStatusError) as caught:
            await it.sdk.responses.retrieve(made)
        assert caught.value.status_code == noted
        assert "canary" not in str(caught.value)
        assert caught.value.response.headers["x-dragoman-request-id"]


@STORES
async def test_a_provider_that_is_gone_is_a_404(state: StateOptions) -> None:
    async with scene(IssuingUpstream("east"), state=state) as it:
        made = await it.created()
        config = it.gate.gateway.config
        moved = replace(config.providers["east"], base_url="http://127.0.0.1:9/v1")
        it.gate.gateway.reconfigure(replace(config, providers={"east": moved}))
        with pytest.raises(openai.NotFoundError):
            await it.sdk.responses.retrieve(made)
        assert it.asked == []


async def test_responses_of_both_are_distinguished() -> None:
    """One provider stores its responses, the other's are stored by the gateway."""
    async with scene(IssuingUpstream("east"), IssuingUpstream("west"), state=StateOptions()) as it:
        config = it.gate.gateway.config
        west = replace(config.providers["west"], state="gateway")
        routes = [Route("east", "east"), Route("west", "west")]
        it.gate.gateway.reconfigure(replace(config, providers={**config.providers, "west": west}, routes=routes))
        made = {}
        for name in ("east", "west"):
            made[name] = (await it.sdk.responses.create(model=name, input="Hello")).id
            assert (await it.sdk.responses.retrieve(made[name])).id == made[name]
        assert [path for _, path, _ in it.asked] == [f"/v1/responses/{made['east']}"]
