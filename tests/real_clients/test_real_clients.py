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


@pytest.mark.parametrize("upstream", UPSTREAMS)
@EACH
async def test_the_client_works_through_a_session_with_tools(client: Client, upstream: str) -> None:
    prefix = await asyncio.to_thread(_prefix, client)
    played = await play(client, upstream, prefix)
    assert not played.wrong
    assert played.requests > 1


def _prefix(client: Client) -> Path:
    if not _WANTED:
        pytest.skip("real clients run with DRAGOMAN_CLIENTS=1, which installs them")
    try:
        return packages.install(client)
    except packages.NotInstalled as error:
        pytest.skip(str(error))
