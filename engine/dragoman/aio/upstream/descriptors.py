"""The process's file descriptors, without which no connection can be opened."""

from __future__ import annotations

import errno
import os
import socket

from dragoman.errors import DragomanError, Failure, FailureKind, FailureOrigin

_ADVICE = "raise `ulimit -n`, or LimitNOFILE of its service"
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE))


def descriptors_exhausted() -> bool:
    """Return whether the process, or the system, has no free file descriptor."""
    try:
        os.close(os.dup(2))
    except OSError as error:
        return error.errno in _EXHAUSTED  # a process without standard error has free ones
    return False


def descriptor_failure(error: BaseException) -> DragomanError | None:
    """Return the gateway's own failure (503) of an error that a missing file descriptor has caused, None of any other.

    No upstream has failed. A lookup of a name that cannot open its files reports another reason.
    """
    found = isinstance(error, OSError) and error.errno in _EXHAUSTED
    if not found and not (isinstance(error, socket.gaierror) and descriptors_exhausted()):
        return None
    message = f"the gateway has no free file descriptor for this request: {_ADVICE}"
    headers = {"retry-after": "1"}
    return DragomanError(
        Failure(FailureKind.OVERLOADED, message, 503, headers=headers, origin=FailureOrigin.PROXY, reason="overloaded")
    )
