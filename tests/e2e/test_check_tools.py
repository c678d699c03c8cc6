"""`dragoman check --connect --tools` as a process, before the simulated upstream."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from aiohttp import web

from dragoman_server.cli.main import main
from dragoman_server.simulator import REQUESTS
from oracles.simulator import strict_simulator
from support.commands import run
from support.gateways import served

KEY = "sk-very-secret-4711"
CONFIG = """\
[providers.up]
dialect = "chat"
profile = "openai"
base_url = "{url}/v1"
api_key = "{key}"
[[routes]]
model = "good"
provider = "up"
upstream_model = "sim-tools"
[usage]
kind = "sqlite"
path = "usage.db"
"""


async def check(path: Path, *words: str) -> tuple[int, str, str]:
    """The exit status, standard output and standard error."""
    status, out, err = await run("check", "--connect", "--tools", str(path), *words)
    assert KEY not in (shown := out + err), shown
    assert "Traceback" not in shown
    return status, out, err


def posts(simulator: web.Application) -> list[str]:
    return [each.path for each in simulator[REQUESTS]]


async def test_each_dialect_is_asked_once_and_nothing_else_is_sent(tmp_path: Path) -> None:
    simulator = strict_simulator(require_key=True)
    async with served(simulator) as (url, _):
        path = tmp_path / "dragoman.toml"
        path.write_text(CONFIG.format(url=url, key=KEY))
        status, out, err = await check(path)
    assert status == 0, out + err
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [
        ["up", "sim-tools", client] for client in ("chat", "messages", "responses")
    ]
    assert posts(simulator) == ["/v1/chat/completions"] * 3
    assert all(request.body["model"] == "sim-tools" for request in simulator[REQUESTS])
    assert "tool calls to ask for: 3" in err
    assert os.listdir(tmp_path) == [path.name], "nothing is kept"


async def test_a_difference_is_an_exit_status(tmp_path: Path) -> None:
    async with served(strict_simulator()) as (url, _):
        path = tmp_path / "dragoman.toml"
        path.write_text(CONFIG.format(url=url, key=KEY))
        status, out, _ = await check(path, "--json", "--ask", "up/sim-error-401", "--ask", "up/sim-text")
    assert status == 1
    data = json.loads(out)
    assert (data["object"], data["ok"]) == ("dragoman.check", False)
    found = [(each["model"], [one["code"] for one in each["differences"]]) for each in data["tools"]["asked"]]
    assert found == [("sim-error-401", ["key"])] * 3 + [("sim-text", ["no_call"])] * 3


def test_options_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(CONFIG.format(url="http://127.0.0.1:9", key=KEY))
    assert main(["check", "--tools", str(path)]) == 2
    assert main(["check", "--connect", "--ask", "up/m", str(path)]) == 2
    assert main(["check", "--connect", "--tools", "--ask", "other/", "--ask", "m", str(path)]) == 1
    err = capsys.readouterr().err
    assert "--tools: needs --connect" in err
    assert "--ask: needs --connect --tools" in err
