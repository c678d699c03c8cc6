"""Long work in parts: every other turn of the event loop has one part, whatever the number of fast streams.

So the others wait for one part, and the fast ones share the turns in the order in which they come. aiohttp's client
takes two turns for a read: the first receives the data, and the second runs the task that waits for it. Were each turn
to have a part, such a read would wait for two.

Work with little left does not wait for work with much left, and a turn has some parts of it. A stream of some deltas a
second has little left after a pause of the machine, and a thousand fast streams have much: in one queue it would wait
for a part of each of them, get more to do meanwhile, and never catch up.

A hundred fast streams may have a short read each in one turn. So a turn works on some of it at once, and the rest waits
for parts too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

Callback = Callable[[], object]

LITTLE: Final = 64 * 1024
"""Bytes left of work with little left. A fast stream has up to 256 KiB, as much as a network read."""
TOGETHER: Final = 32
"""Most parts of such work in one turn. Together they have no more left than `LITTLE`, or are one part: 64 KiB are about
two milliseconds of work, if all of it were done in this turn."""
AT_ONCE: Final = 32 * 1024
"""Bytes that are worked on at once in one turn, while nothing waits for a part: about a millisecond."""
_LONG_TURN: Final = 4
"""Of work with much left, one in so many turns has a part, however much other work there is."""


class LongWork:
    """The parts that wait for a turn of one event loop."""

    __slots__ = ("_at_once", "_long", "_loop", "_scheduled", "_short", "turns")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._short: deque[tuple[Callback, int]] = deque()
        self._long: deque[tuple[Callback, int]] = deque()
        self._scheduled = False
        self._at_once = 0
        """Bytes that were worked on at once in this turn."""
        self.turns = 0
        """The number of turns with parts so far."""

    def has_room(self, size: int) -> bool:
        """Return whether `size` bytes may be worked on at once, and count them if so. Else `add` them."""
        if self._scheduled:
            return False
        if not self._at_once:
            self._loop.call_soon(self._begin_turn)
        elif self._at_once + size > AT_ONCE:
            return False
        self._at_once += size
        return True

    def _begin_turn(self) -> None:
        self._at_once = 0

    def add(self, part: Callback, left: int, size: int = AT_ONCE) -> None:
        """Call `part` in a turn after the next one. `left` is the size in bytes of the work that is left, `size` that
        of the part: of work with much left, a turn has several short ones."""
        if left <= LITTLE:
            self._short.append((part, left))
        else:
            self._long.append((part, size))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._choose)

    def _choose(self) -> None:
        """Call the next parts in the next turn, and choose again in the one after it."""
        self.turns += 1
        parts = _first(self._short, LITTLE)
        if not parts or self.turns % _LONG_TURN == 0:
            parts += _first(self._long, AT_ONCE)
        for part in parts:
            self._loop.call_soon(part)
        self._scheduled = bool(self._short or self._long)
        if self._scheduled:
            self._loop.call_soon(self._skip)

    def _skip(self) -> None:
        self._loop.call_soon(self._choose)


def _first(waiting: deque[tuple[Callback, int]], most: int) -> list[Callback]:
    """Remove the first parts that have at most `most` bytes together; one, if it has more. Return them."""
    parts: list[Callback] = []
    size = 0
    while waiting and len(parts) < TOGETHER and ((size := size + waiting[0][1]) <= most or not parts):
        parts.append(waiting.popleft()[0])
    return parts


_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, LongWork] = WeakKeyDictionary()


def long_work(loop: asyncio.AbstractEventLoop) -> LongWork:
    """Return the long work of an event loop."""
    found = _OF_LOOPS.get(loop)
    if found is None:
        found = _OF_LOOPS[loop] = LongWork(loop)
    return found


async def next_turn(left: int = 0, size: int = AT_ONCE) -> None:
    """Wait for a turn of the event loop with little other long work. `left` is the size in bytes of what is left to do,
    and `size` that of the part of it that is done next; work with little left goes first. Works in a task, and in an
    `InlineTask` unlike `asyncio.sleep(0)`."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    long_work(loop).add(partial(_end, turn), left, size)
    await turn


def _end(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
