"""The parts that the exporters of spans and of metrics share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache
from uuid import uuid4

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from dragoman import __version__

SECONDS = 5.0
"""Seconds that one request to the collector has, with its retries."""
LOG_EVERY = 60.0
"""Seconds between two lines of an exporter's own log, which has one for each try."""


class RareLines(logging.Filter):
    """Passes one line in `LOG_EVERY` seconds. `clock` returns seconds from any origin."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next = clock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the line."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + LOG_EVERY
        return True


_RARE = RareLines()


def limit_lines(exporter: type) -> None:
    """Log the failures of a class of exporters rarely."""
    logging.getLogger(exporter.__module__).addFilter(_RARE)


@cache
def resource(service_name: str, host: str = "") -> Resource:
    """Return the attributes of this process, with those of OTEL_RESOURCE_ATTRIBUTES."""
    # The workers of one gateway send metrics of their own, which a backend must not take for one series.
    instance = str(uuid4())
    return Resource.create(
        {
            "service.name": service_name,
            "service.version": __version__,
            "service.instance.id": instance,
            "host.name": host,
        }
    )


@cache
def scope() -> InstrumentationScope:
    """Return the name under which Dragoman reports."""
    return InstrumentationScope("dragoman", __version__)
