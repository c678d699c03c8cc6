"""Processes are killed with runs open whose upstream generates the response in the background: another one goes on.

`DRAGOMAN_KILLS` is the number of kills: 3 take half a minute.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows
from dragoman_server.simulator import make_simulator
from support.commands import Command, command
from support.gateways import served
from support.redis_server import redis_server
from support.thread_stores import KEY
from support.waiting import until, until_true

pytestmark = pytest.mark.turns  # a row starts a process or more

KILLS = int(os.environ.get("DRAGOMAN_KILLS", "2"))
RESUME = "x-dragoman-resume"
LISTENS = r"dragoman listens on (http://\S+)"
SECRET = "sk-of-the-provider-3141"
CONFIG = """
[models]
unknown = "pass"
discover = false

[providers.up]
dialect = "responses"
base_url = "{url}/v1"
api_key = "{secret}"
background = true
state = "gateway"

[server.resume]
seconds = 60

[state]
timeout = 30
{state}

[usage]
kind = "jsonl"
path = "{folder}/usage.jsonl"
"""
KINDS = pytest.mark.parametrize("kind", ["redis", "sqlite", pytest.param("redis-encrypted", marks=pytest.mark.whole)])
TEXT = "Hello from the simulator."


@dataclass
class Up:
    """The upstream, what it was sent, and the gateways before it."""

    folder: Path
    config: Path
    variables: dict[str, str]
    session: aiohttp.ClientSession
    state: str
    posts: Counter[str] = field(default_factory=Counter)
    """The requests that begin a response, by the text of the client."""
    attached: list[str] = field(default_factory=list)
    """The requests for a stream once more."""
    cancelled: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    """The texts of the requests that are not in the background."""
    connections: list[Any] = field(default_factory=list)
    """Those of the requests for a stream."""
    forgets: bool = False
    """True once it has forgotten all responses."""

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[tuple[Command, str]]:
        async with command("serve", str(self.config), "--port", "0", **self.variables) as running:
            yield running, (await running.writes(LISTENS))[1]

    def rows(self) -> list[dict[str, Any]]:
        """The rows of usage."""
        options = UsageOptions("jsonl", str(self.folder / "usage.jsonl"))
        return [*read_rows(options)] if (self.folder / "usage.jsonl").exists() else []

    async def get(self, url: str, response_id: str) -> Any:
        async with self.session.get(f"{url}/v1/responses/{response_id}") as reply:
            assert reply.status == 200, await reply.text()
            return await reply.json()

    async def ends(self, url: str, response_id: str) -> Any:
        """The response, once it has ended."""
        found: Any = None

        async def ended() -> bool:
            nonlocal found
            found = await self.get(url, response_id)
            return found["status"] not in ("queued", "in_progress")

        await until_true(ended, 90)
        return found


def text_in(body: Any) -> str:
    """The text of a request's last message."""
    given = body["input"]
    content = given if isinstance(given, str) else given[-1]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


@contextmanager
def state_of(kind: str, folder: Path) -> Iterator[str]:
    encrypted = '\nencryption_key = "${STATE_KEY}"' if kind.endswith("encrypted") else ""
    if kind == "sqlite":
        yield f'kind = "sqlite"\npath = "{folder}/responses.db"'
        return
    with redis_server() as redis:
        yield f'kind = "redis"\nurl = "{redis.url}"{encrypted}'


@asynccontextmanager
async def upstream(kind: str, folder: Path) -> AsyncIterator[Up]:
    """A simulated upstream that is watched."""
    simulator = make_simulator(pace=0.02)
    up: Up

    @web.middleware
    async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"Bearer {SECRET}"
        if request.method == "POST" and request.path.endswith("/cancel"):
            up.cancelled.append(request.path.split("/")[-2])
        elif request.method == "POST":
            body = await request.json()
            up.connections.append(request.transport)
            up.posts[text_in(body)] += 1
            if "background" not in body:
                up.plain.append(text_in(body))
            else:
                assert (body["background"], body["store"], body["stream"]) == (True, True, True)
        else:
            assert request.query["stream"] == "true"
            up.connections.append(request.transport)
            up.attached.append(request.path.split("/")[-1])
            if up.forgets:
                return web.json_response(
                    {"error": {"message": "not found", "type": "invalid_request_error"}}, status=404
                )
        return await handler(request)

    simulator.middlewares.append(watch)
    async with served(simulator) as (url, _):
        with state_of(kind, folder) as state:
            config = folder / "gateway.toml"
            text = CONFIG.format(url=url, secret=SECRET, state=state, folder=folder)
            await asyncio.to_thread(config.write_text, text)
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(120)) as session:
                up = Up(folder, config, {"STATE_KEY": KEY}, session, state)
                yield up


