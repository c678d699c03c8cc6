"""Reports that the process has no free file descriptor: new connections are closed at once then, without a response."""

from __future__ import annotations

import logging
from collections.abc import Callable

from dragoman.aio import descriptors_exhausted

log = logging.getLogger("dragoman")


class DescriptorWatch:
    """Looks whether a descriptor is free. `probe` returns True if none is."""

    def __init__(self, probe: Callable[[], bool] = descriptors_exhausted) -> None:
        self._probe = probe
        self.exhausted = False
        """True if the last update found no free descriptor."""

    def update(self) -> None:
        """Look for a free descriptor, and log a change."""
        exhausted = self._probe()
        if exhausted and not self.exhausted:
            log.error(
                "the gateway has no free file descriptor, so it can accept no connection and open none:"
                " raise `ulimit -n`, or LimitNOFILE of its service"
            )
        elif self.exhausted and not exhausted:
            log.warning("the gateway has free file descriptors again")
        self.exhausted = exhausted
