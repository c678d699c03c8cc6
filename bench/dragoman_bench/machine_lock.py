"""Lock that allows one run at a time on a machine: two runs would disturb each other."""

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
    """Other runs took too long."""


@asynccontextmanager
async def machine_lock(
    log: Callable[[str], None], path: Path | None = None, longest: float = LONGEST_WAIT, step: float = _STEP
) -> AsyncIterator[None]:
    """Wait at most `longest` seconds until no other run is active. Raises Busy.

    The lock is on a file in the temporary folder; the system releases it when the process ends.
    """
    path = path or Path(tempfile.gettempdir()) / f"dragoman-bench-{os.getuid()}.lock"
    with path.open("w") as file:
        for number in range(max(1, round(longest / step))):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if number == 0:
                    log("another run is active on this machine: waiting for its end (Ctrl-C to cancel)")
                await asyncio.sleep(step)
        else:
            raise Busy(f"another run is still active after {longest:.0f} s; {path} is its lock")
        yield
