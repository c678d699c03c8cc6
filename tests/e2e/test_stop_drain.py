"""`server.stop_drain`: the time that open streams have when `dragoman serve` gets SIGTERM."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from dragoman_server.workers.serve import DRAIN
from support.commands import command
from support.gateways import CHAT, until
from support.samples import PATHS, TEXT, judge, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Stall, Wait, chunk, sse_head

pytestmark = pytest.mark.turns  # a row starts a process or more


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    "resumed", [pytest.param(True, marks=pytest.mark.whole, id="ends in time"), pytest.param(False, id="ends late")]
)
async def test_open_streams_have_the_configured_time(tmp_path: Path, workers: str, resumed: bool) -> None:
    """Longer than the default for one that ends in time; a short one for the other, which ends in an error."""
    resume = asyncio.Event()
    frames = [Send(chunk(frame)) for frame in text_stream(CHAT, counted=False)]
    last = [Wait(resume), *frames[4:], Send(LAST_CHUNK)] if resumed else [Stall()]
    path = tmp_path / "config.toml"
    async with ScriptedServer([Send(sse_head()), *frames[:4], *last]) as server, aiohttp.ClientSession() as session:
        path.write_text(
            f"[server]\nworkers = {workers}\nstop_drain = {300 if resumed else 1}\n[models]\ndiscover = false\n"
            f'[providers.up]\ndialect = "chat"\nbase_url = "{server.url}/v1"\n'
            '[[routes]]\nmodel = "*"\nprovider = "up"\n'
        )
        async with command("serve", str(path), "--port", "0") as running:
            url = (await running.writes(r"dragoman listens on (http://\S+)"))[1]
            response = await session.post(url + PATHS[CHAT], json=request(CHAT, model="m", stream=True))
            whole = await response.content.readany()
            await until(lambda: len(server.requests) == 1)
            running.process.terminate()
            await running.writes("dragoman stops")
            if resumed:
                await asyncio.sleep(DRAIN + 1)
                resume.set()
            whole += await response.read()
            result = judge(CHAT, whole)
            if resumed:
                assert (result.text, result.error) == (TEXT, None)
            else:
                assert result.error is not None
            assert await running.ends() == 0