def frames_of(data: bytes) -> list[bytes]:
    return [frame + b"\n\n" for frame in data.split(b"\n\n") if frame and not frame.startswith(b":")]


async def next_event(content: aiohttp.StreamReader) -> bytes:
    """The next event of a stream; comments are skipped."""
    async with asyncio.timeout(60):
        while (frame := await content.readuntil(b"\n\n")).startswith(b":"):
            pass
    return frame


def data_of(frame: bytes) -> Any:
    for line in frame.split(b"\n"):
        if line.startswith(b"data: "):
            return json.loads(line[6:]) if line != b"data: [DONE]" else None
    raise AssertionError(frame)


async def begin(up: Up, url: str, text: str, *, stream: bool) -> tuple[str, list[bytes]]:
    """Begin a response in the background. Return its id, and its first events up to the first text."""
    body = {"model": "sim-long-400", "input": text, "background": True, "stream": stream}
    async with up.session.post(f"{url}/v1/responses", json=body) as reply:
        assert reply.status == 200, await reply.text()
        if not stream:
            found = await reply.json()
            return found["id"], []
        seen = [await next_event(reply.content)]
        while b"output_text.delta" not in seen[-1]:
            seen.append(await next_event(reply.content))
        return data_of(seen[0])["response"]["id"], seen


@pytest.mark.whole
@KINDS
async def test_another_process_goes_on_with_runs_in_the_background(kind: str, tmp_path: Path) -> None:
    async with upstream(kind, tmp_path) as up, up.gateway() as (other, there):
        streamed, polled = dict[str, list[bytes]](), list[str]()
        for number in range(KILLS):
            async with up.gateway() as (killed, here):
                response_id, seen = await begin(up, here, f"streamed {number}", stream=True)
                streamed[response_id] = seen
                quiet, _ = await begin(up, here, f"polled {number}", stream=False)
                polled.append(quiet)

                async def goes_on(here: str = here, quiet: str = quiet) -> bool:
                    return bool((await up.get(here, quiet))["status"] == "in_progress")

                await until_true(goes_on)
                killed.process.kill()
                await killed.process.wait()
        for response_id, seen in streamed.items():
            path = f"{there}/v1/responses/{response_id}?stream=true"
            async with up.session.get(path) as reply:
                assert reply.status == 200, await reply.text()
                frames = frames_of(await reply.read())
            assert frames[: len(seen)] == seen
            assert [data_of(frame)["sequence_number"] for frame in frames] == list(range(len(frames)))
            assert frames[-1].startswith(b"event: response.completed\n")
            deltas = "".join(data_of(each)["delta"] for each in frames if b"output_text.delta" in each[:40])
            found = await up.ends(there, response_id)
            assert found == data_of(frames[-1])["response"]
            assert deltas == found["output"][-1]["content"][0]["text"] != ""
        texts = set()
        for response_id in [*streamed, *polled]:
            found = await up.ends(there, response_id)
            assert (found["status"], found["store"], found["background"]) == ("completed", True, True)
            texts.add(found["output"][-1]["content"][0]["text"])
        assert len(texts) == 1, "each is the whole text"
        assert set(up.posts.values()) == {1}, "no response was generated twice"
        assert len(up.posts) == 2 * KILLS
        await until(lambda: len(up.rows()) == 2 * KILLS)
        rows = up.rows()
        assert {row["ended"] for row in rows} == {"completed"}
        assert {row["id"] for row in rows} == {f"req_{each.removeprefix('resp_')}" for each in [*streamed, *polled]}
        assert all(row["output"] > 0 and not row["estimated"] for row in rows)
        assert up.cancelled == []
        other.process.terminate()
        assert await other.ends() == 0
        assert len(up.rows()) == 2 * KILLS


