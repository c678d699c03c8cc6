"""Reports that the process has no free file descriptor: new connections are closed at once then, without a response."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable

log = logging.getLogger("dragoman")
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE))


def _probe() -> None:
    os.close(os.dup(2))


class DescriptorWatch:
    """Tries whether a descriptor is free. `probe` opens one and closes it."""

    def __init__(self, probe: Callable[[], None] = _probe) -> None:
        self._probe = probe
        self.exhausted = False
        """True if the last update found no free descriptor."""

    def update(self) -> None:
        """Try to open a descriptor, and log a change."""
        exhausted = False
        try:
            self._probe()
        except OSError as error:
            exhausted = error.errno in _EXHAUSTED
        if exhausted and not self.exhausted:
            log.error(
                "the gateway has no free file descriptor, so it can accept no connection and open none:"
                " raise `ulimit -n`, or LimitNOFILE of its service"
            )
        elif self.exhausted and not exhausted:
            log.warning("the gateway has free file descriptors again")
        self.exhausted = exhausted
