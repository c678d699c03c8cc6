"""Each feature with one worker, with several, and with two hosts behind haproxy: docs/reference/several-processes.md.

Each setup is started once. Each request has a connection of its own, which any process may accept.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import httpx2
import openai
import pytest

from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows
from dragoman_server.simulator import make_simulator
from dragoman_server.simulator.ledger import Ledger
from generators.shared_features import FEATURES, SETUPS
from support.commands import command, run
from support.fleet import fleet
from support.gateways import served
from support.haproxy import haproxy, placed, recipe
from support.named_keys import made
from support.paths import ROOT
from support.redis_server import redis_server
from support.waiting import PATIENCE, until, until_true
from support.websockets import speaking, text_of

CONFIG = """
[models]
unknown = "pass"
discover = false

[providers.up]
dialect = "chat"
base_url = "{url}/v1"

[server.resume]
seconds = 60

[usage]
kind = "jsonl"
path = "${{USAGE}}"

[store]
timeout = 10
{store}

[state]
timeout = 30
{state}

[keys.main]
hash = "{main}"
admin = true

[keys.limited]
hash = "{limited}"
concurrent_requests = 3
"""
RESUME = "x-dragoman-resume"
STALLED = "sim-stall"
"""A model whose replies do not end by themselves."""


@dataclass
class Gateway:
    """A gateway of some hosts with some workers each. Clients use `url`, which is the balancer's if there is one."""

    name: str
    url: str
    hosts: list[str]
    config: Path
    usage: list[Path]
    keys: dict[str, str]
    ledger: Ledger
    session: aiohttp.ClientSession
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.keys['main']}"}

    def sdk(self, key: str = "main") -> openai.AsyncOpenAI:
        """The official SDK, which opens a connection for each request."""
        client = httpx2.AsyncClient(limits=httpx2.Limits(max_keepalive_connections=0), timeout=60)
        return openai.AsyncOpenAI(
            base_url=f"{self.url}/v1", api_key=self.keys.get(key, key), http_client=client, max_retries=0
        )

    def claude(self) -> anthropic.AsyncAnthropic:
        """Anthropic's SDK, likewise."""
        client = httpx2.AsyncClient(limits=httpx2.Limits(max_keepalive_connections=0), timeout=60)
        return anthropic.AsyncAnthropic(base_url=self.url, api_key=self.keys["main"], http_client=client, max_retries=0)

    def model(self, script: str) -> str:
        """A model that no other exchange uses."""
        return f"{script}-n{next(self.numbers)}"

    async def get(self, path: str, host: str | None = None) -> tuple[int, bytes]:
        async with self.session.get((host or self.url) + path, headers=self.headers) as response:
            return response.status, await response.read()


async def ended(sdk: openai.AsyncOpenAI, response_id: str) -> Any:
    """A response, once it has ended. It is known at any time."""
    found: Any = None

    async def has_ended() -> bool:
        nonlocal found
        found = await sdk.responses.retrieve(response_id)
        return found.status not in ("queued", "in_progress")

    await until_true(has_ended)
    return found


# --- a function for each feature --------------------------------------------------------------------------------------


async def stored_responses(gateway: Gateway) -> None:
    async with gateway.sdk() as sdk:
        first = await sdk.responses.create(model=gateway.model("sim-text"), input="one")
        second = await sdk.responses.create(model=gateway.model("sim-text"), input="two", previous_response_id=first.id)
        third = await sdk.responses.create(
            model=gateway.model("sim-text"), input="three", previous_response_id=second.id
        )
        for each in (first, second, third, first, second, third):
            assert (await sdk.responses.retrieve(each.id)).output_text == each.output_text
        items = [item async for item in sdk.responses.input_items.list(third.id, order="asc")]
        assert len(items) == 5
        await sdk.responses.delete(third.id)
        for _ in range(4):
            with pytest.raises(openai.NotFoundError):
                await sdk.responses.retrieve(third.id)


async def conversations(gateway: Gateway) -> None:
    async with gateway.sdk() as sdk:
        conversation = await sdk.conversations.create(metadata={"step": "0"})
        for number in range(3):
            await sdk.responses.create(
                model=gateway.model("sim-text"), input=f"turn {number}", conversation=conversation.id
            )
            await sdk.conversations.update(conversation.id, metadata={"step": str(number)})
            found = await sdk.conversations.retrieve(conversation.id)
            assert found.metadata == {"step": str(number)}
            items = [item async for item in sdk.conversations.items.list(conversation.id)]
            assert len(items) == 2 * (number + 1)
        await sdk.conversations.delete(conversation.id)
        for _ in range(4):
            with pytest.raises(openai.NotFoundError):
                await sdk.conversations.retrieve(conversation.id)


