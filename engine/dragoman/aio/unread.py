"""A check for bytes, an end or an error of a socket that the event loop has not read yet."""

from __future__ import annotations

import select
import sys


def has_unread(fd: int) -> bool:
    """Return True if the kernel has bytes, an end or an error for the socket with this descriptor."""
    if sys.platform == "win32":
        return bool(select.select((fd,), (), (), 0)[0])
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
