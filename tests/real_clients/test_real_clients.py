"""Every cell of the table of real clients, with `DRAGOMAN_CLIENTS=1`: it fetches what is missing, and takes minutes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from real_clients import packages
from real_clients.contract import Client
from real_clients.registry import CLIENTS
from real_clients.rounds import UPSTREAMS, play

_WANTED = os.environ.get("DRAGOMAN_CLIENTS") == "1"
EACH = pytest.mark.parametrize("client", [pytest.param(client, id=client.name) for client in CLIENTS])
UNASKED = {
    "AI SDK, openai Responses, `store: false`",
    "openai Chat (Node)",
    "openai Chat (Python)",
    "openai-agents Chat (Python)",
    "pydantic-ai, OpenAI Chat",
}
"""Clients that request no reasoning here. Other upstreams show theirs all the same."""


@pytest.mark.parametrize("upstream", UPSTREAMS)
@EACH
async def test_the_client_works_through_a_session_with_tools(client: Client, upstream: str) -> None:
    prefix = await asyncio.to_thread(_prefix, client)
    played = await play(client, upstream, prefix)
    assert not played.wrong
    assert played.requests > 1


@EACH
async def test_the_client_works_over_gemini(client: Client) -> None:
    """Gemini shows its reasoning only if the request has `includeThoughts`."""
    prefix = await asyncio.to_thread(_prefix, client)
    played = await play(client, "generate", prefix)
    problems = [each for each in played.wrong.split("; ") if each]
    if client.name in UNASKED:
        assert problems
        problems = [each for each in problems if not each.endswith("the thinking shown is ''")]
    assert problems == []
    assert played.requests > 1


def _prefix(client: Client) -> Path:
    if not _WANTED:
        pytest.skip("real clients run with DRAGOMAN_CLIENTS=1, which installs them")
    try:
        return packages.install(client)
    except packages.NotInstalled as error:
        pytest.skip(str(error))