async def background(gateway: Gateway) -> None:
    async with gateway.sdk() as sdk:
        polled = await sdk.responses.create(model=gateway.model("sim-text"), input="Hi", background=True)
        stalled = await sdk.responses.create(model=gateway.model(STALLED), input="Hi", background=True)
        for _ in range(4):  # at once, and at any process
            assert (await sdk.responses.retrieve(stalled.id)).status in ("queued", "in_progress")
        assert (await ended(sdk, polled.id)).status == "completed"
        followed = await sdk.responses.create(
            model=gateway.model("sim-agent"), input="Hi", background=True, stream=True
        )
        response_id = (await anext(followed)).response.id  # type: ignore[union-attr]  # `response.created`
        await followed.close()
        events = [event async for event in await sdk.responses.retrieve(response_id, stream=True)]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert events[-1].type == "response.completed"
        for _ in range(2):
            assert (await sdk.responses.cancel(stalled.id)).status == "cancelled"
            assert (await sdk.responses.retrieve(stalled.id)).status == "cancelled"


async def events_after_each(gateway: Gateway) -> None:
    async with gateway.sdk() as sdk:
        stream = await sdk.responses.create(model=gateway.model("sim-text"), input="Hi", background=True, stream=True)
        first = await anext(stream)
        response_id = first.response.id  # type: ignore[union-attr]  # `response.created`
        await stream.close()
        seen = [first]
        while seen[-1].type != "response.completed":
            stream = await sdk.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number)
            seen.append(await anext(stream))
            await stream.close()
        assert [event.sequence_number for event in seen] == list(range(len(seen)))
        assert seen[-1].response.output_text == (await ended(sdk, response_id)).output_text


async def resumed_streams(gateway: Gateway) -> None:
    body = {"model": gateway.model("sim-text"), "stream": True, "messages": [{"role": "user", "content": "Hi"}]}

    @asynccontextmanager
    async def at(position: str) -> AsyncIterator[aiohttp.ClientResponse]:
        url, headers = f"{gateway.url}/v1/chat/completions", {**gateway.headers, RESUME: position}
        async with gateway.session.post(url, json=body, headers=headers) as response:
            assert response.status == 200, await response.text()
            yield response

    async with at("true") as response:
        stream_id = response.headers[RESUME]
        frames = [await response.content.readuntil(b"\n\n")]
    while b"[DONE]" not in frames[-1]:
        async with at(f"{stream_id}.{len(frames) - 1}") as response:
            frames.append(await response.content.readuntil(b"\n\n"))
    ids = [frame.rpartition(b"id: ")[2].strip().decode() for frame in frames]
    assert ids == [f"{stream_id}.{number}" for number in range(len(frames))]


async def websocket(gateway: Gateway) -> None:
    previous: str | None = None
    for number in range(4):
        async with speaking(gateway.url, headers=gateway.headers) as client:
            fields = {"previous_response_id": previous} if previous is not None else {}
            events = await client.turn(model=gateway.model("sim-text"), input=f"turn {number}", store=True, **fields)
        assert events[-1]["type"] == "response.completed", events[-1]
        assert text_of(events)
        previous = events[-1]["response"]["id"]
    async with gateway.sdk() as sdk:
        assert previous is not None
        assert len([item async for item in sdk.responses.input_items.list(previous)]) == 7


async def receipts(gateway: Gateway) -> None:
    for _ in range(4):
        async with gateway.claude() as claude:
            message = {"role": "user", "content": "Hi"}
            reply = await claude.messages.with_raw_response.create(
                model=gateway.model("sim-text"),
                max_tokens=100,
                messages=[message],  # type: ignore[list-item]
            )
        path = f"/v1/dragoman/receipts/{reply.headers['x-dragoman-request-id']}"
        async with asyncio.timeout(PATIENCE):  # it is written a moment after the reply
            for host in gateway.hosts:
                while (await gateway.get(path, host))[0] != 200:  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(0.02)
        found = Counter([(await gateway.get(path, host))[0] for host in gateway.hosts for _ in range(3)])
        assert found == {200: 3 * len(gateway.hosts)}


async def keys(gateway: Gateway) -> None:
    async def manage(*words: str) -> str:
        status, output, err = await run("keys", *words, "-c", str(gateway.config), USAGE=str(gateway.usage[0]))
        assert status == 0, err
        return output

    async def accepted_everywhere() -> bool:
        return await _statuses(gateway, key) == {200}

    async def refused_everywhere() -> bool:
        return await _statuses(gateway, key) == {401}

    key = next(word for word in (await manage("add", "later")).split() if word.startswith("sk-dragoman-"))
    await until_true(accepted_everywhere)
    await manage("revoke", "later")
    await until_true(refused_everywhere)
    assert await _statuses(gateway, gateway.keys["main"]) == {200}


async def _statuses(gateway: Gateway, key: str) -> set[int]:
    """The statuses that several connections to each host get."""
    found = set()
    for host in [*gateway.hosts, gateway.url]:
        for _ in range(4):
            async with gateway.session.get(f"{host}/v1/models", headers={"x-api-key": key}) as response:
                found.add(response.status)
    return found


