"""Slices long batches, so that one fast stream does not block the event loop for all others.

A network read can hold 256 KiB, and all stages run on it before the loop continues. The cost of a stage depends on the
number of lines more than on bytes: 256 KiB of SSE comments are 85,000 events. So a long batch is processed in slices.
A turn of the loop has one of them, whatever the number of fast streams (`long_work`).

A long write holds the loop too: for the copy to the kernel, which takes up to 6 MB at once, and under TLS for the
encryption. So a connection writes one slice of it per turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from dragoman.aio.long_work import next_turn

SMALL: Final = 2 * 1024
"""Bytes of a batch that is never sliced: at most some hundred lines."""
SLICE: Final = 32 * 1024
"""Bytes of a slice of few lines."""
LINES: Final = 12
"""Lines of a slice: six deltas or comments. Longer slices are cheaper for a stream that is sent as fast as it is
read (a delta takes 5 to 9 % less with 24 lines) and delay all other streams by as much more."""

WRITE_SLICE: Final = 512 * 1024
"""Bytes that are written to a connection in one turn. The kernel takes them in a fifth of a millisecond."""
LONG_BODY: Final = 256 * 1024
"""Bytes of a whole reply above which receiving and translating it get a turn each."""


def slice_end(data: bytes, start: int) -> int:
    """Return the end of the slice that begins at `start`: after an event's empty line, if it has one."""
    limit, size = start, len(data)
    most = min(start + SLICE, size)
    for _ in range(LINES):  # `bytes.count` takes some forty times as long for each byte
        limit = data.find(b"\n", limit, most) + 1
        if not limit:
            limit = most
            break
    if limit >= size:
        return size
    end = data.rfind(b"\n\n", start, limit)
    return limit if end < 0 else end + 2


def slices(data: bytes) -> Iterator[bytes]:
    """Yield the slices of a batch, which the caller processes in a turn of the loop each."""
    start = 0
    while start < len(data):
        end = slice_end(data, start)
        yield data[start:end]
        start = end


async def write_slices(write: Callable[[bytes], Awaitable[object]], data: bytes) -> bytes:
    """Write long data in slices of `WRITE_SLICE` bytes, one per turn of the loop. Return the last slice, which is not
    written."""
    start = 0
    while len(data) - start > WRITE_SLICE:
        await write(data[start : start + WRITE_SLICE])
        start += WRITE_SLICE
        await next_turn(len(data) - start)
    return data[start:]
