"""Agents of each dialect over a simulated Gemini that rejects unsigned calls, with `DRAGOMAN_CLIENTS=1`.

Every session has several turns. Chat clients are forwarded, and most of them do not send signatures back: their calls
get the value that Google documents for this.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.app import make_app
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from dragoman_server.workers.serve import listening
from oracles.gemini import SKIP, Gemini
from real_clients import packages
from real_clients.contract import Client, Outcome, Session
from real_clients.errand import MODEL
from real_clients.registry import CLIENTS

_WANTED = os.environ.get("DRAGOMAN_CLIENTS") == "1"
_SIGNING = (
    "Claude Code",
    "Claude Code: picture, MCP tool, second prompt",
    "Codex",
    "Codex: picture, MCP tool, second prompt",
    "Codex: WebSocket first",
    "GitHub Copilot CLI, chat",
    "GitHub Copilot CLI, responses",
    "opencode, `@ai-sdk/anthropic`",
    "opencode, `@ai-sdk/openai`",
    "pi, anthropic-messages",
    "pi, openai-responses",
)
"""Clients that send signatures back."""
_UNSIGNED = ("Continue, `anthropic`", "opencode, `@ai-sdk/openai-compatible`", "pi, openai-completions", "Qwen Code")


def _named(names: tuple[str, ...]) -> list[Any]:
    return [pytest.param(client, id=client.name) for client in CLIENTS if client.name in names]


@pytest.mark.parametrize("trailing", [False, True], ids=["with the call", "behind the call"])
@pytest.mark.parametrize("client", _named(_SIGNING))
async def test_an_agent_sends_signatures_back(client: Client, trailing: bool) -> None:
    gemini = await _session(client, Gemini(trailing=trailing))
    assert SKIP not in str([received.body["messages"] for received in gemini.requests])


@pytest.mark.parametrize("client", _named(_UNSIGNED))
async def test_an_agent_that_sends_no_signatures_back_works(client: Client) -> None:
    gemini = await _session(client, Gemini())
    assert SKIP in str([received.body["messages"] for received in gemini.requests])


async def _session(client: Client, gemini: Gemini) -> Gemini:
    """Returns the upstream after the client's session, which must have succeeded."""
    if not _WANTED:
        pytest.skip("real clients run with DRAGOMAN_CLIENTS=1, which installs them")
    try:
        prefix = await asyncio.to_thread(packages.install, client)
    except packages.NotInstalled as error:
        pytest.skip(str(error))
    async with listening(gemini.application(), "127.0.0.1", 0, drain=0.5) as upstream:
        provider = Provider("gemini", Dialect.CHAT, upstream, profile=builtin_profile("chat", "gemini"))
        routes = (Route("sim-*", "gemini"), Route("*", "gemini", upstream_model=MODEL))
        async with listening(make_app(Config({"gemini": provider}, routes)), "127.0.0.1", 0, drain=0.5) as url:
            outcome = await asyncio.to_thread(_play, client, url, prefix)
    assert outcome.ok, outcome.note
    assert {received.status for received in gemini.requests} == {200}
    return gemini


def _play(client: Client, url: str, prefix: Path) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="dragoman-client-", ignore_cleanup_errors=True) as folder:
        work, home = Path(folder) / "work", Path(folder) / "home"
        work.mkdir()
        home.mkdir()
        return client.session(Session(url, MODEL, prefix, work, home))
