"""Every test of this folder runs on both transports and both event loops, over real sockets.

Modules with `STEPPED = True` are about bodies and read them in both ways (see `support.transports`).
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from support.transports import Client, make, open_sockets
from support.waiting import until
from transport.differences import AIOHTTP

# Leaks and buffers are asked of the kernel, by the files of Linux.
collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """pytest-asyncio's hook: the loops a test runs on."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The transports, and the ways to read."""
    if "client" in metafunc.fixturenames:
        stepped = ["raw-stepped"] if getattr(metafunc.module, "STEPPED", False) else []
        metafunc.parametrize("client", ["aiohttp", "raw", *stepped], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the known differences of aiohttp, and limit each test to half a minute, which only a defect needs."""
    for item in items:
        if item.path.parent == Path(__file__).parent and isinstance(item, pytest.Function):
            if not asyncio.iscoroutinefunction(item.obj):
                continue
            item.obj = _bounded(item.obj)
            name, _, parameters = item.name.partition("[")
            _, _, rest = parameters.rstrip("]").partition("-")
            transport, _, rest = rest.partition("-")
            why = AIOHTTP.get(name) or AIOHTTP.get(f"{name}[{rest}]")
            if transport == "aiohttp" and why:
                item.add_marker(pytest.mark.xfail(strict=True, reason=f"aiohttp {why}"))


def _bounded(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    @functools.wraps(test)
    async def bounded(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(30):
            await test(*args, **kwargs)

    return bounded


@pytest.fixture(autouse=True)
async def no_socket_left() -> AsyncIterator[None]:
    """No socket is left behind, whatever the test was about."""
    before = open_sockets()
    yield
    await until(lambda: open_sockets() <= before)


@pytest.fixture
async def client(no_socket_left: None, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """The transport under test."""
    name, _, stepped = request.param.partition("-")
    upstream = make(name)
    yield Client(name, upstream, bool(stepped))
    await upstream.close()
