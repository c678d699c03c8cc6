"""Responses in the background, and streams that are resumed, in other processes than those that began them."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp import web
from redis.asyncio import Redis

from support.commands import Command, command
from support.fleet import fleet
from support.gateways import served
from support.redis_server import redis_server
from support.samples import chat_frame
from support.thread_stores import KEY
from support.waiting import until, until_true

pytestmark = pytest.mark.turns  # a test starts two gateways or more

CONFIG = """
[models]
unknown = "pass"
discover = false

[providers.up]
dialect = "chat"
base_url = "{url}/v1"

[server.resume]
seconds = 60

[state]
timeout = 30
{state}

[usage]
kind = "jsonl"
path = "usage.jsonl"
"""
KINDS = pytest.mark.parametrize("kind", ["redis", "redis-encrypted", "sqlite"])
ENDED = ("completed", "failed", "cancelled", "incomplete")


@dataclass
class Upstream:
    """Sends a word of each open stream when the test requests it."""

    started: int = 0
    streams: list[asyncio.Queue[str]] = field(default_factory=list)
    left: int = 0
    """Streams whose client has left."""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        return app

    def send(self, text: str) -> None:
        """Send a word on each stream; "" is the end."""
        for each in self.streams:
            each.put_nowait(text)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.started += 1
        words: asyncio.Queue[str] = asyncio.Queue()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        self.streams.append(words)
        try:
            await response.write(chat_frame({"role": "assistant", "content": ""}))
            while text := await words.get():
                await response.write(chat_frame({"content": text}))
            await response.write(chat_frame({}, "stop") + b"data: [DONE]\n\n")
        except (ConnectionError, asyncio.CancelledError):
            self.left += 1
            raise
        return response


@dataclass
class Pair:
    """Two gateway processes that share a store, and their upstream."""

    commands: list[Command]
    urls: list[str]
    session: aiohttp.ClientSession
    upstream: Upstream
    usage: Path
    redis: Any = None
    """A connection of an operator."""

    def sdk(self, number: int) -> Any:
        """The official SDK, as a client of one of them."""
        return openai.AsyncOpenAI(base_url=f"{self.urls[number]}/v1", api_key="x", max_retries=0, timeout=60)

    def kill(self, number: int) -> None:
        """End one of them at once."""
        self.commands[number].process.send_signal(signal.SIGKILL)

    async def create(self, number: int, *, stream: bool = False) -> str:
        """Begin a response, and return its id. The client of a stream leaves."""
        body = {"model": "m", "input": "Hi", "background": True, "stream": stream}
        before = self.upstream.started
        async with self.session.post(f"{self.urls[number]}/v1/responses", json=body) as response:
            assert response.status == 200, await response.text()
            if stream:
                found = json.loads((await response.content.readuntil(b"\n\n")).partition(b"data: ")[2])["response"]
                response.close()
            else:
                found = await response.json()
        await until(lambda: self.upstream.started > before and len(self.upstream.streams) == self.upstream.started)
        return str(found["id"])

    async def get(self, number: int, response_id: str) -> Any:
        """The response, which must be known."""
        async with self.session.get(f"{self.urls[number]}/v1/responses/{response_id}") as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def knows(self, number: int, response_id: str) -> bool:
        """True if the response is known."""
        async with self.session.get(f"{self.urls[number]}/v1/responses/{response_id}") as response:
            return response.status == 200

    async def becomes(self, number: int, response_id: str, *status: str) -> Any:
        """The response, once it has one of these states."""
        found: Any = None

        async def reached() -> bool:
            nonlocal found
            found = await self.get(number, response_id)
            return found["status"] in status

        await until_true(reached)
        return found

    @asynccontextmanager
    async def follow(self, number: int, response_id: str, after: int = -1) -> AsyncIterator[aiohttp.StreamReader]:
        """The events after this one."""
        path = f"/v1/responses/{response_id}?stream=true&starting_after={after}"
        async with self.session.get(self.urls[number] + path) as response:
            assert response.status == 200, await response.text()
            yield response.content


async def opened(state: str) -> Any:
    """A client of the Redis of a table `[state]`; None without one."""
    if (found := re.search('"(redis:.*?)"', state)) is None:
        return None

    return Redis.from_url(found[1])


async def next_event(content: aiohttp.StreamReader) -> bytes:
    """The next event of a stream; comments are skipped."""
    async with asyncio.timeout(30):
        while (frame := await content.readuntil(b"\n\n")).startswith(b":"):
            pass
    return frame


def data_of(frame: bytes) -> Any:
    return json.loads(frame.partition(b"data: ")[2])


@contextmanager
def state_of(kind: str, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The table `[state]` of a kind, and the variables that it names."""
    encrypted = '\nencryption_key = "${STATE_KEY}"'
    if kind == "sqlite":
        yield f'kind = "sqlite"\npath = "{folder}/responses.db"{encrypted}', {"STATE_KEY": KEY}
        return
    with redis_server() as redis:
        state = f'kind = "redis"\nurl = "{redis.url}"'
        yield state + (encrypted if kind == "redis-encrypted" else ""), {"STATE_KEY": KEY}


