"""Runs at most so many callbacks in a turn of the event loop.

When thousands of clients come or leave at a time, the others would wait for all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Final

CANCELS: Final = 32
"""Requests whose client has left that are cancelled in a turn: each takes some 50 microseconds."""
ENDS: Final = 16
"""Replies whose end is handled in a turn: each takes a tenth of a millisecond."""
SECONDS: Final = 0.004
"""The time in which so many are called at once. A callback of the event loop for each turn would cost more."""


class FewPerTurn:
    """Calls callbacks at once, up to `most` in `SECONDS` of `clock`; further ones in the next turns of the event loop,
    `most` in each, in their order.

    While callbacks of `first` wait, those that wait here go on waiting.
    """

    __slots__ = ("_called", "_clock", "_first", "_most", "_since", "_waiting")

    def __init__(
        self, most: int, first: FewPerTurn | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._first = first
        self._clock = clock
        self._waiting: deque[Callable[[], object]] = deque()
        self._since = float("-inf")
        self._called = 0
        """The number of callbacks that were called at once since `_since`."""

    def __repr__(self) -> str:
        return f"<FewPerTurn {self._most} waiting={len(self._waiting)}>"

    def __len__(self) -> int:
        return len(self._waiting)

    def call(self, callback: Callable[[], object]) -> None:
        """Call `callback` at once, or with the caller's context variables in a later turn."""
        if self.has_room():
            callback()
        else:
            self._wait(partial(copy_context().run, callback))

    async def next_turn(self) -> None:
        """Wait for a turn with room."""
        turn = asyncio.get_running_loop().create_future()
        self._wait(partial(_end, turn))
        await turn

    def has_room(self) -> bool:
        """Return whether a callback may be called at once, and count it if so."""
        if self._waiting:
            return False
        now = self._clock()
        if now - self._since >= SECONDS:
            self._since, self._called = now, 0
        elif self._called >= self._most:
            return False
        self._called += 1
        return True

    def _wait(self, callback: Callable[[], object]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._waiting.append(callback)

    def _next_turn(self) -> None:
        waiting = self._waiting
        try:
            if self._first is None or not self._first._waiting:
                for _ in range(min(self._most, len(waiting))):
                    waiting.popleft()()
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._next_turn)


def _end(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