@dataclass
class Direction:
    """A client that resumes streams: its path, its body, and the text of one of its events."""

    path: str
    body: dict[str, Any]

    def text(self, frame: bytes) -> str:
        event = data_of(frame)
        if event is None:
            return ""
        if self.path.endswith("completions"):
            return "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        if self.path.endswith("messages"):
            return str((event.get("delta") or {}).get("text", ""))
        return str(event["delta"]) if event["type"] == "response.output_text.delta" else ""

    def is_last(self, frame: bytes) -> bool:
        return b"[DONE]" in frame or b"message_stop" in frame or frame.startswith(b"event: response.completed")


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


MODEL = {"model": "sim-long-150", "stream": True}
DIRECTIONS = (
    Direction("/v1/chat/completions", {**MODEL, "messages": user("chat")}),
    Direction("/v1/messages", {**MODEL, "messages": user("messages"), "max_tokens": 1000}),
    Direction("/v1/responses", {**MODEL, "input": "responses"}),
)


async def open_stream(up: Up, url: str, client: Direction) -> tuple[str, list[bytes]]:
    """Begin a stream that can be resumed. Return its id, and its first events up to the third with text."""
    async with up.session.post(url + client.path, json=client.body, headers={RESUME: "true"}) as reply:
        assert reply.status == 200, await reply.text()
        seen = [await next_event(reply.content)]
        while sum(client.text(frame) != "" for frame in seen) < 3:
            seen.append(await next_event(reply.content))
        return reply.headers[RESUME], seen


async def resume(up: Up, url: str, client: Direction, stream_id: str, after: int) -> list[bytes]:
    """Resume a stream after an event, once this process has taken it. Return the rest."""
    rest: list[bytes] = []

    async def resumed() -> bool:
        nonlocal rest
        headers = {RESUME: f"{stream_id}.{after}"}
        async with up.session.post(url + client.path, json=client.body, headers=headers) as reply:
            if reply.status != 200:
                return False
            try:
                rest = frames_of(await reply.read())
            except aiohttp.ClientError:
                return False
            return True

    await until_true(resumed, 90)
    return rest


@KINDS
@pytest.mark.parametrize("state", ["gateway", "upstream"])
async def test_another_process_goes_on_with_streams(kind: str, state: str, tmp_path: Path) -> None:
    """With `upstream`, a stream of Responses passes through."""
    async with upstream(kind, tmp_path) as up:
        text = (await asyncio.to_thread(up.config.read_text)).replace('state = "gateway"', f'state = "{state}"')
        await asyncio.to_thread(up.config.write_text, text)
        async with up.gateway() as (other, there):
            async with up.gateway() as (killed, here):
                begun = [(client, *await open_stream(up, here, client)) for client in DIRECTIONS]
                killed.process.kill()
                await killed.process.wait()
            texts = set()
            for client, stream_id, seen in begun:
                rest = await resume(up, there, client, stream_id, len(seen) - 1)
                frames = [*seen, *rest]
                assert [client.is_last(frame) for frame in frames] == [False] * (len(frames) - 1) + [True]
                ids = [line for frame in frames for line in frame.split(b"\n") if line.startswith(b"id: ")]
                assert ids == [b"id: %b.%d" % (stream_id.encode(), number) for number in range(len(frames))]
                texts.add("".join(client.text(frame) for frame in frames))
            assert len(texts) == 1, "each is the whole text"
            assert "" not in texts
            assert set(up.posts.values()) == {1}
            await until(lambda: len(up.rows()) == len(begun))
            assert [(row["ended"], row["estimated"]) for row in up.rows()] == [("completed", [])] * len(begun)
            assert {row["id"] for row in up.rows()} == {stream_id for _, stream_id, _ in begun}
            assert up.cancelled == []
            other.process.terminate()
            assert await other.ends() == 0
            assert len(up.rows()) == len(begun)


@pytest.mark.whole
@KINDS
async def test_a_process_that_stops_leaves_its_runs_to_another(kind: str, tmp_path: Path) -> None:
    """The lease is not waited for, nothing is cancelled at the upstream, and clients resume what they read."""
    async with upstream(kind, tmp_path) as up:
        text = "[server]\nstop_drain = 0\n" + await asyncio.to_thread(up.config.read_text)
        await asyncio.to_thread(up.config.write_text, text)
        await passes_on(up)