@asynccontextmanager
async def pair(kind: str, folder: Path, more: str = "") -> AsyncIterator[Pair]:
    """Two gateway processes that share a store. `more` is added to their file."""
    upstream = Upstream()
    async with served(upstream.app()) as (url, _):
        with state_of(kind, folder) as (state, variables):
            path = folder / "dragoman.toml"
            await asyncio.to_thread(path.write_text, CONFIG.format(url=url, state=state) + more)
            serve = ("serve", "--port", "0", str(path))
            async with (
                command(*serve, **variables) as one,
                command(*serve, **variables) as two,
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session,
            ):
                urls = [(await each.writes(r"dragoman listens on (http://\S+)"))[1] for each in (one, two)]
                redis = await opened(state)
                yield Pair([one, two], urls, session, upstream, folder / "usage.jsonl", redis)
                if redis is not None:
                    await redis.aclose()


@KINDS
async def test_a_response_is_polled_followed_and_cancelled_elsewhere(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path) as up:
        polled, streamed = await up.create(0), await up.create(0, stream=True)
        for number in (1, 0):  # at once: none of them is a 404 anywhere
            assert (await up.get(number, polled))["status"] in ("queued", "in_progress")
        async with up.follow(1, streamed) as content:
            seen = [await next_event(content) for _ in range(2)]
            for number in range(20):
                up.upstream.send(f"word{number}")
            while not seen[-1].startswith(b"event: response.output_text.delta") or b"word19" not in seen[-1]:
                seen.append(await next_event(content))
            up.upstream.streams.pop(1).put_nowait("")
            while not seen[-1].startswith(b"event: response.completed"):
                seen.append(await next_event(content))
            assert await content.read() == b""
        assert [data_of(frame)["sequence_number"] for frame in seen] == list(range(len(seen)))
        whole = b"".join(seen)
        for number in (0, 1):
            for after in (-1, 0, 7, len(seen) - 2, len(seen) - 1):
                async with up.follow(number, streamed, after) as content:
                    assert await content.read() == b"".join(seen[after + 1 :]), (number, after)
        reply = await up.becomes(1, streamed, "completed")
        assert reply == data_of(seen[-1])["response"]
        assert "word7word8" in reply["output"][0]["content"][0]["text"]
        async with up.sdk(1) as sdk:
            assert (await sdk.responses.cancel(polled)).status == "cancelled"
            await until(lambda: up.upstream.left == 1)
            with pytest.raises(openai.BadRequestError, match="leave out `stream`"):
                await sdk.responses.retrieve(polled, stream=True)
        assert (await up.get(0, polled))["status"] == "cancelled"
        assert up.upstream.started == 2
        await up.session.delete(f"{up.urls[1]}/v1/responses/{streamed}")
        for number in (0, 1):
            for query in ("", "?stream=true"):
                async with up.session.get(f"{up.urls[number]}/v1/responses/{streamed}{query}") as gone:
                    assert gone.status == 404
        assert whole.count(b"event: ") == len(seen)


