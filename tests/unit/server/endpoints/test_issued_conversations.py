"""Conversations that an upstream keeps are created, read, extended and deleted there, by the client that made them.

Over real sockets, with the official SDK: gateways before upstreams of the Responses API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import openai
import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Server
from dragoman_server.config.state_options import StateOptions
from support.gateways import gate, served
from support.issuing_upstreams import IssuingUpstream

OFF = StateOptions(kind="off")
STORES = pytest.mark.parametrize("state", [StateOptions(), OFF], ids=["memory", "off"])
TWO_KEYS = Server(keys=(Secret("first-client"), Secret("second-client")))
MESSAGE = {"type": "message", "role": "user", "content": "Hello"}


@dataclass(slots=True)
class Scene:
    """Two gateways before the same upstreams, and what their clients send."""

    upstreams: list[IssuingUpstream]
    home: Any
    away: Any

    def asked(self) -> list[tuple[str, str, str]]:
        """The requests about conversations, as name of the upstream, method and path."""
        return [(each.name, method, path) for each in self.upstreams for method, path, _ in each.requests]


@asynccontextmanager
async def scene(
    *names: str,
    state: StateOptions,
    server: Server | None = None,
    change: Callable[[Provider], Provider] = lambda provider: provider,
    per_key: bool = False,
    **more: Any,
) -> AsyncIterator[Scene]:
    upstreams = [IssuingUpstream(name, per_key=per_key) for name in names]
    async with AsyncExitStack() as stack:
        providers = {}
        for each in upstreams:
            url, _ = await stack.enter_async_context(served(each.app))
            providers[each.name] = change(Provider(each.name, Dialect.RESPONSES, f"{url}/v1", **more))
        routes = [*(Route(name, name) for name in names), Route("*", names[0])]
        found = []
        for _ in range(2):
            entrance = await stack.enter_async_context(
                gate(Config(providers, routes, state=state, server=server or Server()))
            )
            sdk = openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="first-client", max_retries=0, timeout=30)
            found.append(await stack.enter_async_context(sdk))
        yield Scene(upstreams, *found)


@STORES
@pytest.mark.parametrize("server", [None, TWO_KEYS], ids=["without-keys", "two-keys"])
async def test_the_sdk_works_as_at_the_upstream(server: Server | None, state: StateOptions) -> None:
    key: dict[str, Any] = {} if server is None else {"api_key": Secret("sk-upstream")}
    async with scene("east", state=state, server=server, **key) as it:
        conversations = it.home.conversations
        made = await conversations.create(metadata={"user": "42"}, items=[MESSAGE])
        assert (made.id, made.metadata) == ("conv_east_0", {"user": "42"})
        assert (await conversations.retrieve(made.id)).metadata == {"user": "42"}
        assert (await conversations.update(made.id, metadata={"user": "43"})).metadata == {"user": "43"}
        assert [each.id async for each in conversations.items.list(made.id, order="asc", limit=7)] == ["msg_1"]
        assert (await conversations.items.create(made.id, items=[MESSAGE])).data[0].id == "msg_1"
        assert (await conversations.items.retrieve("msg_1", conversation_id=made.id)).id == "msg_1"
        assert (await conversations.items.delete("msg_1", conversation_id=made.id)).id == made.id
        reply = await it.home.responses.create(model="m", input="Hello", conversation=made.id)
        assert reply.id.startswith("resp_east_")
        assert (await conversations.delete(made.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await conversations.retrieve(made.id)
        one = f"/v1/conversations/{made.id}"
        assert [(method, path) for _, method, path in it.asked()] == [
            ("POST", "/v1/conversations"),
            ("GET", one),
            ("POST", one),
            ("GET", f"{one}/items?limit=7&order=asc"),
            ("POST", f"{one}/items"),
            ("GET", f"{one}/items/msg_1"),
            ("DELETE", f"{one}/items/msg_1"),
            ("DELETE", one),
            ("GET", one),
        ]
        if server is not None:
            assert {key for *_, key in it.upstreams[0].requests} == {"sk-upstream"}


@STORES
async def test_another_client_reaches_none_of_it(state: StateOptions) -> None:
    """Also after it has sent the id in a request of the API, and at another gateway."""
    async with scene("east", state=state, server=TWO_KEYS, api_key=Secret("sk-upstream")) as it:
        made = (await it.home.conversations.create()).id
        other = it.home.with_options(api_key="second-client")
        await other.responses.create(model="m", input="Hello", conversation=made)
        asked = it.asked()
        for client in (other, it.away):
            conversations = client.conversations
            for call in (
                conversations.retrieve(made),
                conversations.update(made, metadata={"user": "me"}),
                conversations.items.create(made, items=[MESSAGE]),
                conversations.items.retrieve("msg_1", conversation_id=made),
                conversations.items.delete("msg_1", conversation_id=made),
                conversations.delete(made),
            ):
                with pytest.raises(openai.NotFoundError, match=r"not found\. .* configure \[store\]"):
                    await call
        assert it.asked() == asked
        assert (await it.home.conversations.retrieve(made)).id == made


@STORES
@pytest.mark.parametrize("server", [None, Server(keys=(Secret("first-client"),))], ids=["without-keys", "one-key"])
async def test_one_of_another_gateway_is_found(server: Server | None, state: StateOptions) -> None:
    async with scene("east", state=state, server=server) as it:
        made = (await it.home.conversations.create()).id
        assert (await it.away.conversations.update(made, metadata={"user": "43"})).metadata == {"user": "43"}
        assert (await it.away.conversations.delete(made)).deleted


async def test_clients_with_keys_of_their_own_there_are_separated_by_the_upstream() -> None:
    async with scene("east", "west", state=OFF, auth=Auth.PASSTHROUGH, per_key=True) as it:
        it.upstreams[1].conversations["conv_west_0"] = {}
        it.upstreams[1]._known.add(("first-client", "conv_west_0"))
        with pytest.raises(openai.NotFoundError):
            await it.away.with_options(api_key="second-client").conversations.retrieve("conv_west_0")
        assert (await it.away.conversations.retrieve("conv_west_0")).id == "conv_west_0"


@STORES
async def test_several_providers_are_an_error_that_names_the_setting(state: StateOptions) -> None:
    async with scene("east", "west", state=state) as it:
        with pytest.raises(openai.BadRequestError, match=r"one of several providers \(.*state = .*gateway"):
            await it.home.conversations.create()
        assert it.asked() == []


async def test_the_gateway_keeps_them_where_a_provider_needs_that() -> None:
    def change(provider: Provider) -> Provider:
        return replace(provider, state="gateway") if provider.name == "west" else provider

    async with scene("east", "west", state=StateOptions(), change=change) as it:
        made = await it.home.conversations.create(items=[MESSAGE])
        assert len((await it.home.conversations.items.list(made.id)).data) == 1
        reply = await it.home.responses.create(model="west", input="Hello", conversation=made.id)
        assert len((await it.home.conversations.items.list(made.id)).data) == 3
        assert it.asked() == []
        # A provider that keeps its own does not know it.
        for field, given in (("conversation", made.id), ("previous_response_id", reply.id)):
            with pytest.raises(openai.BadRequestError, match=r'providers\.east\.state = "gateway"') as refused:
                await it.home.responses.create(model="east", input="Hello", **{field: given})
            assert refused.value.param == field
        with pytest.raises(openai.APIStatusError, match="not found"):
            await it.home.responses.create(model="east", input="Hello", conversation="conv_of_no_one")


async def test_a_failure_of_the_provider_is_its_client_s() -> None:
    async with scene("east", state=OFF, api_key=Secret("sk-upstream")) as it:
        it.upstreams[0].fails[:] = [500]
        with pytest.raises(openai.InternalServerError, match="try again") as refused:
            await it.home.conversations.create()
        assert "sk-upstream" not in str(refused.value)
        created = await it.home.conversations.create()
        with pytest.raises(openai.NotFoundError):
            await it.home.conversations.retrieve("conv_" + "x" * 5000)
        with pytest.raises(openai.NotFoundError):
            await it.home.conversations.items.retrieve("msg_1%2F..%2F..", conversation_id=created.id)
        assert len(it.asked()) == 2


async def test_without_a_provider_that_keeps_them_the_error_names_the_setting() -> None:
    def change(provider: Provider) -> Provider:
        return replace(provider, dialect=Dialect.CHAT)

    async with scene("east", state=OFF, change=change) as it:
        for call in (it.home.conversations.create(), it.home.conversations.retrieve("conv_1")):
            with pytest.raises(openai.NotFoundError, match=r"this gateway keeps no conversations; .* state\.kind"):
                await call
