"""`server.shutdown_delay`: a gateway that is to stop is not ready, and serves on until balancers know."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from support.commands import Command, command
from support.fleet import fleet
from support.gateways import CHAT
from support.samples import PATHS, TEXT, dump, judge, reply, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, Wait, answer, chunk, sse_head

pytestmark = pytest.mark.turns  # a row starts a process or more

DRAINING = (503, b'{"ready":false,"reasons":["draining"],"warnings":[]}')
READY = (200, b'{"ready":true,"reasons":[],"warnings":[]}')
FILE = """
[server]
shutdown_delay = {delay}
[models]
discover = false
[providers.up]
dialect = "chat"
base_url = "{upstream}/v1"
[[routes]]
model = "*"
provider = "up"
"""


async def written(folder: Path, upstream: str, delay: int) -> str:
    path = folder / "dragoman.toml"
    await asyncio.to_thread(path.write_text, FILE.format(upstream=upstream, delay=delay))
    return str(path)


@dataclass(slots=True)
class Served:
    """A running gateway of one process or of several."""

    url: str
    process: Command
    session: aiohttp.ClientSession

    async def ready(self) -> tuple[int, bytes]:
        """Status and body of `GET /ready`, on a connection of its own."""
        async with asyncio.timeout(30), self.session.get(f"{self.url}/ready") as response:
            return response.status, await response.read()

    def stop(self) -> None:
        """Send SIGTERM."""
        self.process.process.send_signal(signal.SIGTERM)


@asynccontextmanager
async def serving(path: str, workers: int) -> AsyncIterator[Served]:
    """`dragoman serve` with this file."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        if workers > 1:
            async with fleet(path, workers=workers) as up:
                yield Served(up.url, up.command, session)
            return
        async with command("serve", "--port", "0", path, cwd=None) as process:
            url = (await process.writes(r"dragoman listens on (http://\S+)"))[1]
            yield Served(url, process, session)


@pytest.mark.parametrize("workers", [1, 2])
async def test_until_another_signal_requests_are_answered(workers: int, tmp_path: Path) -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        path = await written(tmp_path, server.url, 600)
        async with serving(path, workers) as up:
            assert await up.ready() == READY
            up.stop()
            states: list[tuple[int, bytes]] = []
            while states[-6:] != [DRAINING] * 6:  # so that each worker is asked
                states.append(await up.ready())
            assert set(states) <= {READY, DRAINING}
            async with aiohttp.ClientSession() as keeping:
                for _ in range(4):
                    async with keeping.post(up.url + PATHS[CHAT], data=dump(request(CHAT))) as response:
                        assert response.status == 200
                        assert response.headers["connection"] == "close"
            up.stop()
            assert await up.process.ends() == 0
            assert "dragoman stops in 600 s" in up.process.stated


@pytest.mark.parametrize("workers", [1, 2])
async def test_after_the_delay_it_stops(workers: int, tmp_path: Path) -> None:
    async with ScriptedServer([]) as server:
        path = await written(tmp_path, server.url, 1)
        async with serving(path, workers) as up:
            assert await up.ready() == READY
            up.stop()
            assert await up.process.ends() == 0
            assert "dragoman stops in 1 s" in up.process.stated


@pytest.mark.parametrize("workers", [1, 2])
async def test_after_the_delay_kept_connections_are_closed_without_a_response(workers: int, tmp_path: Path) -> None:
    """A proxy that finds a kept connection closed sends its request elsewhere; a 503 it would pass on."""
    resume = asyncio.Event()
    frames = [Send(chunk(frame)) for frame in text_stream(CHAT, counted=False)]
    script: list[Step] = [Send(sse_head()), *frames[:3], Wait(resume), *frames[3:], Send(LAST_CHUNK)]
    async with ScriptedServer(script) as server, aiohttp.ClientSession() as session:
        path = await written(tmp_path, server.url, 1)
        async with serving(path, workers) as up:
            address = up.url.removeprefix("http://").rsplit(":", 1)
            kept = [await asyncio.open_connection(address[0], int(address[1])) for _ in range(12)]  # at each worker
            for reader, writer in kept:
                writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                await reader.readuntil(b'"}')
            async with session.post(up.url + PATHS[CHAT], data=dump(request(CHAT, stream=True))) as response:
                whole = await response.content.readany()
                up.stop()
                # Before this stream ends, which the gateway waits for.
                assert [await reader.read() for reader, _ in kept] == [b""] * len(kept)
                resume.set()
                whole += await response.read()
            assert judge(CHAT, whole).text == TEXT
            assert await up.process.ends() == 0
            for _, writer in kept:
                writer.close()