@pytest.mark.whole
@KINDS
async def test_a_run_whose_process_is_killed_fails_and_is_never_unknown(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path) as up:
        polled, streamed, cancelled = await up.create(0), await up.create(0, stream=True), await up.create(0)
        up.upstream.send("written")
        async with up.follow(1, streamed) as content:
            seen = [await next_event(content)]
            while b"written" not in seen[-1]:
                seen.append(await next_event(content))
            up.kill(0)
            waiting = asyncio.create_task(up.session.post(f"{up.urls[1]}/v1/responses/{cancelled}/cancel"))
            states = {}
            for each in (polled, streamed):  # `get` fails for a 404 at any time
                states[each] = await up.becomes(1, each, *ENDED)
            while not seen[-1].startswith(b"event: response.failed"):
                seen.append(await next_event(content))
            assert await content.read() == b""
        assert [data_of(frame)["sequence_number"] for frame in seen] == list(range(len(seen)))
        for state in states.values():
            assert (state["status"], state["error"]["code"], state["store"]) == ("failed", "server_error", True)
        assert data_of(seen[-1])["response"] == states[streamed]
        async with await waiting as response:
            assert (response.status, (await response.json())["status"]) == (200, "cancelled")
        async with up.follow(1, streamed, len(seen) - 2) as content:
            assert await content.read() == seen[-1]
        assert up.upstream.started == 3, "no run is begun again"
        body = {"model": "m", "input": "More", "previous_response_id": polled, "background": True}
        async with up.session.post(f"{up.urls[1]}/v1/responses", json=body) as response:
            assert response.status == 200


@KINDS
async def test_a_kill_loses_no_event_that_was_written(kind: str, tmp_path: Path) -> None:
    """Events are written while the stream goes on, and a kill loses the last ones only: never one before another."""
    async with pair(kind, tmp_path) as up:
        streamed = await up.create(0, stream=True)
        async with up.follow(1, streamed) as content:
            seen = [await next_event(content)]
            for number in range(3):  # each is read elsewhere before the next is sent
                up.upstream.send(f"written{number} ")
                while b"written%d " % number not in seen[-1]:
                    seen.append(await next_event(content))
            for number in range(20):
                up.upstream.send(f"last{number} ")
            up.kill(0)
            while not seen[-1].startswith(b"event: response.failed"):
                seen.append(await next_event(content))
        assert [data_of(frame)["sequence_number"] for frame in seen] == list(range(len(seen)))
        texts = [data_of(frame)["delta"] for frame in seen if frame.startswith(b"event: response.output_text.delta")]
        sent = [f"written{number} " for number in range(3)] + [f"last{number} " for number in range(20)]
        assert 3 <= len(texts) <= len(sent)
        assert texts == sent[: len(texts)]


