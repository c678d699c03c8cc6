"""Modules of this folder that say `BOTH_LOOPS = True` run on asyncio's own loop and on uvloop, the rest on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

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
