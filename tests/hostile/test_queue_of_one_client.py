"""One client fills the places and the queue of a provider: another one still gets its turn."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config
from support.gateways import gate, until
from support.named_keys import made, with_keys
from support.samples import dump, reply
from support.sockets import ScriptedServer, Wait, answer

CHAT = Dialect.CHAT


@pytest.mark.parametrize("others", [1, 2])
async def test_a_full_queue_has_room_for_another_client(others: int) -> None:
    release, queue = asyncio.Event(), 4
    keys = [made(f"client-{number}") for number in range(1 + others)]
    async with ScriptedServer([Wait(release), *answer(200, dump(reply(CHAT)))]) as server:
        provider = Provider("up", CHAT, server.url, concurrent=1, queue=queue, queue_seconds=20)
        config = Config(providers={"up": provider}, routes=[Route("*", targets=(RouteTarget("up"),), attempts=1)])
        async with gate(with_keys(config, *(record for _, record in keys))) as entrance:
            slots = entrance.gateway.services.routing.of(provider).slots

            async def ask(client: int) -> int:
                headers = {"authorization": f"Bearer {keys[client][0]}"}
                async with entrance.post(CHAT, headers=headers) as response:
                    await response.read()
                    return int(response.status)

            attack: list[asyncio.Task[int]] = []
            while len(attack) < 1 + queue:
                attack.append(asyncio.create_task(ask(0)))
                await until(lambda: slots.taken + slots.waiting == len(attack))
            assert await ask(0) == 503
            asked = [asyncio.create_task(ask(1 + number)) for number in range(others)]
            for task in reversed(attack[-others:]):
                assert await task == 503, "the attacker's last requests make room"
            release.set()
            assert await asyncio.gather(*asked) == [200] * others
            assert await asyncio.gather(*attack[:-others]) == [200] * (1 + queue - others)
            assert (slots.taken, slots.waiting) == (0, 0)
    print(f"{len(server.requests)} requests upstream, {others} of them of the other clients")
