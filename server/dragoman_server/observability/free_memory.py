"""Returns memory that the C library keeps free to the system.

glibc keeps freed blocks, as small objects in use lie between them: after 1,000 clients that had stopped reading have
left, 300 MB of a process are free, and still its resident memory.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Any


@cache
def _malloc_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None  # another C library


def return_free_memory() -> None:
    """Return free memory to the system, with glibc. It takes 30 ms for 100 MB, and holds the process."""
    if (trim := _malloc_trim()) is not None:
        trim(0)


def free_all() -> None:
    """Collect garbage, and return free memory to the system."""
    gc.collect()
    return_free_memory()
