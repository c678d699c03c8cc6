"""A response that an upstream stores is found there by a gateway that does not know its issuer.

Over real sockets: several gateways without a store that they share, before the same upstreams.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config, Server
from dragoman_server.config.state_options import StateOptions
from dragoman_server.routing.issuer_searches import MISS_SECONDS, MISSES_MAX
from support.gateways import gate, served
from support.issuing_upstreams import IssuingUpstream

STORES = pytest.mark.parametrize("state", [StateOptions(), StateOptions(kind="off")], ids=["memory", "off"])
TWO_KEYS = Server(keys=(Secret("first-client"), Secret("second-client")))
ONE_KEY = Server(keys=(Secret("first-client"),))


@dataclass(slots=True)
class Scene:
    """Two gateways before the same upstreams: `home` is where responses are created, `away` where they are read."""

    upstreams: list[IssuingUpstream]
    home: Any
    away: Any

    def asked(self) -> list[tuple[str, str]]:
        """The requests about responses, as name of the upstream and method."""
        return [(each.name, method) for each in self.upstreams for method, *_ in each.requests]

    async def created(self, name: str) -> str:
        """The id of a new response of the upstream with this name."""
        return str((await self.home.responses.create(model=name, input="Hello")).id)


@asynccontextmanager
async def scene(*names: str, state: StateOptions, server: Server | None = None, **more: Any) -> AsyncIterator[Scene]:
    per_key = more.pop("per_key", "api_keys" in more)
    upstreams = [IssuingUpstream(name, per_key=per_key) for name in names]
    async with AsyncExitStack() as stack:
        providers = {}
        for each in upstreams:
            url, _ = await stack.enter_async_context(served(each.app))
            providers[each.name] = Provider(each.name, Dialect.RESPONSES, f"{url}/v1", **more)
        both = Route("*", targets=tuple(map(RouteTarget, names))) if len(names) > 1 else Route("*", names[0])
        routes = [*(Route(name, name) for name in names), both]
        found = []
        for _ in range(2):
            entrance = await stack.enter_async_context(
                gate(Config(providers, routes, state=state, server=server or Server()))
            )
            sdk = openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="first-client", max_retries=0, timeout=30)
            found.append(await stack.enter_async_context(sdk))
        yield Scene(upstreams, *found)


@STORES
@pytest.mark.parametrize("server", [None, ONE_KEY], ids=["without-keys", "one-key"])
@pytest.mark.parametrize("names", [("east",), ("east", "west", "north")], ids=["one", "three"])
async def test_one_of_another_gateway_is_read_continued_cancelled_and_deleted(
    names: tuple[str, ...], server: Server | None, state: StateOptions
) -> None:
    async with scene(*names, state=state, server=server) as it:
        made = await it.created(names[-1])
        responses = it.away.responses
        following = await responses.create(model="m", input="more", previous_response_id=made)
        assert following.id.startswith(f"resp_{names[-1]}_")
        fresh = [await it.created(names[-1]) for _ in range(4)]
        assert (await responses.retrieve(fresh[0])).id == fresh[0]
        assert [item.id async for item in responses.input_items.list(fresh[1])] == ["msg_1"]
        assert (await responses.cancel(fresh[2])).status == "cancelled"
        await responses.delete(fresh[3])
        with pytest.raises(openai.NotFoundError):
            await it.home.responses.retrieve(fresh[3])


async def test_providers_are_asked_in_their_order_and_the_issuer_is_kept() -> None:
    async with scene("east", "west", "north", state=StateOptions()) as it:
        made = await it.created("west")
        await it.away.responses.retrieve(made)
        assert it.asked() == [("east", "GET"), ("west", "GET"), ("west", "GET")]
        await it.away.responses.retrieve(made)
        assert it.asked()[1:] == [("west", "GET")] * 3
        assert it.upstreams[2].requests == []
        with pytest.raises(openai.NotFoundError, match="Response with id 'resp_of_no_one' not found"):
            await it.away.responses.retrieve("resp_of_no_one")
        assert len(it.upstreams[2].requests) == 1


async def test_providers_are_not_asked_twice_for_what_none_has() -> None:
    async with scene("east", "west", "north", state=StateOptions()) as it:
        for _ in range(3):
            with pytest.raises(openai.NotFoundError, match="Response with id 'resp_of_no_one' not found"):
                await it.away.responses.retrieve("resp_of_no_one")
            with pytest.raises(openai.BadRequestError):
                await it.away.responses.create(model="m", input="more", previous_response_id="resp_of_no_one")
        assert it.asked() == [("east", "GET"), ("west", "GET"), ("north", "GET")]


async def test_a_client_that_guesses_ids_is_rejected() -> None:
    async with scene("east", "west", state=StateOptions()) as it:
        for number in range(MISSES_MAX):
            with pytest.raises(openai.NotFoundError):
                await it.away.responses.retrieve(f"resp_{number}")
        asked = it.asked()
        for call in (it.away.responses.retrieve, it.away.responses.delete):
            with pytest.raises(openai.RateLimitError, match="no provider is known to have") as rejected:
                await call("resp_of_no_one")
            assert 0 < int(rejected.value.response.headers["retry-after"]) <= MISS_SECONDS
        with pytest.raises(openai.RateLimitError):
            await it.away.responses.create(model="m", input="more", previous_response_id="resp_of_no_one")
        assert it.asked() == asked


async def test_what_one_key_does_not_have_another_key_may_have() -> None:
    async with scene("east", "west", state=StateOptions(), auth=Auth.PASSTHROUGH, per_key=True) as it:
        made = await it.created("west")
        with pytest.raises(openai.NotFoundError):
            await it.away.with_options(api_key="second-client").responses.retrieve(made)
        assert (await it.away.responses.retrieve(made)).id == made


async def test_a_conversation_is_continued_where_it_is() -> None:
    async with scene("east", "west", state=StateOptions(kind="off")) as it:
        made = await it.away.responses.create(model="m", input="Hello", conversation="conv_west")
        assert made.id.startswith("resp_west_")


async def test_each_key_of_a_provider_is_tried() -> None:
    keys = tuple(Secret(f"key-number-{number}") for number in range(3))
    async with scene("east", state=StateOptions(), api_keys=keys) as it:
        for _ in range(6):
            made = await it.created("east")
            assert (await it.away.responses.retrieve(made)).id == made
            assert (await it.away.responses.create(model="m", input="more", previous_response_id=made)).id


async def test_one_that_a_silent_provider_may_have_is_its_error_and_no_404() -> None:
    async with scene("east", "west", state=StateOptions()) as it:
        made = await it.created("west")
        it.upstreams[1].fails[:] = [500, 500]
        with pytest.raises(openai.InternalServerError, match="try again"):
            await it.away.responses.retrieve(made)
        assert (await it.away.responses.retrieve(made)).id == made


@STORES
@pytest.mark.parametrize("names", [("east",), ("east", "west")], ids=["one", "two"])
async def test_one_of_several_clients_gets_a_404_that_names_the_setting(
    names: tuple[str, ...], state: StateOptions
) -> None:
    """It may be another client's: no provider is asked."""
    async with scene(*names, state=state, server=TWO_KEYS, api_key=Secret("sk-upstream")) as it:
        made = await it.created(names[-1])
        for client in (it.away, it.home.with_options(api_key="second-client")):
            responses = client.responses
            for call in (responses.retrieve, responses.delete, responses.cancel):
                with pytest.raises(openai.NotFoundError, match=r"not found\. .* configure \[store\]"):
                    await call(made)
        if len(names) > 1:
            # It goes where a new conversation would, and the error of that provider names the setting.
            text = r"^(?!.*\.\.).* with id 'resp_of_no_one' not found\. If .* configure \[store\]"
            with pytest.raises(openai.BadRequestError, match=text) as refused:
                await it.away.responses.create(model="m", input="more", previous_response_id="resp_of_no_one")
            assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")
            with pytest.raises(openai.BadRequestError, match=r"'conv_1' not found\. If .* configure \[store\]"):
                await it.away.responses.create(model="m", input="more", conversation="conv_1", stream=True)
            it.upstreams[0].fails[:] = [400]  # about something else
            with pytest.raises(openai.BadRequestError, match=r"try again$"):
                await it.away.responses.create(model="m", input="more", previous_response_id="resp_of_no_one")
        assert it.asked() == []
        assert (await it.home.responses.retrieve(made)).id == made


async def test_clients_with_keys_of_their_own_there_are_separated_by_the_upstream() -> None:
    login = {"x-dragoman-key": "first-client"}
    async with scene("east", "west", state=StateOptions(), server=TWO_KEYS, auth=Auth.PASSTHROUGH) as it:
        home, away = (each.with_options(api_key="sk-own", default_headers=login) for each in (it.home, it.away))
        made = (await home.responses.create(model="west", input="Hello")).id
        assert (await away.responses.retrieve(made)).id == made
        made = (await home.responses.create(model="west", input="Hello")).id
        with pytest.raises(openai.NotFoundError, match="configure"):
            await it.away.responses.retrieve(made)  # a client without a key of its own there