async def passes_on(up: Up) -> None:
    async with up.gateway() as (other, there):
        async with up.gateway() as (stopped, here):
            response_id, seen = await begin(up, here, "streamed", stream=True)
            quiet, _ = await begin(up, here, "polled", stream=False)
            client = DIRECTIONS[0]
            stream_id, read = await open_stream(up, here, client)
            stopped.process.terminate()
            assert await stopped.ends() == 0
        for each in (response_id, quiet):
            assert (await up.get(there, each))["status"] in {"in_progress", "completed"}
        for each in (response_id, quiet):
            found = await up.ends(there, each)
            assert found["status"] == "completed"
            assert found["output"][-1]["content"][0]["text"]
        async with up.session.get(f"{there}/v1/responses/{response_id}?stream=true") as reply:
            frames = frames_of(await reply.read())
        assert frames[: len(seen)] == seen
        assert [data_of(frame)["sequence_number"] for frame in frames] == list(range(len(frames)))
        assert frames[-1].startswith(b"event: response.completed\n")
        rest = await resume(up, there, client, stream_id, len(read) - 1)
        assert client.is_last(rest[-1])
        assert up.cancelled == []
        assert set(up.posts.values()) == {1}
        assert len(up.attached) == 3
        await until(lambda: len(up.rows()) == 3)
        assert [row["ended"] for row in up.rows()] == ["completed"] * 3
        other.process.terminate()
        assert await other.ends() == 0
        assert len(up.rows()) == 3


@pytest.mark.whole
@KINDS
async def test_a_connection_that_breaks_is_attached_again_by_the_same_process(kind: str, tmp_path: Path) -> None:
    async with upstream(kind, tmp_path) as up, up.gateway() as (_, here):
        client = DIRECTIONS[0]
        body = {"model": "sim-long-400", "input": "streamed", "background": True, "stream": True}
        bodies = {"/v1/responses": body, client.path: {**client.body, "model": "sim-long-400"}}
        texts = set()
        for path, sent in bodies.items():
            begun = len(up.connections)
            async with up.session.post(here + path, json=sent, headers={RESUME: "true"}) as reply:
                assert reply.status == 200, await reply.text()
                frames: list[bytes] = []
                for breaks in range(1, 4):
                    have = len(frames) + 5
                    while len(frames) < have:
                        frames.append(await next_event(reply.content))
                    (broken,) = up.connections[begun + breaks - 1 :]
                    broken.abort()
                    await until(lambda number=begun + breaks: len(up.connections) > number, 60)  # type: ignore[misc]
                frames += frames_of(await reply.read())
            if path == client.path:
                assert client.is_last(frames[-1])
                texts.add("".join(client.text(frame) for frame in frames))
            else:
                assert [data_of(frame)["sequence_number"] for frame in frames] == list(range(len(frames)))
                assert frames[-1].startswith(b"event: response.completed\n")
                texts.add("".join(data_of(each)["delta"] for each in frames if b"output_text.delta" in each[:40]))
        assert len(texts) == 1, "each is the whole text"
        assert "" not in texts
        assert set(up.posts.values()) == {1}
        assert len(up.attached) == 6
        assert up.cancelled == []
        await until(lambda: len(up.rows()) == 2)
        assert [row["ended"] for row in up.rows()] == ["completed"] * 2


@pytest.mark.whole
async def test_a_run_outlives_two_processes(tmp_path: Path) -> None:
    async with upstream("redis", tmp_path) as up, up.gateway() as (last, there):
        async with up.gateway() as (first, here):
            response_id, seen = await begin(up, here, "twice", stream=True)
            last.process.send_signal(signal.SIGSTOP)  # the second one takes it
            first.process.kill()
            async with up.gateway() as (second, _):
                await until(lambda: up.attached, 60)
                second.process.kill()
                await second.process.wait()
        last.process.send_signal(signal.SIGCONT)
        found = await up.ends(there, response_id)
        assert found["status"] == "completed"
        async with up.session.get(f"{there}/v1/responses/{response_id}?stream=true") as reply:
            frames = frames_of(await reply.read())
        assert frames[: len(seen)] == seen
        assert [data_of(frame)["sequence_number"] for frame in frames] == list(range(len(frames)))
        assert up.posts == {"twice": 1}
        await until(up.rows)
        assert [row["ended"] for row in up.rows()] == ["completed"]


