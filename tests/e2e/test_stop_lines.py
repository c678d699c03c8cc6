"""A stop states how many requests are open, how long they have and how it ended; a second signal ends them at once."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.config.load import load_config
from dragoman_server.workers.serve import running
from support.commands import Command, command
from support.gateways import CHAT, until
from support.samples import PATHS, dump, judge, request
from support.sockets import ScriptedServer, Stall, answer
from support.websockets import Speaking, begun

pytestmark = pytest.mark.turns  # a row starts a process or more

FILE = """
[server]
port = 0
workers = {workers}
stop_drain = {drain}
[models]
discover = false
[providers.up]
dialect = "chat"
base_url = "{upstream}/v1"
[[routes]]
model = "*"
provider = "up"
"""
STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING|ERROR) ")
BEGUN = [*begun(CHAT), Stall()]
"""The beginning of a stream that does not end."""
TWICE = "open, waiting up to 300 s; a second Ctrl-C ends"


def written(folder: Path, upstream: str, workers: int, drain: int) -> str:
    path = folder / "dragoman.toml"
    path.write_text(FILE.format(upstream=upstream, workers=workers, drain=drain))
    return str(path)


class Clients:
    """Open streams of each dialect, and a response over a WebSocket."""

    def __init__(self) -> None:
        self._streams: dict[Dialect, tuple[bytes, aiohttp.ClientResponse]] = {}
        self._speaking: Speaking | None = None

    @classmethod
    @asynccontextmanager
    async def of(cls, url: str, *, socket: bool = True) -> AsyncIterator[Clients]:
        """Open them all; each has received the beginning of its response."""
        clients = cls()
        async with AsyncExitStack() as stack:
            connector = aiohttp.TCPConnector(force_close=True)
            session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            for client in CLIENT_DIALECTS:
                body = dump(request(client, model="m", stream=True))
                response = await session.post(url + PATHS[client], data=body)
                clients._streams[client] = await response.content.readany(), response
            if socket:
                wire = await stack.enter_async_context(session.ws_connect(f"{url}/v1/responses"))
                clients._speaking = Speaking(wire)
                await clients._speaking.create()
                await clients._speaking.until("response.in_progress")
            yield clients

    async def end_in_errors(self) -> None:
        """Each response ends, in an error of its dialect."""
        for client, (first, response) in self._streams.items():
            error = judge(client, first + await response.read()).error
            assert error is not None
            assert "shutting down" in error["message"]
        if self._speaking is not None:
            last = (await self._speaking.rest())[-1]
            assert last["type"] in ("response.failed", "error")
            assert "shutting down" in json.dumps(last)


def last_line(up: Command) -> str:
    lines = up.stated.splitlines()
    assert all(STAMP.match(line) for line in lines), up.stated
    return lines[-1][len("2026-11-26 14:00:00,000 INFO ") :]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_second_signal_ends_open_requests_with_an_error(tmp_path: Path, workers: int) -> None:
    async with ScriptedServer(BEGUN) as server:
        async with command("serve", written(tmp_path, server.url, workers, 300)) as up:
            url = (await up.writes(r"dragoman listens on (http://\S+)"))[1]
            async with Clients.of(url) as clients:
                up.process.send_signal(signal.SIGTERM)
                await up.writes(f"dragoman stops: 4 requests are {TWICE} them$")
                up.process.send_signal(signal.SIGINT)
                await clients.end_in_errors()
            assert await up.ends() == 0
        await until(lambda: not server.open)
    assert last_line(up) == "dragoman stopped: 4 requests ended by a second signal"


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
async def test_the_deadline_ends_open_requests_with_an_error(tmp_path: Path, workers: int) -> None:
    async with ScriptedServer(BEGUN) as server, command("serve", written(tmp_path, server.url, workers, 1)) as up:
        url = (await up.writes(r"dragoman listens on (http://\S+)"))[1]
        async with Clients.of(url, socket=False) as clients:
            up.process.send_signal(signal.SIGTERM)
            await up.writes("dragoman stops: 3 requests are open, waiting up to 1 s; a second Ctrl-C ends them$")
            await clients.end_in_errors()
        assert await up.ends() == 0
    assert last_line(up) == "dragoman stopped: 3 requests ended by the deadline"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("workers", [1, 2])
async def test_every_line_is_one_of_the_log(tmp_path: Path, workers: int, form: str) -> None:
    """Also with `--quiet`, which leaves out the lines of requests."""
    path = written(tmp_path, "http://127.0.0.1:9", workers, 10)
    for quiet in ((), ("--quiet",)):
        async with command("serve", path, "--log-format", form, *quiet) as up:
            await up.writes("dragoman listens on ")
            up.process.send_signal(signal.SIGINT)
            assert await up.ends() == 0
        if form == "text":
            assert last_line(up) == "dragoman stopped"
        else:
            records = [json.loads(line) for line in up.stated.splitlines()]
            assert [record["message"] for record in records][-1] == "dragoman stopped"
            assert all({"time", "level", "logger"} <= record.keys() for record in records)


@pytest.mark.parametrize("reports", [True, False])
async def test_a_gateway_in_a_command_reports_what_it_waits_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], reports: bool
) -> None:
    """`run` and `demo` are silent if nothing is open, `serve` always."""
    async with ScriptedServer(BEGUN) as server:
        config = load_config(written(tmp_path, server.url, 1, 10))
        async with running(config, drain=0.01, reports_stop=reports):
            pass
        assert capfd.readouterr().err == ("dragoman stops\ndragoman stopped\n" if reports else "")
        async with AsyncExitStack() as stack:
            async with running(config, drain=0.01, reports_stop=reports) as up:
                clients = await stack.enter_async_context(Clients.of(up.url, socket=False))
            await clients.end_in_errors()
        assert capfd.readouterr().err == (
            "dragoman stops: 3 requests are open, waiting up to 0.01 s; a second Ctrl-C ends them\n"
            "dragoman stopped: 3 requests ended by the deadline\n"
        )


@pytest.mark.slow
async def test_requests_without_a_file_have_a_route_with_a_name(tmp_path: Path) -> None:
    """`--base-url` names one upstream, to which `*` leads."""
    async with (
        ScriptedServer(answer(404, b"{}")) as server,
        command("serve", "--base-url", f"{server.url}/v1", "--port", "0", cwd=tmp_path) as up,
        aiohttp.ClientSession() as session,
    ):
        url = (await up.writes(r"dragoman listens on (http://\S+)"))[1]
        await up.writes(r"INFO   model \* → upstream$")
        async with session.post(url + PATHS[CHAT], data=dump(request(CHAT, model="m"))) as response:
            await response.read()
        await up.writes(r" req_.* route=\*")
