"""Modules of this folder with `BOTH_LOOPS = True` run on asyncio's own loop and on uvloop, the rest on uvloop.

Where a module has `TAKEN = True`, each of its streams is in one run taken from aiohttp as soon as it has begun, in the
other one it ends before that (`dragoman.aio.downstream.hijack`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
import uvloop

from dragoman.aio.downstream.response import DownstreamResponse
from support.browser import chromium

_LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """pytest-asyncio's hook: the loops a test runs on."""
    both = getattr(getattr(item, "module", None), "BOTH_LOOPS", False)
    return _LOOPS if both else {"uvloop": _LOOPS["uvloop"]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both ways, where a module asks for it."""
    if getattr(metafunc.module, "TAKEN", False):
        metafunc.parametrize("taken", [False, True], ids=["kept", "taken"], indirect=True)


@pytest.fixture(autouse=True)
def taken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether each stream is taken from aiohttp at its beginning."""
    at_once = bool(getattr(request, "param", False))
    if at_once:
        flush = DownstreamResponse.flush

        def flush_and_settle(client: DownstreamResponse) -> None:
            flush(client)
            client.detach()

        monkeypatch.setattr(DownstreamResponse, "flush", flush_and_settle)
    return at_once


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Any]:
    """A browser for all tests of a process with pages, which run on one loop."""
    async with chromium() as browser:
        yield browser
