"""SIGHUP on the gateway of one process: new requests get the new configuration, open streams keep theirs."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from support.commands import Command, command
from support.exposed import read_exposition, total
from support.gateways import CHAT, MESSAGES, config_for, gate, until
from support.samples import PATHS, TEXT, dump, judge, reply, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, Wait, answer, chunk, sse_head


def write(path: Path, url: str, *, key: str = "old", server: str = "") -> str:
    """A configuration with one upstream, one key and no discovery of models."""
    path.write_text(
        f'[server]\nkeys = ["{key}"]\n{server}\n[models]\ndiscover = false\n'
        f'[providers.up]\ndialect = "chat"\nbase_url = "{url}/v1"\n'
        '[[routes]]\nmodel = "*"\nprovider = "up"\n'
    )
    return str(path)


def paused(resume: asyncio.Event) -> list[Step]:
    """A stream that stops in its middle until `resume` is set."""
    frames = [Send(chunk(frame)) for frame in text_stream(CHAT, counted=False)]
    return [Send(sse_head()), *frames[:4], Wait(resume), *frames[4:], Send(LAST_CHUNK)]


@dataclass(slots=True)
class Single:
    """A gateway of one process, and a session."""

    command: Command
    url: str
    session: aiohttp.ClientSession

    def hang_up(self) -> None:
        """Send SIGHUP."""
        os.kill(self.command.process.pid, signal.SIGHUP)

    async def ask(self, key: str, *, stream: bool = False, client: Dialect = CHAT) -> tuple[int, bytes]:
        """Status and body of a request."""
        body = dump(request(client, model="m", stream=stream))
        async with self.session.post(self.url + PATHS[client], data=body, headers={"x-api-key": key}) as got:
            return got.status, await got.read()

    async def reloads(self, key: str, result: str) -> float:
        """Return how many reloads ended so."""
        async with self.session.get(f"{self.url}/metrics", headers={"x-api-key": key}) as got:
            return total(read_exposition(await got.read()), "dragoman_reloads_total", result=result)


@asynccontextmanager
async def single(*args: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> AsyncIterator[Single]:
    """`dragoman serve ARGS` on a free port, up."""
    async with (
        command("serve", *args, "--port", "0", cwd=cwd, **(env or {})) as running,
        aiohttp.ClientSession() as session,
    ):
        url = (await running.writes(r"dragoman listens on (http://\S+)"))[1]
        await running.writes("OpenAI clients: ")
        yield Single(running, url, session)
        if running.process.returncode is None:
            running.process.terminate()
            assert await running.ends() == 0
        assert "Traceback" not in running.stated


async def test_open_streams_go_on_and_new_requests_get_the_new_configuration(tmp_path: Path) -> None:
    resume = asyncio.Event()
    path = tmp_path / "config.toml"
    async with (
        ScriptedServer(paused(resume)) as before,
        ScriptedServer(answer(200, dump(reply(CHAT)))) as after,
        single(write(path, before.url)) as up,
    ):
        streams = {
            client: asyncio.create_task(up.ask("old", stream=True, client=client)) for client in (CHAT, MESSAGES)
        }
        await until(lambda: len(before.requests) == 2)
        write(path, after.url, key="new")
        up.hang_up()
        await up.command.writes("dragoman has reloaded; providers: 1, routes: 1")
        assert (await up.ask("new"))[0] == 200
        assert (await up.ask("old"))[0] == 401
        assert len(after.requests) == 1
        assert len(before.requests) == 2
        assert not any(stream.done() for stream in streams.values())
        resume.set()
        for client, stream in streams.items():
            status, whole = await asyncio.wait_for(stream, 30)
            result = judge(client, whole)
            assert (status, result.text, result.error) == (200, TEXT, None)
        assert await up.reloads("new", "done") == 1


async def test_a_wrong_file_changes_nothing_and_the_service_manager_is_notified(tmp_path: Path) -> None:
    path, name = tmp_path / "dragoman.toml", str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.setblocking(False)

        async def states(*words: str) -> None:
            for word in words:
                async with asyncio.timeout(30):
                    data = await asyncio.get_running_loop().sock_recv(manager, 1000)
                assert data.decode().split("\n")[0] == word

        # The file of the working directory is read again as one that was named.
        async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
            write(path, server.url)
            async with single(cwd=tmp_path, env={"NOTIFY_SOCKET": name}) as up:
                await states("READY=1")
                for number, (wrong, why) in enumerate(
                    (("[server]\nport = 'eighty'\n", "server.port: expected an integer"), ("[server\n", "is not TOML"))
                ):
                    path.write_text(wrong)
                    up.hang_up()
                    await up.command.writes("the new configuration is refused, the old one stays:")
                    await up.command.writes(why)
                    await states("RELOADING=1", "READY=1")
                    assert (await up.ask("old"))[0] == 200
                    assert await up.reloads("old", "refused") == number + 1
                path.unlink()
                up.hang_up()
                await up.command.writes("dragoman.toml: cannot be read")
                assert (await up.ask("old"))[0] == 200


async def test_what_takes_a_restart_is_named_and_the_rest_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, single(write(path, server.url)) as up:
        more = 'host = "0.0.0.0"\nworkers = 3\ntransport = "aiohttp"\nreceipts = 5\n[server.connections]\nidle = 7\n'
        write(path, server.url, key="new", server=more)
        up.hang_up()
        fixed = "server.host, server.workers, server.transport, server.connections.idle"
        await up.command.writes(f"{fixed}: the change takes effect after a restart")
        await up.command.writes("dragoman has reloaded")
        assert (await up.ask("new"))[0] == 200


async def test_without_a_file_there_is_nothing_to_reload() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        for args, env in (
            (("--base-url", f"{server.url}/v1"), {}),
            ((), {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.url}/v1"}),
            (("--simulate",), {}),
        ):
            async with single(*args, env=env) as up:
                up.hang_up()
                await up.command.writes("there is nothing to reload")
                up.hang_up()
                await up.command.writes("there is nothing to reload")
                status, body = await up.ask("any")
                assert (status, json.loads(body)["object"]) == (200, "chat.completion")


# --- in this process -------------------------------------------------------------------------------------------------


async def test_a_request_keeps_the_configuration_that_it_was_admitted_by() -> None:
    """Its body comes after the reload."""
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as before,
        ScriptedServer(answer(200, dump(reply(CHAT)))) as after,
        gate(config_for(before.url, CHAT, keys=("old",))) as entrance,
    ):
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            whole = dump(request(CHAT, model="m"))
            yield whole[:10]
            begun.set()
            await go_on.wait()
            yield whole[10:]

        async def ask() -> int:
            headers = {"x-api-key": "old", "content-type": "application/json"}
            async with entrance.session.post(entrance.url + PATHS[CHAT], data=body(), headers=headers) as got:
                return got.status

        asked = asyncio.create_task(ask())
        await begun.wait()
        await until(lambda: bool(entrance.gateway.services.bodies._timers))
        entrance.gateway.reconfigure(config_for(after.url, CHAT, keys=("new",)))
        go_on.set()
        assert await asyncio.wait_for(asked, 30) == 200
        assert (len(before.requests), len(after.requests)) == (1, 0)
        async with entrance.post(CHAT, headers={"x-api-key": "new"}) as got:
            assert got.status == 200
        assert (len(before.requests), len(after.requests)) == (1, 1)


async def test_an_open_stream_does_not_keep_the_old_configuration() -> None:
    resume = asyncio.Event()
    async with (
        ScriptedServer(paused(resume)) as server,
        gate(config_for(server.url, CHAT)) as entrance,
    ):
        stream = asyncio.create_task(entrance.stream(MESSAGES))
        await until(lambda: bool(server.requests))
        gateway = entrance.gateway
        await until(lambda: any(receipt.begun_at is not None for receipt in gateway.receipts._filed.values()))
        old = weakref.ref(gateway.services.loaded)
        for number in range(3):
            gateway.reconfigure(config_for(server.url, CHAT, keys=(f"key {number}",)))
        gc.collect()
        assert old() is None
        resume.set()
        assert judge(MESSAGES, await stream).text == TEXT


async def test_a_wrong_configuration_leaves_the_gateway_as_it_was() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        gateway = entrance.gateway
        loaded = gateway.services.loaded
        with pytest.raises(ConfigError, match="unknown provider"):
            gateway.reconfigure(replace(gateway.config, routes=[Route("*", "nowhere")]))
        assert gateway.services.loaded is loaded
        async with entrance.post(CHAT) as got:
            assert got.status == 200


async def test_fewer_receipts_are_kept_after_a_reload() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        gateway = entrance.gateway
        ids = []
        for _ in range(4):
            async with entrance.post(CHAT) as got:
                ids.append(got.headers["x-dragoman-request-id"])
        for keep, kept in ((3, ids[1:]), (1, ids[3:]), (0, [])):
            gateway.reconfigure(config_for(server.url, CHAT, receipts=keep))
            assert [request_id for request_id in ids if gateway.receipts.find(request_id, b"")] == kept


async def test_limits_of_a_reload_hold_for_the_next_body() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        config: Config = entrance.gateway.config
        limits = replace(config.server.limits, request_body=20)
        entrance.gateway.reconfigure(replace(config, server=replace(config.server, limits=limits)))
        assert (await entrance.refusal(CHAT))[0] == 413
