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

CANCELS: Final = 4
"""Requests whose client has left that are cancelled in a turn: each takes up to a quarter of a millisecond."""
ENDS: Final = 4
"""Replies whose end is handled in a turn: each takes a tenth of a millisecond."""
READS: Final = 4
"""New connections that are begun in a turn, and reads of requests that are parsed in it: each takes a tenth of a
millisecond."""
CONNECTS: Final = 4
"""Upstream connections that are begun, or used once they are there, in a turn: each takes a tenth of a millisecond."""
SECONDS: Final = 0.004
"""The time in which so many are called at once. A callback of the event loop for each turn would cost more. A turn that
takes longer has more of them, so that others do not take all of the time."""


class FewPerTurn:
    """Calls callbacks at once, up to `most` in `SECONDS` of `clock`; further ones in the next turns of the event loop,
    `most` in each, or in `SECONDS` of a longer turn, in their order.

    While callbacks of `first` wait, those that wait here go on waiting.
    """

    __slots__ = ("_called", "_clock", "_first", "_most", "_since", "_turn", "_waiting")

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
        self._turn = 0.0
        """The time of the last turn in which callbacks waited."""

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
            self._turn = self._clock()
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._waiting.append(callback)

    def _next_turn(self) -> None:
        waiting = self._waiting
        before, self._turn = self._turn, self._clock()
        try:
            if self._first is None or not self._first._waiting:
                most = round(self._most * max(1.0, (self._turn - before) / SECONDS))
                for _ in range(min(most, len(waiting))):
                    waiting.popleft()()
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._next_turn)


def _end(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
