"""Fallbacks, outages and shared pauses with gateways and upstreams as processes of their own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from support.commands import command, environment
from support.exposed import read_exposition, total
from support.forks import Fork, fork
from support.gateways import MESSAGES
from support.named_keys import made
from support.samples import PATHS, dump, request


class Simulator:
    """The simulated upstream as a process. After `kill`, connections to its port are refused."""

    def __init__(self, process: Fork, url: str) -> None:
        self.process = process
        self.url = url

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def simulator(*options: str, port: int = 0) -> AsyncIterator[Simulator]:
    process = await fork(
        *("--port", str(port), *options),
        module="dragoman_server.simulator",
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
        found = re.search(r"http://\S+", line)
        assert found is not None, line
        yield Simulator(process, found[0])
    finally:
        process.kill()
        await process.communicate()


def file_of(tmp_path: Path, first: str, second: str, more: str = "") -> str:
    path = tmp_path / f"gateway{len(list(tmp_path.iterdir()))}.toml"
    path.write_text(
        f"""
[providers.first]
dialect = "messages"
base_url = "{first}"

[providers.second]
dialect = "chat"
base_url = "{second}/v1"

[[routes]]
model = "*"
providers = ["first", "second"]
{more}
"""
    )
    return str(path)


@asynccontextmanager
async def serving(file: str) -> AsyncIterator[str]:
    async with command("serve", file, "--port", "0") as running:
        found = await running.writes(r"dragoman listens on (http://\S+)")
        yield found[1]
        running.process.terminate()
        await running.ends()


async def ask(session: aiohttp.ClientSession, url: str, model: str = "sim-text", **headers: str) -> tuple[int, bytes]:
    body = dump(request(MESSAGES, model=model, stream=True))
    sent = {"content-type": "application/json", **headers}
    async with asyncio.timeout(60), session.post(url + PATHS[MESSAGES], data=body, headers=sent) as response:
        return response.status, await response.read()


async def metric(session: aiohttp.ClientSession, url: str, name: str, key: str = "", **labels: str) -> float:
    async with session.get(f"{url}/metrics", headers={"x-api-key": key} if key else {}) as page:
        return total(read_exposition(await page.read()), name, **labels)


ATTEMPTS, BREAKERS = "dragoman_upstream_attempts_total", "dragoman_breakers_open"


async def test_a_killed_provider_is_replaced_and_used_again_when_it_is_back(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(simulator())
        second = await stack.enter_async_context(simulator())
        file = file_of(tmp_path, first.url, second.url, "[retries]\ncooldown = 0.5\ncooldown_max = 0.5\n")
        url = await stack.enter_async_context(serving(file))
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def good() -> None:
            status, body = await ask(session, url)
            assert status == 200
            assert b"message_stop" in body
            assert b"event: error" not in body

        await good()
        assert await metric(session, url, ATTEMPTS, provider="second") == 0
        await first.kill()
        for _ in range(8):
            await good()
        assert await metric(session, url, BREAKERS, provider="first") == 1
        assert await metric(session, url, ATTEMPTS, provider="second", outcome="answered") == 8
        refused = await metric(session, url, ATTEMPTS, provider="first", outcome="unreachable")
        assert refused >= 5
        port = int(first.url.rpartition(":")[2])
        await stack.enter_async_context(simulator(port=port))
        async with asyncio.timeout(30):
            while await metric(session, url, BREAKERS, provider="first"):
                await good()
                await asyncio.sleep(0.05)
        before = await metric(session, url, ATTEMPTS, provider="second")
        await good()
        assert await metric(session, url, ATTEMPTS, provider="second") == before


async def test_a_provider_that_is_killed_in_a_stream_ends_it_in_band(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(simulator("--pace", "0.2"))
        second = await stack.enter_async_context(simulator())
        url = await stack.enter_async_context(serving(file_of(tmp_path, first.url, second.url)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        body = dump(request(MESSAGES, model="sim-text", stream=True))
        async with asyncio.timeout(60), session.post(url + PATHS[MESSAGES], data=body) as response:
            begun = await response.content.readuntil(b"\n\n")
            await first.kill()
            rest = await response.read()
        assert begun.startswith(b"event: message_start")
        assert b"event: error" in rest
        assert rest.count(b"message_start") == 0
        assert await metric(session, url, ATTEMPTS, provider="second") == 0


@pytest.mark.parametrize("failures", [0, 5], ids=["budget only", "with breakers"])
async def test_an_outage_of_all_providers_is_not_multiplied(tmp_path: Path, failures: int) -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(simulator()) for _ in range(2)]
        first, second = servers
        file = file_of(tmp_path, first.url, second.url, f"[retries]\nfailures = {failures}\n")
        url = await stack.enter_async_context(serving(file))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        for server in servers:
            await server.kill()
        clients, each = 6, 20

        async def crowd() -> None:
            for _ in range(each):
                status, body = await ask(session, url)
                assert status in (502, 529), body

        await asyncio.gather(*(crowd() for _ in range(clients)))
        sent = await metric(session, url, ATTEMPTS)
        assert 0 < sent <= 1.2 * clients * each
        if failures:
            assert sent < clients * each


async def test_gateways_with_one_store_share_pauses(tmp_path: Path) -> None:
    key, record = made(requests_per_minute=1000)
    more = f"""
[keys.alice]
hash = "{record.hash}"
admin = true
requests_per_minute = 1000

[store]
kind = "sqlite"
path = "{tmp_path / "store.db"}"

[retries]
cooldown = 60
"""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(simulator())
        second = await stack.enter_async_context(simulator())
        file = file_of(tmp_path, first.url, second.url, more)
        urls = [await stack.enter_async_context(serving(file)) for _ in range(2)]
        session = await stack.enter_async_context(aiohttp.ClientSession())
        await first.kill()
        for _ in range(6):
            assert (await ask(session, urls[0], **{"x-api-key": key}))[0] == 200
        for _ in range(600):
            if await metric(session, urls[1], BREAKERS, key, provider="first"):
                break
            await asyncio.sleep(0.05)
        assert (await ask(session, urls[1], **{"x-api-key": key}))[0] == 200
        assert await metric(session, urls[1], ATTEMPTS, key, provider="first") == 0
