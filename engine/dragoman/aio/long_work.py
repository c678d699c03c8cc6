"""Long work in parts: every other turn of the event loop has one part, whatever the number of fast streams.

So the others wait for one part, and the fast ones share the turns in the order in which they come. aiohttp's client
takes two turns for a read: the first receives the data, and the second runs the task that waits for it. Were each turn
to have a part, such a read would wait for two.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary

Callback = Callable[[], object]


class LongWork:
    """The parts that wait for a turn of one event loop."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callback] = deque()
        """The first one is scheduled."""

    def add(self, part: Callback) -> None:
        """Call `part` in a turn after the next one."""
        self._waiting.append(part)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._skip)

    def _run(self) -> None:
        part = self._waiting.popleft()
        if self._waiting:
            self._loop.call_soon(self._skip)
        part()

    def _skip(self) -> None:
        self._loop.call_soon(self._run)


_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, LongWork] = WeakKeyDictionary()


def long_work(loop: asyncio.AbstractEventLoop) -> LongWork:
    """Return the long work of an event loop."""
    found = _OF_LOOPS.get(loop)
    if found is None:
        found = _OF_LOOPS[loop] = LongWork(loop)
    return found


async def next_turn() -> None:
    """Wait for a turn of the event loop that has no other part. Works in a task, and in an `InlineTask` unlike
    `asyncio.sleep(0)`."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    long_work(loop).add(partial(_end, turn))
    await turn


def _end(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
