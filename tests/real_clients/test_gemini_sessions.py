"""Claude Code and Codex over a simulated Gemini that rejects unsigned calls, with `DRAGOMAN_CLIENTS=1`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from dragoman.dialects import Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.app import make_app
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Config, Route
from dragoman_server.workers.serve import listening
from oracles.gemini import SKIP, Gemini
from real_clients import agent_claude_code, agent_codex, packages
from real_clients.contract import Client, Outcome, Session
from real_clients.errand import MODEL

_WANTED = os.environ.get("DRAGOMAN_CLIENTS") == "1"
_NAMES = (
    "Claude Code",
    "Claude Code: picture, MCP tool, second prompt",
    "Codex",
    "Codex: picture, MCP tool, second prompt",
    "Codex: WebSocket first",
)
CLIENTS = [client for client in (*agent_claude_code.CLIENTS, *agent_codex.CLIENTS) if client.name in _NAMES]


@pytest.mark.parametrize("trailing", [False, True], ids=["with the call", "behind the call"])
@pytest.mark.parametrize("client", [pytest.param(client, id=client.name) for client in CLIENTS])
async def test_an_agent_works_with_gemini(client: Client, trailing: bool) -> None:
    if not _WANTED:
        pytest.skip("real clients run with DRAGOMAN_CLIENTS=1, which installs them")
    try:
        prefix = await asyncio.to_thread(packages.install, client)
    except packages.NotInstalled as error:
        pytest.skip(str(error))
    gemini = Gemini(trailing=trailing)
    async with listening(gemini.application(), "127.0.0.1", 0, drain=0.5) as upstream:
        provider = Provider("gemini", Dialect.CHAT, upstream, profile=builtin_profile("chat", "gemini"))
        routes = (Route("sim-*", "gemini"), Route("*", "gemini", upstream_model=MODEL))
        async with listening(make_app(Config({"gemini": provider}, routes)), "127.0.0.1", 0, drain=0.5) as url:
            outcome = await asyncio.to_thread(_play, client, url, prefix)
    assert outcome.ok, outcome.note
    assert {received.status for received in gemini.requests} == {200}
    assert SKIP not in str([received.body["messages"] for received in gemini.requests])


def _play(client: Client, url: str, prefix: Path) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="dragoman-client-", ignore_cleanup_errors=True) as folder:
        work, home = Path(folder) / "work", Path(folder) / "home"
        work.mkdir()
        home.mkdir()
        return client.session(Session(url, MODEL, prefix, work, home))
