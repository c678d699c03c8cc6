"""The counters of one process: a request is counted when it arrives, when its stream begins, and when it ends.

Nothing is counted for single chunks. The counters need no locks, as they are used in one event loop. Labels are names
of the configuration or Dragoman's own words, never names that a client sent.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from functools import cache

from dragoman import DIRECTIONS, Failure, FailureOrigin
from dragoman_server.observability.metric_families import (
    BUILD,
    CPU,
    DURATION,
    FILES,
    FIRST_EVENT,
    GATEWAY_ERRORS,
    LOSSES,
    MEMORY,
    OPEN_REQUESTS,
    OPEN_STREAMS,
    OUTPUT_VIOLATIONS,
    REQUESTS,
    SHORT,
    STARTED,
    TOKEN_TIME,
    TOKENS,
    UPSTREAM_ERRORS,
    WORKER_UP,
    Totals,
    observe,
)
from dragoman_server.observability.receipts import Receipt
from dragoman_server.observability.throttled_log import ViolationLog

REASON_KINDS = {
    "protocol": "upstream_protocol",
    "truncated": "stream_truncated",
    "unreachable": "upstream_unreachable",
}
"""Kinds of upstream errors in the metrics, by a failure's reason; for other reasons it is the failure's kind."""
_USAGE = (
    ("input", "input_total"),
    ("cache_read", "cache_read"),
    ("cache_write", "cache_write"),
    ("output", "output_total"),
    ("reasoning", "reasoning"),
)


class Metrics:
    """The counters of one gateway. `clock` returns seconds from any origin, `now` Unix seconds.

    `validate` is True if translated streams are validated; violations are then counted from 0. `gauges` are called for
    each snapshot, to add numbers that are not counted but read.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        validate: bool = True,
    ) -> None:
        self._clock = clock
        self._started = now()
        self.totals = totals = Totals()
        # Looking these up for each request would double the cost of counting it.
        self._open_requests, self._open_streams = totals.series(OPEN_REQUESTS), totals.series(OPEN_STREAMS)
        self._requests, self._durations = totals.series(REQUESTS), totals.series(DURATION)
        self._first_events, self._tokens = totals.series(FIRST_EVENT), totals.series(TOKENS)
        self._token_times = totals.series(TOKEN_TIME)
        self.gauges: list[Callable[[Totals], None]] = []
        self._violation_log = ViolationLog(clock)
        self.count_violations(validate)

    def count_violations(self, validate: bool) -> None:
        """Set the counts of violations to 0 in the directions that are validated. The others have none."""
        for client, upstream in DIRECTIONS:
            if validate or client is upstream:
                self.totals.add(OUTPUT_VIOLATIONS, (client, upstream), 0)

    @property
    def open_requests(self) -> int:
        """The number of requests being answered."""
        return sum(int(value[0]) for value in self._open_requests.values())

    def opened(self, receipt: Receipt) -> None:
        """Count a request that has arrived. Its receipt reports its further course."""
        receipt.metrics = self
        receipt.opened_at = self._clock()
        self._open_requests[(receipt.endpoint or receipt.client,)][0] += 1

    def begun(self, receipt: Receipt) -> None:
        """Count the first event of a streamed reply."""
        if receipt.begun_at is None:
            receipt.begun_at = self._clock()
            self._open_streams[(receipt.endpoint or receipt.client,)][0] += 1

    def seconds(self, receipt: Receipt) -> float:
        """Return the seconds since the request arrived."""
        return self._clock() - receipt.opened_at

    def ended(self, receipt: Receipt, failure: Failure | None) -> None:
        """Count the end of a request. Its receipt must be complete and still have its translation."""
        client, provider, route = receipt.endpoint or receipt.client, receipt.provider or "", receipt.route
        self._open_requests[(client,)][0] -= 1
        if receipt.begun_at is not None:
            self._open_streams[(client,)][0] -= 1
            observe(self._first_events[client, provider], receipt.begun_at - receipt.opened_at)
        status = f"{(receipt.status or 500) // 100}xx"
        self._requests[client, provider, route, receipt.ended, status][0] += 1
        translation = receipt.translation
        if translation is None:
            return
        stream = "true" if translation.stream else "false"
        seconds = self.seconds(receipt) if receipt.duration is None else receipt.duration
        observe(self._durations[client, provider, stream], seconds)
        context = translation.context
        if context.losses:
            for code, times in context.losses.counts.items():
                self.totals.add(LOSSES, (code, route), times)
        if (facts := receipt.facts) is not None and (usage := facts.usage) is not None:
            for kind, name in _USAGE:
                if tokens := getattr(usage, name):
                    self._tokens[provider, f"{kind}_estimated" if name in facts.estimated else kind][0] += tokens
            tokens = usage.output_total or 0
            if receipt.begun_at is not None and receipt.ended == "completed" and tokens > 1:
                # Single gaps are not measured, as each chunk would pay for it.
                gap = (seconds - receipt.begun_at + receipt.opened_at) / (tokens - 1)
                observe(self._token_times[client, provider], gap, SHORT)
        if context.violation is not None:
            self.totals.add(OUTPUT_VIOLATIONS, (client, translation.direction.upstream.dialect))
            self._violation_log.record(receipt, context.violation)
        failure = failure or context.failure
        if failure is not None and receipt.ended in ("failed", "refused"):
            if failure.origin is FailureOrigin.PROXY:
                self.totals.add(GATEWAY_ERRORS, (failure.reason or "defect",))
            else:
                kind = REASON_KINDS.get(failure.reason or "", failure.kind)
                self.totals.add(UPSTREAM_ERRORS, (provider, kind))

    def snapshot(self) -> Totals:
        """Return the current numbers, with those of the process (memory, CPU, files)."""
        totals = footprint()
        totals.merge(self.totals)
        for add in self.gauges:
            add(totals)
        return totals

    def alone(self) -> Totals:
        """Return the numbers of a gateway that has only this process."""
        totals = self.snapshot()
        totals.put(WORKER_UP, ("1",))
        identify(totals, self._started)
        return totals


def footprint() -> Totals:
    """Return processor time, memory and open files of this process."""
    totals = Totals()
    totals.put(CPU, (), time.process_time())
    try:
        totals.put(MEMORY, (), resident_memory())
        # Since Linux 6.2 the size of the directory is the number of its entries.
        files = os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
        totals.put(FILES, (), files)
    except (OSError, ValueError, IndexError):
        return totals  # without /proc, as on macOS, these numbers are missing
    return totals


def resident_memory() -> int:
    """Return the resident memory of this process in bytes. Raises OSError on systems without /proc, such as macOS."""
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def identify(totals: Totals, started: float) -> None:
    """Add the numbers that a gateway has once: its start time and its versions."""
    totals.put(STARTED, (), started)
    totals.put(BUILD, _build())


@cache
def _build() -> tuple[str, str]:
    from importlib.metadata import version  # 0.6 MB, needed only here

    # It searches all installed packages, which takes milliseconds.
    return version("dragoman"), platform.python_version()
