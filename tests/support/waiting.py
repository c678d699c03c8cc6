"""Waiting in tests: for turns of the event loop, and for what nothing announces."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

PATIENCE = 30.0
"""Seconds that a test waits for an event that must come: a busy machine needs a few, only a defect needs all."""


async def turns(count: int = 3) -> None:
    """So many turns of the event loop: on loopback what was sent before them has been read after them."""
    for _ in range(count):
        await asyncio.sleep(0)


async def at_once(event: asyncio.Event) -> None:
    """It is set as soon as loopback and both sides' callbacks had their turns: no timer was waited for."""
    await turns(30)
    assert event.is_set()


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait for a condition that nothing announces. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.002)


async def until_true(ask: Callable[[], Awaitable[object]], seconds: float = PATIENCE) -> None:
    """Wait until what is asked again and again is true. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        for _ in itertools.count():
            if await ask():
                return
            await asyncio.sleep(0.05)
