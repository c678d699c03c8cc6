"""SIGHUP: the configuration is read again and all workers are replaced, while clients go on as if nothing happened."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from pathlib import Path

import pytest

from dragoman.dialects import Dialect
from support.exposed import total
from support.fleet import Crowd, Fleet, alive, fleet
from support.gateways import CHAT, MESSAGES, until
from support.samples import PATHS, TEXT, dump, judge, reply, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Stall, Step, Wait, answer, chunk, sse_head, stream
from support.websockets import paused, speaking, text_of


def write(path: Path, url: str, model: str, server: str = "", *, slow: str | None = None) -> str:
    """A configuration that lists one model, and has an upstream of its own for the model `slow`.

    The upstreams are not asked for their models: each request that they get is a client's.
    """
    path.write_text(
        f'[server]\n{server}\n[models]\ndiscover = false\n[providers.up]\ndialect = "chat"\nbase_url = "{url}/v1"\n'
        f'[providers.slow]\ndialect = "chat"\nbase_url = "{slow or url}/v1"\n'
        '[[routes]]\nmodel = "slow*"\nprovider = "slow"\n'
        f'[[routes]]\nmodel = "{model}"\nprovider = "up"\n[[routes]]\nmodel = "*"\nprovider = "up"\n'
    )
    return str(path)


async def models(up: Fleet) -> list[str]:
    return [model["id"] for model in json.loads((await up.get("/v1/models"))[1])["data"]]


async def reloaded(up: Fleet, workers: int = 2) -> list[int]:
    """Replace all workers. Return the process ids of the old ones."""
    old = list(up.pids.values())
    up.signal(signal.SIGHUP)
    await up.reports_ready(workers)
    await up.command.writes(f"dragoman has reloaded; workers: {workers}")
    return old


async def test_no_one_is_refused_and_open_streams_go_on(tmp_path: Path) -> None:
    resume = asyncio.Event()
    frames = [Send(chunk(frame)) for frame in text_stream(CHAT, counted=False)]
    paused: list[Step] = [Send(sse_head()), *frames[:4], Wait(resume), *frames[4:], Send(LAST_CHUNK)]
    path = tmp_path / "config.toml"
    async with (
        ScriptedServer(paused) as slow,
        ScriptedServer(answer(200, dump(reply(CHAT)))) as quick,
        fleet(write(path, quick.url, "before", slow=slow.url)) as up,
    ):
        open_streams = [asyncio.create_task(_stream(up, client)) for client in (CHAT, MESSAGES)]
        await until(lambda: len(slow.requests) == 2)
        write(path, quick.url, "after")
        async with Crowd(up.url, 6) as crowd:
            await crowd.more(20)
            retired = await reloaded(up)
            await crowd.more(20)
            assert await models(up) == ["after"]
            # The workers of the open streams are still there for them.
            assert any(map(alive, retired))
            retired += await reloaded(up)
            await crowd.more(20)
        assert crowd.failed == []
        samples = await up.metrics()
        assert total(samples, "dragoman_open_streams") == 2
        assert total(samples, "dragoman_requests_total", ended="completed") == crowd.served
        assert total(samples, "dragoman_reloads_total", result="done") == 2
        resume.set()
        for client, whole in zip((CHAT, MESSAGES), await asyncio.gather(*open_streams), strict=True):
            assert judge(client, whole).text == TEXT
        await until(lambda: not any(map(alive, retired)))
        samples = await up.metrics()
        assert total(samples, "dragoman_requests_total", ended="completed") == crowd.served + 2
        assert total(samples, "dragoman_workers_leaving") == 0
        up.signal(signal.SIGTERM)
        assert await up.command.ends() == 0
    assert "Traceback" not in up.command.stated


async def _stream(up: Fleet, client: Dialect) -> bytes:
    body = dump(request(client, model="slow", stream=True))
    async with up.session.post(up.url + PATHS[client], data=body) as got:
        return await got.read()


async def test_a_wrong_configuration_is_refused_and_the_service_manager_is_notified(tmp_path: Path) -> None:
    path, name = tmp_path / "config.toml", str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.setblocking(False)

        async def stated(*words: str) -> None:
            for word in words:
                async with asyncio.timeout(30):
                    data = await asyncio.get_running_loop().sock_recv(manager, 1000)
                assert data.decode().split("\n")[0] == word

        async with fleet(write(path, "http://127.0.0.1:9", "before"), env={"NOTIFY_SOCKET": name}) as up:
            await stated("READY=1")
            for wrong, file, noted in (
                ("[server]\nport = 'eighty'\n", r"config\.toml: ", "server.port: expected an integer"),
                (
                    "[server]\nhost = '127.0.0.2'\n[providers.a]\ndialect = 'chat'\nbase_url = 'http://h'\n",
                    "",
                    "server.host: cannot change while the gateway runs",
                ),
                ("[server]\n", "", "has no provider"),
                ("[server\n", "", "is not TOML"),
            ):
                path.write_text(wrong)
                up.signal(signal.SIGHUP)
                await up.command.writes(f"{file}the new configuration is refused, the old one stays:")
                await up.command.writes(noted)
                await stated("RELOADING=1", "READY=1")
                assert await models(up) == ["before"]
            assert all(map(alive, up.pids.values()))
            assert total(await up.metrics(), "dragoman_reloads_total", result="refused") == 4
            up.signal(signal.SIGTERM)
            assert await up.command.ends() == 0
            await stated("STOPPING=1")


@pytest.mark.whole
async def test_fewer_workers_serve_the_same_sockets(tmp_path: Path) -> None:
    """`--workers` is not given here: the file decides."""
    path = tmp_path / "config.toml"
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        fleet(write(path, server.url, "m", "workers = 2"), workers=None) as up,
    ):
        write(path, server.url, "m", "workers = 1")
        async with Crowd(up.url, 4) as crowd:
            await reloaded(up, 1)
            await crowd.more(20)
        assert crowd.failed == []
        assert total(await up.metrics(), "dragoman_worker_up") == 1


@pytest.mark.whole
async def test_old_workers_have_their_time_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    begun: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(CHAT)[:4]), Stall()]
    async with ScriptedServer(begun) as server, fleet(write(path, server.url, "m", "reload_drain = 1")) as up:
        asked = asyncio.create_task(_stream(up, MESSAGES))
        await asyncio.wait_for(server.arrived.wait(), 30)
        old = await reloaded(up)
        whole = await asyncio.wait_for(asked, 30)
        await until(lambda: not any(map(alive, old)))
    error = judge(MESSAGES, whole).error
    assert error is not None
    assert "shutting down" in error["message"]


@pytest.mark.whole
async def test_websockets_move_to_the_new_workers(tmp_path: Path) -> None:
    """An idle one is closed at once, a busy one after its turn; both connect again."""
    resume = asyncio.Event()
    path = tmp_path / "config.toml"
    async with (
        ScriptedServer(paused(CHAT, resume)) as slow,
        ScriptedServer(stream(text_stream(CHAT))) as quick,
        fleet(write(path, quick.url, "before", slow=slow.url)) as up,
    ):
        async with speaking(up.url) as idle, speaking(up.url) as busy:
            assert text_of(await idle.turn()) == TEXT
            await busy.create(model="slow")
            await busy.until("response.output_text.delta")
            old = await reloaded(up)
            assert await idle.closed() == 1001
            resume.set()
            assert (await busy.rest())[-1]["type"] == "response.completed"
            assert await busy.closed() == 1001
        async with speaking(up.url) as again:
            assert text_of(await again.turn()) == TEXT
        await until(lambda: not any(alive(pid) for pid in old))
