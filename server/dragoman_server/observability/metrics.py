"""What this process counts about its requests: when one is taken, when its stream begins, when it has ended.

Nothing is counted while a stream runs, so a chunk costs nothing. Plain numbers, as everything happens on one event
loop. Labels come from the configuration or are words of ours: no name that a client chose ever becomes one.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from functools import cache

from dragoman.directions import DIRECTIONS
from dragoman.errors import Failure, FailureOrigin
from dragoman.tokens.stream_usage import usage_so_far
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
    STARTED,
    TOKENS,
    UPSTREAM_ERRORS,
    WORKER_UP,
    Totals,
    count,
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
    """The counters of one gateway. `clock` gives seconds from any origin, `now` Unix seconds.

    `validate` says whether translated streams are judged: only what is looked at is told as 0.
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
        # Half the cost of a request's dozen numbers would be finding their families.
        self._open_requests, self._open_streams = totals.series(OPEN_REQUESTS), totals.series(OPEN_STREAMS)
        self._requests, self._durations = totals.series(REQUESTS), totals.series(DURATION)
        self._first_events, self._tokens = totals.series(FIRST_EVENT), totals.series(TOKENS)
        self._violation_log = ViolationLog(clock)
        self.count_violations(validate)

    def count_violations(self, validate: bool) -> None:
        """Begin the counts of violations in the directions that are judged: the others have no number."""
        for client, upstream in DIRECTIONS:
            if validate or client is upstream:
                self.totals.add(OUTPUT_VIOLATIONS, (client, upstream), 0)

    def opened(self, receipt: Receipt) -> None:
        """A request was taken; its receipt will tell the rest."""
        receipt.metrics = self
        receipt.opened_at = self._clock()
        count(self._open_requests, (receipt.client,))

    def begun(self, receipt: Receipt) -> None:
        """The first event of its streamed reply came."""
        if receipt.begun_at is None:
            receipt.begun_at = self._clock()
            count(self._open_streams, (receipt.client,))

    def seconds(self, receipt: Receipt) -> float:
        """Seconds since its request was taken."""
        return self._clock() - receipt.opened_at

    def ended(self, receipt: Receipt, failure: Failure | None) -> None:
        """The request has ended; the receipt still has its translation."""
        client, provider, route = receipt.client, receipt.provider or "", receipt.route
        count(self._open_requests, (client,), -1)
        if receipt.begun_at is not None:
            count(self._open_streams, (client,), -1)
            observe(self._first_events, (client, provider), receipt.begun_at - receipt.opened_at)
        status = f"{(receipt.status or 500) // 100}xx"
        count(self._requests, (client, provider, route, receipt.ended, status))
        translation = receipt.translation
        if translation is None:
            return
        stream = "true" if translation.stream else "false"
        observe(self._durations, (client, provider, stream), self.seconds(receipt))
        context = translation.context
        if context.losses:
            for code, times in context.losses.counts.items():
                self.totals.add(LOSSES, (code, route), times)
        usage, estimated = usage_so_far(context)
        if usage is not None:
            for kind, name in _USAGE:
                if tokens := getattr(usage, name):
                    count(self._tokens, (provider, f"{kind}_estimated" if name in estimated else kind), tokens)
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
        """The numbers now, with this process's own."""
        totals = footprint()
        totals.merge(self.totals)
        return totals

    def alone(self) -> Totals:
        """The same for a process that is the whole gateway."""
        totals = self.snapshot()
        totals.put(WORKER_UP, ("1",))
        identify(totals, self._started)
        return totals


def footprint() -> Totals:
    """Processor time, memory and open files of this process."""
    totals = Totals()
    totals.put(CPU, (), time.process_time())
    try:
        with open("/proc/self/statm", "rb") as statm:
            totals.put(MEMORY, (), int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        # Linux tells the number as the size since 6.2; before, it has to be counted.
        files = os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
        totals.put(FILES, (), files)
    except (OSError, ValueError, IndexError):
        return totals  # no /proc, as on macOS: nothing is said rather than something else
    return totals


def identify(totals: Totals, started: float) -> None:
    """Add what is said once of all processes."""
    totals.put(STARTED, (), started)
    totals.put(BUILD, _build())


@cache
def _build() -> tuple[str, str]:
    from importlib.metadata import version  # 0.6 MB that nothing else needs

    # Looked for among all installed packages: some milliseconds.
    return version("dragoman"), platform.python_version()