async def limits(gateway: Gateway) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    url, headers = f"{gateway.url}/v1/chat/completions", {"authorization": f"Bearer {gateway.keys['limited']}"}

    async def send(count: int, script: str, *, stream: bool) -> list[aiohttp.ClientResponse]:
        bodies = [{"model": gateway.model(script), "messages": messages, "stream": stream} for _ in range(count)]
        return await asyncio.gather(*(gateway.session.post(url, json=body, headers=headers) for body in bodies))

    async def all_places_are_free() -> bool:
        """True if no exchange of the key is open: a place is given back when its client has left."""
        responses = await send(3, "sim-text", stream=False)
        for response in responses:
            await response.read()
        return [response.status for response in responses] == [200] * 3

    for _ in range(2):
        responses = await send(9, STALLED, stream=True)
        assert Counter(response.status for response in responses) == {200: 3, 429: 6}
        for response in responses:
            response.close()
        await until_true(all_places_are_free)


async def usage(gateway: Gateway) -> None:
    """Without the exchanges that a test has left: the simulator's ledger has their whole replies."""
    sent = {entry.model: entry.generated for entry in gateway.ledger.entries if STALLED not in entry.model}

    def rows() -> dict[str, Any]:
        found = [row for path in gateway.usage for row in read_rows(UsageOptions("jsonl", str(path)))]
        assert len({row["id"] for row in found}) == len(found), "an exchange was booked twice"
        return {row["upstream_model"]: row for row in found if row["upstream_model"] in sent}

    await until(lambda: rows().keys() == sent.keys())
    booked = rows()
    assert len(sent) > 20
    for name, count in (("input", "input"), ("output", "output")):
        total = sum(getattr(counts, count) for counts in sent.values())
        assert sum(row[name] for row in booked.values()) == total, name


CHECKS: dict[str, Callable[[Gateway], Awaitable[None]]] = {
    check.__name__: check
    for check in (
        stored_responses,
        conversations,
        background,
        events_after_each,
        resumed_streams,
        websocket,
        receipts,
        keys,
        limits,
        usage,
    )
}


# --- the setups -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def started(setup: str, folder: Path) -> AsyncIterator[Gateway]:
    ledger = Ledger()
    main, limited = made("main"), made("limited")
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(served(make_simulator(ledger=ledger)))
        shared = ExitStack()
        stack.push(lambda *_: shared.close())
        if setup == SETUPS[2]:
            redis = shared.enter_context(redis_server())
            store = state = f'kind = "redis"\nurl = "{redis.url}"'
        else:
            store = f'kind = "sqlite"\npath = "{folder}/keys.db"'
            state = f'kind = "sqlite"\npath = "{folder}/responses.db"' if setup == SETUPS[1] else 'kind = "memory"'
        config = folder / "dragoman.toml"
        hashes = {"main": main[1].hash, "limited": limited[1].hash}
        await asyncio.to_thread(config.write_text, CONFIG.format(url=url, store=store, state=state, **hashes))
        files = [folder / f"usage-{number}.jsonl" for number in range(2 if setup == SETUPS[2] else 1)]
        hosts = []
        for file in files:
            if setup == SETUPS[0]:
                running = await stack.enter_async_context(command("serve", str(config), "--port", "0", USAGE=str(file)))
                hosts.append((await running.writes(r"dragoman listens on (http://\S+)"))[1])
            else:
                up = await stack.enter_async_context(fleet(str(config), workers=2, env={"USAGE": str(file)}))
                hosts.append(up.url)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True, limit=0), timeout=aiohttp.ClientTimeout(60)
            )
        )
        entrance = hosts[0]
        if setup == SETUPS[2]:
            text = await asyncio.to_thread(recipe, ROOT / "docs/howto/behind-a-balancer.md", "haproxy")
            addresses = {f"10.0.0.{number}:8080": host.removeprefix("http://") for number, host in enumerate(hosts, 1)}
            bind = ":443 ssl crt /etc/haproxy/llm.pem alpn h2,http/1.1"
            port = await stack.enter_async_context(haproxy(folder, placed(text, addresses), bind))
            entrance = f"http://127.0.0.1:{port}"
        yield Gateway(setup, entrance, hosts, config, files, {"main": main[0], "limited": limited[0]}, ledger, session)


def test_each_row_has_a_check() -> None:
    assert [each.check for each in FEATURES] == list(CHECKS)


@pytest.mark.whole
@pytest.mark.parametrize("setup", SETUPS)
async def test_each_feature_works_as_the_page_states(setup: str, tmp_path: Path) -> None:
    async with started(setup, tmp_path) as gateway:
        for feature in FEATURES:
            print(setup, feature.check)  # shown if it fails
            await CHECKS[feature.check](gateway)
