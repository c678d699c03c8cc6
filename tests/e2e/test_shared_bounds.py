"""Two gateway processes with one store: the bounds of a provider, the retry budget, and who issued a response."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dragoman.dialects import Dialect
from support.commands import Command, command
from support.gateways import served
from support.issuing_upstreams import IssuingUpstream
from support.redis_server import RedisServer, redis_server
from support.samples import PATHS, dump, reply, request
from support.waiting import until, until_true

pytestmark = pytest.mark.turns  # a test starts two gateways or more

CHAT = Dialect.CHAT
KINDS = pytest.mark.parametrize("kind", ["redis", "sqlite"])
BOUNDED = """
[models]
discover = false
[store]
{store}
keys = false
timeout = 5
[retries]
attempts = {attempts}
backoff = 0.001
failures = 0
budget = {budget}
budget_min = 3
[providers.up]
dialect = "chat"
base_url = "{url}/v1"
concurrent = {concurrent}
queue = {queue}
queue_seconds = 60
[[routes]]
model = "*"
provider = "up"
"""


@dataclass
class Upstream:
    """Answers at once, or when the test lets it, and counts. With `fails`, it answers each request with a 500."""

    holds: bool = False
    fails: bool = False
    count: int = 0
    open: list[asyncio.Event] = field(default_factory=list)
    most: int = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        return app

    def release(self, number: int = 1) -> None:
        for each in self.open[:number]:
            each.set()

    async def _answer(self, request: web.Request) -> web.Response:
        await request.read()
        self.count += 1
        self.open.append(event := asyncio.Event())
        self.most = max(self.most, len(self.open))
        try:
            if self.holds:
                await event.wait()
            else:
                await asyncio.sleep(0.01)
        finally:
            self.open.remove(event)
        if self.fails:
            return web.json_response({"error": {"message": "it fails", "type": "server_error"}}, status=500)
        return web.Response(body=dump(reply(CHAT)), content_type="application/json")


@dataclass
class Hosts:
    """Some gateway processes, and their upstream."""

    commands: list[Command]
    urls: list[str]
    session: aiohttp.ClientSession
    upstream: Upstream

    def ask(self, number: int) -> asyncio.Task[int]:
        """Send a request to a gateway. Returns the status of its reply."""

        async def run() -> int:
            url = self.urls[number % len(self.urls)] + PATHS[CHAT]
            headers = {"content-type": "application/json"}
            async with self.session.post(url, data=dump(request(CHAT)), headers=headers) as response:
                await response.read()
                return response.status

        return asyncio.create_task(run())

    async def ready(self, number: int) -> Any:
        async with self.session.get(f"{self.urls[number]}/ready") as response:
            return await response.json()


@contextmanager
def store_of(kind: str, folder: Path) -> Iterator[tuple[str, RedisServer | None]]:
    """The table `[store]` of a kind, and its server."""
    if kind == "sqlite":
        yield f'kind = "sqlite"\npath = "{folder}/limits.db"', None
        return
    with redis_server() as redis:
        yield f'kind = "redis"\nurl = "{redis.url}"', redis


@asynccontextmanager
async def hosts(text: str, folder: Path, upstream: Upstream, number: int = 2) -> AsyncIterator[Hosts]:
    """Gateway processes with this configuration."""
    path = folder / "dragoman.toml"
    await asyncio.to_thread(path.write_text, text)
    async with AsyncExitStack() as stack:
        commands = [await stack.enter_async_context(command("serve", "--port", "0", str(path))) for _ in range(number)]
        urls = [(await each.writes(r"dragoman listens on (http://\S+)"))[1] for each in commands]
        timeout, connector = aiohttp.ClientTimeout(120), aiohttp.TCPConnector(limit=0)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout, connector=connector))
        yield Hosts(commands, urls, session, upstream)


@asynccontextmanager
async def bounded(
    kind: str, folder: Path, *, concurrent: int = 0, queue: int = 0, attempts: int = 1, budget: float = 0.2
) -> AsyncIterator[Hosts]:
    """Two gateway processes with a bounded provider and one store."""
    upstream = Upstream()
    async with served(upstream.app()) as (url, _):
        with store_of(kind, folder) as (store, _):
            text = BOUNDED.format(
                store=store, url=url, concurrent=concurrent, queue=queue, attempts=attempts, budget=budget
            )
            async with hosts(text, folder, upstream) as found:
                yield found


@KINDS
async def test_the_upstream_never_has_more_than_the_bound(kind: str, tmp_path: Path) -> None:
    async with bounded(kind, tmp_path, concurrent=4, queue=100) as up:
        statuses = await asyncio.gather(*(up.ask(number) for number in range(80)))
        assert Counter(statuses) == {200: 80}
        assert up.upstream.most == 4
        assert up.upstream.count == 80


@KINDS
async def test_a_place_is_used_by_whichever_process_waits(kind: str, tmp_path: Path) -> None:
    async with bounded(kind, tmp_path, concurrent=1, queue=4) as up:
        up.upstream.holds = True
        asked = [up.ask(0)]
        await until(lambda: len(up.upstream.open) == 1)
        asked += [up.ask(number) for number in (1, 0, 1)]
        for number in range(4):
            await until(lambda at=number: up.upstream.count == at + 1 and len(up.upstream.open) == 1)  # type: ignore[misc]
            up.upstream.release()
        assert await asyncio.gather(*asked) == [200] * 4
        assert up.upstream.most == 1


@KINDS
async def test_the_queue_is_one_for_all(kind: str, tmp_path: Path) -> None:
    async with bounded(kind, tmp_path, concurrent=1, queue=2) as up:
        up.upstream.holds = True
        asked = [up.ask(0)]
        await until(lambda: len(up.upstream.open) == 1)
        asked += [up.ask(number) for number in (0, 1, 0, 1, 0, 1)]
        await until(lambda: sum(each.done() for each in asked) == 4)
        assert [each.result() for each in asked if each.done()] == [503] * 4
        up.upstream.holds = False
        up.upstream.release()
        assert sorted(await asyncio.gather(*asked)) == [200] * 3 + [503] * 4
        assert up.upstream.most == 1


@KINDS
async def test_without_a_queue_the_bound_is_one_for_all(kind: str, tmp_path: Path) -> None:
    async with bounded(kind, tmp_path, concurrent=1) as up:
        up.upstream.holds = True
        first = up.ask(0)
        await until(lambda: len(up.upstream.open) == 1)
        assert await up.ask(1) == 503
        up.upstream.release()
        assert await first == 200
        up.upstream.holds = False

        async def answered() -> bool:
            return await up.ask(1) == 200

        await until_true(answered)
        assert up.upstream.most == 1


@KINDS
async def test_the_places_of_a_killed_process_return(kind: str, tmp_path: Path) -> None:
    async with bounded(kind, tmp_path, concurrent=2, queue=10) as up:
        up.upstream.holds = True
        lost = [up.ask(0), up.ask(0)]
        await until(lambda: len(up.upstream.open) == 2)
        waiting = [up.ask(1), up.ask(1)]
        up.commands[0].process.send_signal(signal.SIGKILL)
        await until(lambda: up.upstream.count == 4)
        up.upstream.release(2)
        assert await asyncio.gather(*waiting) == [200, 200]
        assert up.upstream.most == 2
        for each in lost:
            with pytest.raises(aiohttp.ClientError):
                await each


@KINDS
async def test_the_retry_budget_is_one_for_all(kind: str, tmp_path: Path) -> None:
    async with bounded(kind, tmp_path, attempts=4, budget=0.0) as up:
        up.upstream.fails = True
        statuses = await asyncio.gather(*(up.ask(number) for number in range(20)))
        assert set(statuses) == {500}
        assert up.upstream.count == 20 + 3


async def test_while_the_store_is_away_each_process_has_its_part(tmp_path: Path) -> None:
    upstream = Upstream()
    async with served(upstream.app()) as (url, _):
        with redis_server() as redis:
            store = f'kind = "redis"\nurl = "{redis.url}"'
            text = BOUNDED.format(store=store, url=url, concurrent=4, queue=4, attempts=1, budget=0.2)
            async with hosts(text, tmp_path, upstream) as up:
                assert (await up.ready(0))["warnings"] == []
                # Each knows of the other one once that has called.
                assert [await up.ask(number) for number in (0, 1, 0)] == [200] * 3
                upstream.holds = True
                await asyncio.to_thread(redis.kill)

                async def reported(warnings: list[str]) -> bool:
                    return [(await up.ready(number))["warnings"] for number in (0, 1)] == [warnings] * 2

                await until_true(lambda: reported(["bounds_not_shared"]))
                for each in up.commands:
                    await each.writes(r"ERROR .*the store does not share the bounds of providers; .*1/2: Redis: ")
                asked = [up.ask(number) for number in range(12)]
                await until(lambda: sum(each.done() for each in asked) == 4)
                assert [each.result() for each in asked if each.done()] == [503] * 4
                await until(lambda: len(upstream.open) == 4)
                await asyncio.to_thread(redis.start)
                await until_true(lambda: reported([]))
                upstream.holds = False
                upstream.release(4)
                assert sorted(await asyncio.gather(*asked)) == [200] * 8 + [503] * 4
                assert upstream.most == 4


@KINDS
async def test_a_request_without_room_goes_to_the_next_provider(kind: str, tmp_path: Path) -> None:
    first, second = Upstream(holds=True), Upstream()
    async with served(first.app()) as (one, _), served(second.app()) as (two, _):
        with store_of(kind, tmp_path) as (store, _):
            text = BOUNDED.format(store=store, url=one, concurrent=1, queue=0, attempts=2, budget=0.2)
            text = text.replace('provider = "up"', 'providers = ["up", "next"]')
            text += f'[providers.next]\ndialect = "chat"\nbase_url = "{two}/v1"\n'
            async with hosts(text, tmp_path, first) as up:
                held = up.ask(0)
                await until(lambda: len(first.open) == 1)
                # The other process learns from the store that there is no place.
                assert await asyncio.gather(*(up.ask(1) for _ in range(5))) == [200] * 5
                assert (first.count, second.count) == (1, 5)
                first.release()
                assert await held == 200


CONTINUED = """
[models]
discover = false
[store]
{store}
keys = false
timeout = 5
[providers.east]
dialect = "responses"
base_url = "{east}/v1"
[providers.west]
dialect = "responses"
base_url = "{west}/v1"
[[routes]]
model = "*"
balance = "weighted"
providers = [{{ provider = "east", priority = 1 }}, {{ provider = "west", priority = 1 }}]
"""


@asynccontextmanager
async def two_upstreams(kind: str, folder: Path) -> AsyncIterator[tuple[Hosts, list[IssuingUpstream]]]:
    """Two gateway processes with two Responses providers, which know their own responses only."""
    east, west = IssuingUpstream("east"), IssuingUpstream("west")
    async with served(east.app) as (one, _), served(west.app) as (two, _):
        with store_of(kind, folder) as (store, _):
            async with hosts(CONTINUED.format(store=store, east=one, west=two), folder, Upstream()) as up:
                yield up, [east, west]


async def create(up: Hosts, number: int, **fields: Any) -> tuple[int, Any]:
    body = {"model": "m", "input": "Hi", **fields}
    async with up.session.post(f"{up.urls[number]}/v1/responses", json=body) as response:
        if fields.get("stream"):
            text = await response.text()
            made = text.partition('"id":"')[2].partition('"')[0]
            return response.status, {"id": made}
        return response.status, await response.json()


@KINDS
async def test_a_response_is_continued_on_any_host(kind: str, tmp_path: Path) -> None:
    chance = random.Random(40)
    async with two_upstreams(kind, tmp_path) as (up, (east, west)):
        statuses = Counter[int]()
        for at in range(40):
            status, made = await create(up, at % 2, stream=chance.random() < 0.5)
            assert status == 200
            more = {"stream": True} if chance.random() < 0.5 else {}
            statuses[(await create(up, (at + 1) % 2, previous_response_id=made["id"], **more))[0]] += 1
        assert statuses == {200: 40}
        assert east.asked
        assert west.asked


@KINDS
async def test_a_response_and_a_conversation_are_known_on_the_other_host(kind: str, tmp_path: Path) -> None:
    async with two_upstreams(kind, tmp_path) as (up, upstreams):
        for each in upstreams:
            conversation = f"conv_{each.name}"
            # The client knows which provider has its conversation as soon as a request in it was answered.
            statuses = [(await create(up, 0, conversation=conversation))[0]]
            while statuses[-1] != 200:
                statuses.append((await create(up, 0, conversation=conversation))[0])
            assert [(await create(up, 1, conversation={"id": conversation}))[0] for _ in range(5)] == [200] * 5
        _, made = await create(up, 0)
        one = f"{up.urls[1]}/v1/responses/{made['id']}"
        async with up.session.get(one) as response:
            assert (response.status, (await response.json())["id"]) == (200, made["id"])
        async with up.session.post(f"{one}/cancel") as response:
            assert (response.status, (await response.json())["status"]) == (200, "cancelled")
        async with up.session.delete(one) as response:
            assert (response.status, (await response.json())["deleted"]) == (200, True)
