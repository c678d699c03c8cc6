"""Where a body's work is done: a long one's in a thread, in which clients take turns."""

from __future__ import annotations

import asyncio
import threading

import pytest
from aiohttp.test_utils import make_mocked_request

from dragoman_server.proxy import long_bodies
from dragoman_server.proxy.long_bodies import LONG_BODY, compute


@pytest.mark.parametrize("size", [0, LONG_BODY, LONG_BODY + 1])
async def test_only_a_long_body_needs_a_thread(size: int) -> None:
    found = await compute(size, threading.current_thread, b"")
    assert (found is threading.main_thread()) is (size <= LONG_BODY)


async def test_clients_differ_by_key_else_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[object] = []

    async def run(client: object, job: object) -> None:
        clients.append(client)

    monkeypatch.setattr(long_bodies, "off_loop", run)
    request = make_mocked_request("POST", "/")
    await asyncio.gather(
        compute(LONG_BODY + 1, lambda: None, b"digest", request),
        compute(LONG_BODY + 1, lambda: None, b"", request),
        compute(LONG_BODY + 1, lambda: None, b""),
    )
    assert clients == [b"digest", request.remote, None]