async def test_runs_go_on_when_redis_has_lost_its_data(tmp_path: Path) -> None:
    """Their process shares them again: no client loses its run, nothing is begun twice, and each is booked once."""
    async with pair("redis", tmp_path) as up:
        polled, streamed, cancelled = await up.create(0), await up.create(0, stream=True), await up.create(0)
        async with up.follow(1, streamed) as content, chat(up, 0) as first:
            stream_id = first.headers[RESUME]
            await until(lambda: len(up.upstream.streams) == 4)
            up.upstream.send("before ")
            seen = [await next_event(content)]
            while b"before " not in seen[-1]:
                seen.append(await next_event(content))
            events = [await next_event(first.content) for _ in range(2)]
            for _ in range(2):
                assert up.redis is not None
                await up.redis.flushall()
                for each in (polled, streamed, cancelled):
                    assert (await up.get(0, each))["status"] == "in_progress", "its own process knows it at all times"
                    await until_true(partial(up.knows, 1, each))
            async with up.sdk(1) as sdk:
                assert (await sdk.responses.cancel(cancelled)).status == "cancelled"
            up.upstream.send("after ")
            up.upstream.send("")
            while not seen[-1].startswith(b"event: response.completed"):
                seen.append(await next_event(content))
            assert await content.read() == b""
            events += [frame + b"\n\n" for frame in (await first.content.read()).split(b"\n\n") if frame]
        assert [data_of(frame)["sequence_number"] for frame in seen] == list(range(len(seen)))
        assert data_of(seen[-1])["response"]["output"][0]["content"][0]["text"] == "before after "
        for number in (0, 1):
            states = [(await up.becomes(number, each, *ENDED))["status"] for each in (polled, streamed, cancelled)]
            assert states == ["completed", "completed", "cancelled"]
            async with up.follow(number, streamed, 3) as content:
                assert await content.read() == b"".join(seen[4:])
            async with chat(up, number, f"{stream_id}.0") as again:
                assert await again.read() == b"".join(events[1:])
        assert up.upstream.started == 4
        for running in up.commands:
            running.process.terminate()
            assert await running.ends() == 0
        rows = [json.loads(line) for line in (await asyncio.to_thread(up.usage.read_text)).splitlines()]
        ends = Counter(row["ended"] for row in rows if row["ended"] != "begun")
        assert ends == {"completed": 3, "abandoned": 1}, rows


@pytest.mark.whole
async def test_a_process_that_stops_ends_its_runs_itself(tmp_path: Path) -> None:
    async with pair("redis", tmp_path) as up:
        polled, streamed = await up.create(0), await up.create(0, stream=True)
        up.commands[0].process.send_signal(signal.SIGTERM)
        up.commands[0].process.send_signal(signal.SIGINT)  # the second one ends what is open
        assert await up.commands[0].ends() == 0
        for each in (polled, streamed):
            state = await up.get(1, each)
            assert state["status"] == "failed", state
        async with up.follow(1, streamed) as content:
            whole = await content.read()
        assert data_of(whole.removesuffix(b"\n\n").rpartition(b"\n\n")[2])["type"] == "response.failed"


async def test_the_limit_of_runs_counts_those_of_all_processes(tmp_path: Path) -> None:
    async with pair("redis", tmp_path) as up:
        ids = [await up.create(number % 2) for number in range(16)]
        body = {"model": "m", "input": "Hi", "background": True}
        for number in (0, 1):
            async with up.session.post(f"{up.urls[number]}/v1/responses", json=body) as response:
                assert response.status == 429, await response.text()
                assert "16 responses run in the background" in await response.text()
        async with up.session.post(f"{up.urls[1]}/v1/responses/{ids[0]}/cancel") as response:
            assert (await response.json())["status"] == "cancelled"
        await up.create(1)
        assert up.upstream.started == 17


RESUME = "x-dragoman-resume"
CHAT_BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}


