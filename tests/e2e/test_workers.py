"""Several workers on one address: served, counted and stopped as one gateway."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman_server.config.load import simulated_config
from dragoman_server.workers.supervisor import Supervisor
from dragoman_server.workers.worker import main
from support.commands import command
from support.exposed import total
from support.fleet import Crowd, alive, fleet
from support.gateways import CHAT, MESSAGES, until
from support.samples import text_stream
from support.sockets import ScriptedServer, Send, Stall, chunk, sse_head

OWN = "x-dragoman-request-id"
SECRET = "sk-very-secret-4711"
KEYS = {"KEY_ONE": "key-one-0815", "KEY_TWO": "key-two-0816"}


def config(path: Path, url: str, more: str = "") -> str:
    """A configuration file with two keys and one upstream, which is not asked for its models."""
    path.write_text(
        f'[server]\nkeys = ["${{KEY_ONE}}", "${{KEY_TWO}}"]\n{more}\n[models]\ndiscover = false\n'
        f'[providers.up]\ndialect = "chat"\nbase_url = "{url}/v1"\napi_key = "{SECRET}"\n'
        '[[routes]]\nmodel = "*"\nprovider = "up"\n'
    )
    return str(path)


async def test_they_are_one_gateway() -> None:
    async with fleet("--simulate") as up:
        seen: set[str] = set()
        before, samples = 0.0, await up.metrics()
        for _ in range(4):
            for client in (CHAT, MESSAGES):
                for streamed in (True, False):
                    reply = await up.ask(client, stream=streamed)
                    assert reply.status == 200
                    seen.add(reply.headers[OWN])
            # Anyone who is asked has the numbers of both.
            samples = await up.metrics()
            count = total(samples, "dragoman_requests_total", ended="completed", status="2xx")
            assert count == len(seen) > before
            before = count
        assert total(samples, "dragoman_worker_up", worker="1") == 1
        assert total(samples, "dragoman_worker_up", worker="2") == 1
        assert total(samples, "dragoman_first_event_seconds_count") == 8
        assert total(samples, "dragoman_tokens_total", kind="output") > 0
        assert total(samples, "dragoman_build_info") == 1
        # A receipt is found whichever worker keeps it, and whichever is asked.
        for request_id in seen:
            status, body = await up.get(f"/v1/dragoman/receipts/{request_id}")
            assert (status, json.loads(body)["request_id"]) == (200, request_id)
        assert (await up.get("/v1/dragoman/receipts/req_none"))[0] == 404
        # So are the last ones, of all workers.
        for limit, expected in ((100, len(seen)), (3, 3)):
            status, body = await up.get(f"/v1/dragoman/receipts?limit={limit}")
            rows = json.loads(body)["data"]
            assert (status, len(rows)) == (200, expected)
            assert {row["request_id"] for row in rows} <= set(seen)
            assert rows == sorted(rows, key=lambda row: row["created"], reverse=True)
        # Another gateway with workers could share the port without a word.
        async with command("serve", "--simulate", "--port", up.url.rpartition(":")[2], "--workers", "2") as running:
            assert await running.ends() == 1
        assert "address already in use" in running.stated
        up.signal(signal.SIGTERM)
        assert await up.command.ends() == 0
    assert not any(map(alive, up.pids.values()))
    assert "dragoman stops" in up.command.stated
    assert "Traceback" not in up.command.stated


async def test_keys_guard_metrics_and_receipts_and_are_on_no_command_line(tmp_path: Path) -> None:
    async with (
        ScriptedServer([Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(CHAT)), Stall()]) as server,
        fleet(config(tmp_path / "config.toml", server.url), new=True, env=KEYS) as up,
    ):
        replies = [await up.ask(MESSAGES, stream=True, headers={"x-api-key": KEYS["KEY_ONE"]}) for _ in range(6)]
        for reply in replies:
            path = f"/v1/dragoman/receipts/{reply.headers[OWN]}"
            assert (await up.get(path, authorization=f"Bearer {KEYS['KEY_ONE']}"))[0] == 200
            assert (await up.get(path, authorization=f"Bearer {KEYS['KEY_TWO']}"))[0] == 404
            assert (await up.get(path))[0] == 401
        assert (await up.get("/metrics"))[0] == 401
        samples = await up.metrics(authorization=f"Bearer {KEYS['KEY_TWO']}")
        assert total(samples, "dragoman_requests_total", provider="up", route="*") == 6
        lines = up.command_lines()
        assert "dragoman_server.workers.worker" in lines
        assert not [key for key in (SECRET, *KEYS.values()) if key in lines]
        up.signal(signal.SIGTERM)
        await up.command.ends()
    assert SECRET not in up.command.stated


async def test_a_worker_that_is_lost_is_replaced_and_no_counter_goes_down() -> None:
    async with fleet("--simulate") as up:
        for _ in range(6):
            assert (await up.ask(CHAT)).status == 200
        assert total(await up.metrics(), "dragoman_requests_total") == 6
        lost = up.pids[1]
        up.signal(signal.SIGKILL, 1)
        await up.command.writes(rf"worker 1 \(pid {lost}\) was killed by SIGKILL")
        # Its share of the connections goes to the other at once: none has to wait for the next worker.
        for _ in range(6):
            assert (await up.ask(CHAT)).status == 200
        await up.reports_ready(1)
        assert up.pids[1] != lost
        samples = await up.metrics()
        assert total(samples, "dragoman_requests_total") == 12
        assert total(samples, "dragoman_worker_restarts_total", worker="1") == 1
        # One that is asked to leave by its own process id is replaced as well, and states its numbers before.
        up.signal(signal.SIGTERM, 2)
        await up.command.writes(r"worker 2 \(pid \d+\) ended with status 0")
        await up.reports_ready(1)
        for _ in range(6):
            assert (await up.ask(CHAT)).status == 200
        samples = await up.metrics()
        assert total(samples, "dragoman_requests_total") == 18
        assert total(samples, "dragoman_worker_up") == 2
        # Workers do not outlive their supervisor, however it ends.
        up.signal(signal.SIGKILL)
        await until(lambda: not any(map(alive, up.pids.values())))


async def test_a_second_signal_does_not_wait_for_open_replies(tmp_path: Path) -> None:
    async with (
        ScriptedServer([Send(sse_head()), Stall()]) as server,
        fleet(config(tmp_path / "config.toml", server.url), env=KEYS) as up,
    ):
        asked = asyncio.create_task(up.ask(CHAT, stream=True, headers={"x-api-key": KEYS["KEY_ONE"]}))
        await asyncio.wait_for(server.arrived.wait(), 30)
        up.signal(signal.SIGINT)
        await up.command.writes("dragoman stops")
        up.signal(signal.SIGINT)
        assert await up.command.ends(9) == 0
        assert "is killed" not in up.command.stated
        assert "shutting down" in await (await asked).text()
    assert not any(map(alive, up.pids.values()))


async def test_what_keeps_it_from_starting_is_reported_once(tmp_path: Path) -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with taken:
        port = str(taken.sockets[0].getsockname()[1])
        async with command("serve", "--simulate", "--port", port, "--workers", "3") as running:
            assert await running.ends() == 1
    assert running.stated.count(f"cannot listen on 127.0.0.1:{port}: address already in use") == 1
    assert len(running.stated.splitlines()) == 1
    path = tmp_path / "bad.toml"
    path.write_text('[server]\nworkers = -1\n[providers.x]\ndialect = "klingon"\nbase_url = "http://x"\n')
    async with command("serve", str(path)) as running:
        assert await running.ends() == 2
    assert running.stated.count("klingon") == 1
    assert "server.workers: expected" in running.stated


@pytest.mark.whole
async def test_where_the_system_does_not_spread_connections_they_share_one_socket() -> None:
    config = simulated_config()
    config = replace(config, server=replace(config.server, port=0, workers=2))
    urls: asyncio.Queue[str] = asyncio.Queue()
    supervisor = Supervisor(config, lambda: config, lambda url, _: urls.put_nowait(url), balanced=False)
    ended = asyncio.create_task(supervisor.run())
    try:
        url = await asyncio.wait_for(urls.get(), 60)
        async with Crowd(url, 4, model="sim-text", text="You said") as crowd:
            await crowd.more(10)
            first = supervisor.pids()
            supervisor.reload()
            await until(lambda: not set(supervisor.pids()) & set(first), 60)
            await crowd.more(10)
        assert crowd.failed == []
    finally:
        supervisor.stop()
        assert await asyncio.wait_for(ended, 60) == 0


def test_a_worker_is_nothing_to_start_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    for args in ([], ["x"], ["3", "4"]):
        assert main(args) == 2
        assert "dragoman serve --workers N" in capsys.readouterr().err
