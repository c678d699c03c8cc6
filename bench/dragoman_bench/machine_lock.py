"""One run at a time on a machine: two would measure each other."""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

LONGEST_WAIT = 3600.0
_STEP = 1.0


class Busy(RuntimeError):
    """Other runs went on for too long."""


@asynccontextmanager
async def turn(
    say: Callable[[str], None], path: Path | None = None, longest: float = LONGEST_WAIT, step: float = _STEP
) -> AsyncIterator[None]:
    """Wait until no other run goes on, at most `longest` seconds. Raises Busy.

    The lock is on a file of the temporary folder and goes with the process that holds it, however it ends.
    """
    path = path or Path(tempfile.gettempdir()) / f"dragoman-bench-{os.getuid()}.lock"
    with path.open("w") as file:
        for number in range(max(1, round(longest / step))):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if number == 0:
                    say("another run is going on here: this one waits for its end (Ctrl-C to give up)")
                await asyncio.sleep(step)
        else:
            raise Busy(f"another run still goes on after {longest:.0f} s; {path} is its lock")
        yield