@asynccontextmanager
async def chat(
    up: Pair, number: int, position: str = "true", status: int = 200
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A stream of the Chat API that can be resumed, or its rest from a position on."""
    url = f"{up.urls[number]}/v1/chat/completions"
    async with up.session.post(url, json=CHAT_BODY, headers={RESUME: position}) as response:
        assert response.status == status, await response.text()
        yield response


@pytest.mark.whole
@KINDS
async def test_a_stream_is_resumed_elsewhere(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path) as up:
        async with chat(up, 0) as first:
            stream_id = first.headers[RESUME]
            seen = [await next_event(first.content)]
            await until(lambda: up.upstream.streams)
            for number in range(10):
                up.upstream.send(f"word{number} ")
            while b"word9" not in seen[-1]:
                seen.append(await next_event(first.content))
            # The second client replaces the first, whose connection is closed.
            async with chat(up, 1, f"{stream_id}.{len(seen) - 1}") as second:
                assert second.headers[RESUME] == stream_id
                with pytest.raises((aiohttp.ClientError, asyncio.IncompleteReadError)):
                    await next_event(first.content)
                up.upstream.send("more ")
                seen.append(await next_event(second.content))
                assert b"more " in seen[-1]
                # And a third one, at the first process, the second.
                async with chat(up, 0, f"{stream_id}.{len(seen) - 1}") as third:
                    with pytest.raises((aiohttp.ClientError, asyncio.IncompleteReadError)):
                        await next_event(second.content)
                    up.upstream.send("most ")
                    seen.append(await next_event(third.content))
                    assert b"most " in seen[-1]
        # Without a client it goes on.
        up.upstream.send("last ")
        up.upstream.send("")
        async with chat(up, 1, f"{stream_id}.{len(seen) - 1}") as last:
            seen += [frame + b"\n\n" for frame in (await last.read()).split(b"\n\n") if frame]
        assert b"data: [DONE]" in seen[-1]
        for number in (0, 1):
            for after in range(-1, len(seen)):
                position = stream_id if after < 0 else f"{stream_id}.{after}"
                async with chat(up, number, position) as again:
                    assert await again.read() == b"".join(seen[after + 1 :])
        async with chat(up, 1, f"{stream_id}.{len(seen)}", status=400) as late:
            assert "are kept" in await late.text()
        async with chat(up, 1, "req_unknown", status=404):
            pass
        async with up.session.post(f"{up.urls[1]}/v1/messages", headers={RESUME: stream_id}) as other:
            assert other.status == 404
        assert up.upstream.started == 1
        assert up.upstream.left == 0


@pytest.mark.whole
@KINDS
async def test_a_stream_whose_process_is_killed_never_looks_complete(kind: str, tmp_path: Path) -> None:
    async with pair(kind, tmp_path) as up:
        async with chat(up, 0) as first:
            stream_id = first.headers[RESUME]
            await until(lambda: up.upstream.streams)
            up.upstream.send("written")
            seen = [await next_event(first.content)]
            while b"written" not in seen[-1]:
                seen.append(await next_event(first.content))
            async with chat(up, 1, stream_id) as second:
                assert [await next_event(second.content) for _ in seen] == seen
                up.kill(0)
                with pytest.raises((aiohttp.ClientError, asyncio.IncompleteReadError)):
                    await next_event(second.content)
        async with chat(up, 1, f"{stream_id}.0") as again:
            assert [await next_event(again.content) for _ in seen[1:]] == seen[1:]
            with pytest.raises(aiohttp.ClientError):
                await again.read()
        async with chat(up, 1, f"{stream_id}.{len(seen) - 1}", status=404) as gone:
            assert "has stopped" in await gone.text()
        assert up.upstream.started == 1


async def test_workers_are_one_gateway(tmp_path: Path) -> None:
    """Each request has a connection of its own, which any worker may accept."""
    upstream = Upstream()
    async with served(upstream.app()) as (url, _):
        with state_of("sqlite", tmp_path) as (state, variables):
            path = tmp_path / "dragoman.toml"
            await asyncio.to_thread(path.write_text, CONFIG.format(url=url, state=state))
            async with fleet(str(path), workers=2, env=variables) as up:
                at = f"{up.url}/v1/responses"
                async with up.session.post(at, json={"model": "m", "input": "Hi", "background": True}) as response:
                    assert response.status == 200, await response.text()
                    begun = (await response.json())["id"]
                for _ in range(12):
                    status, body = await up.get(f"/v1/responses/{begun}")
                    assert (status, json.loads(body)["status"] in ("queued", "in_progress")) == (200, True)
                async with up.session.post(f"{at}/{begun}/cancel") as response:
                    assert (response.status, (await response.json())["status"]) == (200, "cancelled")
                async with up.session.post(
                    f"{up.url}/v1/chat/completions", json=CHAT_BODY, headers={RESUME: "true"}
                ) as first:
                    stream_id = first.headers[RESUME]
                    event = await next_event(first.content)
                for _ in range(6):
                    headers = {RESUME: stream_id}
                    async with up.session.post(
                        f"{up.url}/v1/chat/completions", json=CHAT_BODY, headers=headers
                    ) as again:
                        assert again.status == 200, await again.text()
                        assert await next_event(again.content) == event
                assert upstream.started == 2
