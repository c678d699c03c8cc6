"""The log of `dragoman serve` as a process: JSON objects, levels, and both spellings of the file."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.commands import Command, command, new_process
from support.gateways import CHAT
from support.samples import PATHS, dump, reply, request
from support.sockets import ScriptedServer, answer

pytestmark = pytest.mark.turns  # a row starts a process or more

KEY = "sk-very-secret-4711"


def _file(path: Path, url: str) -> str:
    path.write_text(
        f'[server]\nport = 0\n[providers.up]\ndialect = "chat"\nbase_url = "{url}/v1"\napi_key = "{KEY}"\n'
        '[[routes]]\nmodel = "gpt-*"\nprovider = "up"\nupstream_model = "small"\n'
    )
    return str(path)


async def _asked(url: str, model: str) -> int:
    body = dump(request(CHAT, model=model))
    async with aiohttp.ClientSession() as session, session.post(url + PATHS[CHAT], data=body) as response:
        await response.read()
        return response.status


async def _ended(process: Command) -> None:
    process.process.send_signal(signal.SIGTERM)
    assert await process.ends() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_json_is_one_object_for_each_line(tmp_path: Path, workers: str) -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        name = _file(tmp_path / "a.toml", server.url)
        words = ("-c", name, "--log-format", "json", "--workers", workers)
        async with new_process("serve", *words) as process:  # forks of workers have the logs of the tests
            url = (await process.writes(r"dragoman listens on (http://[0-9.:]+)"))[1]
            assert await _asked(url, "gpt-5") == 200
            assert await _asked(url, "other") == 404
            await process.writes('"status":404')
            await _ended(process)
    records: list[dict[str, Any]] = [json.loads(line) for line in process.stated.splitlines()]
    assert all({"time", "level", "logger", "message"} <= record.keys() for record in records)
    # Two workers write to one stream, each in its own order.
    done, rejected = sorted((r for r in records if r.get("event") == "request"), key=lambda r: int(r["status"]))
    assert (done["route"], done["model"], done["upstream_model"]) == ("gpt-*", "gpt-5", "small")
    assert (done["status"], done["tokens_in"], done["tokens_out"]) == (200, 5, 9)
    assert ("worker" in done) is (workers == "2")
    assert (rejected["ended"], rejected["status"], rejected["error"]) == ("rejected", 404, "model_not_found")
    assert KEY not in process.stated


@pytest.mark.parametrize(
    ("words", "debug", "lines"),
    [
        ((), False, True),
        (("--verbose",), True, True),
        (("--log-level", "debug"), True, True),
        (("--quiet",), False, False),
        (("--log-level", "warning"), False, False),
    ],
)
async def test_how_much_is_logged(tmp_path: Path, words: tuple[str, ...], debug: bool, lines: bool) -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        command("serve", _file(tmp_path / "a.toml", server.url), *words) as process,
    ):
        url = (await process.writes(r"dragoman listens on (\S+)"))[1]
        assert await _asked(url, "gpt-5") == 200
        await _ended(process)
    assert (" DEBUG " in process.stated) is debug
    assert (" INFO req_" in process.stated) is lines
    assert KEY not in process.stated


async def test_two_files_are_refused(tmp_path: Path) -> None:
    name = _file(tmp_path / "a.toml", "http://127.0.0.1:9")
    async with command("serve", name, "--config", name) as process:
        assert await process.ends() == 2
    assert "two configuration files are given: give one" in process.stated
