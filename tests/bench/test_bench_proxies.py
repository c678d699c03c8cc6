"""The rig's own gateways, inside the test's loop: every delta and the end arrive in every direction they are for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from dragoman_bench.gateways import CROSS, SAME
from dragoman_bench.gateways.launch import free_port
from dragoman_bench.proxies import aiohttp_pass, aiohttp_translate, minimal_translator, relay
from dragoman_bench.proxies.serving import Place
from dragoman_bench.upstream import serve
from dragoman_bench.wire import MARK, PATHS, REPEATING, TERMINAL, Script, request

TRANSLATING = [
    (module, *direction) for module in (minimal_translator, aiohttp_translate) for direction in sorted(CROSS)
]
PASSING = [(module, *direction) for module in (relay, aiohttp_pass) for direction in sorted(SAME)]


@pytest.fixture
async def upstream() -> AsyncIterator[int]:
    """The simulator's port."""
    server, simulator = await serve()
    yield server.sockets[0].getsockname()[1]
    server.close()
    simulator.pacer.close()


async def talk(module: Any, upstream: int, client: str, dialect: str, *scripts: Script) -> list[bytes]:
    """The bodies of replies to one request after the other over one client connection."""
    place = Place(free_port(), f"http://127.0.0.1:{upstream}", "127.0.0.1", upstream, client, dialect)
    end = await module.begin(place)
    bodies = []
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1), timeout=aiohttp.ClientTimeout(total=30)
        ) as session:
            for script in scripts:
                body = request(client, script.model, stream=not script.whole)
                url = f"http://127.0.0.1:{place.port}{PATHS[client]}"
                async with session.post(url, data=body, headers={"content-type": "application/json"}) as answer:
                    assert answer.status == 200
                    assert answer.content_type == ("application/json" if script.whole else "text/event-stream")
                    bodies.append(await answer.read())
    finally:
        await end()
    return bodies


def marks(body: bytes) -> list[int]:
    """The numbers of the deltas, in order, each once."""
    repeated = REPEATING.search(body)
    deltas = body[: repeated.start()] if repeated else body
    return [int(number) % 10**6 for number, _, _ in MARK.findall(deltas)]


@pytest.mark.parametrize(("module", "client", "dialect"), TRANSLATING + PASSING)
async def test_deltas_and_end_arrive(module: Any, client: str, dialect: str, upstream: int) -> None:
    paced, blast, joined = Script(4, 1, 40), Script(30, 0, 40, 4), Script(5, 0, 40, joined=True)
    for script, body in zip(
        (paced, blast, joined), await talk(module, upstream, client, dialect, paced, blast, joined), strict=True
    ):
        first = marks(body)[0]
        assert marks(body) == [first + number for number in range(script.events)], script.model
        assert body.count(TERMINAL[client]) == 1 if client == "chat" else TERMINAL[client] in body


@pytest.mark.parametrize(("module", "client", "dialect"), TRANSLATING + PASSING)
async def test_whole_replies_arrive(module: Any, client: str, dialect: str, upstream: int) -> None:
    script = Script(1, size=200, whole=True)
    first, second = await talk(module, upstream, client, dialect, script, script)
    reply = json.loads(first)
    if client == "chat":
        text, used = reply["choices"][0]["message"]["content"], reply["usage"]["total_tokens"]
    else:
        blocks = reply["content"] if client == "messages" else reply["output"][0]["content"]
        text, used = blocks[0]["text"], reply["usage"]["input_tokens"] + reply["usage"]["output_tokens"]
    assert len(text) == 200
    assert used > 0
    assert len(second) == len(first)


@pytest.mark.parametrize("module", [relay, aiohttp_pass])
async def test_what_the_upstream_refuses_is_passed_on(module: Any, upstream: int) -> None:
    place = Place(free_port(), f"http://127.0.0.1:{upstream}", "127.0.0.1", upstream, "chat", "chat")
    end = await module.begin(place)
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{place.port}{PATHS['chat']}"
        async with session.post(url, data=request("chat", "no-such-model")) as answer:
            assert answer.status == 400
    await end()


async def test_without_an_upstream_the_relay_hangs_up() -> None:
    place = Place(free_port(), "", "127.0.0.1", free_port(), "chat", "chat")
    end = await relay.begin(place)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(f"http://127.0.0.1:{place.port}{PATHS['chat']}", data=b"{}")
    await end()