@pytest.mark.parametrize("killed", [False, True])
async def test_a_cancel_reaches_the_upstream(killed: bool, tmp_path: Path) -> None:
    """Also if the process that has begun the run is gone, and another one goes on with it."""
    async with upstream("sqlite", tmp_path) as up, up.gateway() as (_, there), up.gateway() as (running, here):
        response_id, _ = await begin(up, here, "cancelled", stream=True)
        if killed:
            running.process.kill()
        async with up.session.post(f"{there}/v1/responses/{response_id}/cancel") as reply:
            assert reply.status == 200, await reply.text()
        assert (await up.ends(there, response_id))["status"] == "cancelled"
        await until(lambda: up.cancelled)
        await until(up.rows)
        assert len(up.cancelled) == len(up.rows()) == 1
        assert up.posts == {"cancelled": 1}


@pytest.mark.whole
async def test_a_run_that_the_upstream_does_not_know_has_failed(tmp_path: Path) -> None:
    async with upstream("sqlite", tmp_path) as up, up.gateway() as (_, there):
        async with up.gateway() as (killed, here):
            response_id, _ = await begin(up, here, "forgotten", stream=True)
            stream_id, _ = await open_stream(up, here, DIRECTIONS[0])
            up.forgets = True
            killed.process.kill()
            await killed.process.wait()
        assert (await up.ends(there, response_id))["status"] == "failed"
        async with up.session.get(f"{there}/v1/responses/{response_id}?stream=true") as reply:
            frames = frames_of(await reply.read())
        assert frames[-1].startswith(b"event: response.failed\n")
        assert [data_of(frame)["sequence_number"] for frame in frames] == list(range(len(frames)))

        async def is_lost() -> bool:
            headers = {RESUME: f"{stream_id}.100000"}
            async with up.session.post(there + DIRECTIONS[0].path, json=DIRECTIONS[0].body, headers=headers) as reply:
                return reply.status == 404 and "has stopped" in await reply.text()

        await until_true(is_lost, 60)
        await until(lambda: len(up.rows()) == 2)
        assert {row["ended"] for row in up.rows()} == {"lost"}
        assert set(up.posts.values()) == {1}


async def test_no_store_has_a_key_and_what_is_not_to_be_stored_stays_out_of_it(tmp_path: Path) -> None:
    async with upstream("sqlite", tmp_path) as up, up.gateway() as (_, here):
        headers = {"authorization": "Bearer sk-of-the-client-7q3z"}
        body = {"model": "sim-long-150", "input": "Hi", "background": True}
        async with up.session.post(f"{here}/v1/responses", json=body, headers=headers) as reply:
            assert reply.status == 200, await reply.text()
        url, wish = f"{here}/v1/chat/completions", {RESUME: "true"}
        for text, more in (("unstored", {"store": False}), ("stored", {})):
            async with up.session.post(url, json={**MODEL, "messages": user(text), **more}, headers=wish) as reply:
                assert reply.status == 200, await reply.text()
        async with up.session.post(url, json={**MODEL, "messages": user("not to be resumed")}) as reply:
            assert reply.status == 200, await reply.text()
        assert up.plain == ["unstored", "not to be resumed"]
        path = tmp_path / "responses.db-runs"

        def attached() -> list[bytes]:
            with closing(sqlite3.connect(path)) as db:
                return [data for (data,) in db.execute("SELECT attach FROM runs WHERE attach <> x''")]

        async def is_attached() -> bool:
            return bool(await asyncio.to_thread(attached))

        await until_true(is_attached)
        head, _, packed = (await asyncio.to_thread(attached))[0].partition(b"\n")
        known = head + zlib.decompress(packed)
        assert b'"messages"' in known or b'"input"' in known
        assert b"7q3z" not in known
        assert SECRET.encode() not in known
        files = await asyncio.to_thread(lambda: [file.read_bytes() for file in tmp_path.glob("responses.db*")])
        assert not [data for data in files if SECRET.encode() in data or b"sk-of-the-client" in data]
