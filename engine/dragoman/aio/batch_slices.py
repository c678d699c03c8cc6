"""Slices of a long batch, so that one fast stream does not keep the event loop from all others.

A network read can hold 256 KiB, and all stages run on it before the loop goes on. What a stage costs is per line rather
than per byte: 256 KiB of comments are 85,000 events. A long batch is therefore processed in slices, one per turn of the
loop.
"""

from __future__ import annotations

import asyncio
from typing import Final

SMALL: Final = 4 * 1024
"""Bytes that are always one slice: no more than some thousand lines."""
SLICE: Final = 32 * 1024
"""Bytes of a slice of ordinary lines. Ordinary deltas take a third of a millisecond."""
LINES: Final = 1024
"""Lines of a slice longer than `DENSE`, if the batch is longer than `SMALL`."""
DENSE: Final = 2 * 1024
"""Bytes of a slice of short lines: a thousand of them take one or two milliseconds."""


def slice_end(data: bytes, start: int) -> int:
    """Where the slice that begins at `start` ends: behind an event's empty line, if there is one."""
    limit = start + SLICE
    if data.count(b"\n", start, limit) > LINES:
        limit = start + DENSE
    if limit >= len(data):
        return len(data)
    end = data.rfind(b"\n\n", start, limit)
    return limit if end < 0 else end + 2


async def next_turn() -> None:
    """Let the event loop handle what else is ready. Works in a task and in a `Pump`."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    loop.call_soon(_end, turn)
    await turn


def _end(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
