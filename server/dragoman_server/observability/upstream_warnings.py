"""Failures of upstreams that somebody has to act on: which lines of the log are warnings, and how many of them.

An upstream that cannot be reached, or takes our key no longer, fails each request alike. So of each kind one line in a
while is a warning, which `--quiet` shows too, and says how many were none; each request keeps its line, as ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from dragoman.errors import Failure, FailureKind
from dragoman_server.config.providers import Auth, Provider

PAUSE: Final = 60.0
"""Seconds between two warnings of one kind about one upstream."""
_OUR_KEY: Final = frozenset({FailureKind.AUTHENTICATION, FailureKind.BILLING, FailureKind.PERMISSION})
"""What is wrong with a key: where clients bring their own, it is their business."""
_CONNECTION: Final = frozenset({"upstream_unreachable", "connect"})


class Outages:
    """Decides by `clock`, which gives seconds from any origin."""

    def __init__(self, providers: Mapping[str, Provider], clock: Callable[[], float] = time.monotonic) -> None:
        self._places = {name: provider.address() for name, provider in providers.items()}
        self._keyed = frozenset(name for name, provider in providers.items() if provider.auth is Auth.CONFIGURED)
        self._clock = clock
        self._told: dict[tuple[str | None, str], tuple[float, int]] = {}
        """When a kind was warned of, and how often it has come since."""

    def level(self, provider: str | None, failure: Failure) -> tuple[int, str]:
        """The level of the line that tells a failure of a provider, and what to add to the line.

        A failed connection adds the upstream's host and port, which clients do not get.
        """
        kind = self._kind(provider, failure)
        if kind is None:
            return logging.INFO, ""
        where = f"; upstream at {self._places.get(provider or '', 'an unknown place')}" if kind in _CONNECTION else ""
        now, known = self._clock(), self._told.get((provider, kind))
        since, times = known or (now - PAUSE, 0)
        if now - since < PAUSE:
            self._told[provider, kind] = since, times + 1
            return logging.INFO, where
        self._told[provider, kind] = now, 0
        return logging.WARNING, f"{where}; {times} more since the last warning" if times else where

    def _kind(self, provider: str | None, failure: Failure) -> str | None:
        if failure.code == "upstream_unreachable":  # no name, no connection, no TLS
            return failure.code
        if failure.code == "timeout" and failure.message.endswith("(connect)"):
            return "connect"
        return failure.kind if failure.kind in _OUR_KEY and provider in self._keyed else None
