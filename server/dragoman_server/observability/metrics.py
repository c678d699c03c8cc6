"""The counters of one process: a request is counted when it arrives, when its stream begins, and when it ends.

Nothing is counted for single chunks. The counters need no locks, as they are used in one event loop. Labels are names
of the configuration or Dragoman's own words, never names that a client sent.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from dragoman import Failure, Translation, Usage
from dragoman.errors import FailureOrigin
from dragoman.gateway import DIRECTIONS
from dragoman_server.credentials.credential import REASON
from dragoman_server.observability import metric_families as families
from dragoman_server.observability.end_counters import Endings, LabelledSeries
from dragoman_server.observability.installed_version import installed_version, revision
from dragoman_server.observability.metric_families import Totals, observe
from dragoman_server.observability.throttled_log import KEY_ERRORS, ViolationLog
from dragoman_server.receipt import Receipt

REASON_KINDS = {
    "protocol": "upstream_protocol",
    "truncated": "stream_truncated",
    "unreachable": "upstream_unreachable",
    REASON: "credential",
}
"""Kinds of upstream errors in the metrics, by a failure's reason; for other reasons it is the failure's kind."""
CLIENT_KEY = "client_key"
"""The kind of `KEY_ERRORS` about a key that the client sent."""


class RunEnding(NamedTuple):
    """The end of a response that an upstream ran in the background. `status` is that of the request that began it."""

    client: str
    provider: str
    route: str
    ended: str
    status: int


def kind_of(failure: Failure, *, own_key: bool) -> str:
    """Return the kind of an upstream's error in the metrics. `own_key` is True if the key was the gateway's own."""
    kind = REASON_KINDS.get(failure.reason or "", failure.kind)
    return CLIENT_KEY if kind in KEY_ERRORS and not own_key else kind


class Metrics:
    """The counters of one gateway. `clock` returns seconds from any origin, `now` Unix seconds.

    `validate` is True if translated streams are validated, all or a share; they and their violations are then counted
    from 0. `gauges` are called for each snapshot, to add numbers that are not counted but read.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        validate: bool = True,
    ) -> None:
        self._clock = clock
        self._started, self._opened_at = now(), clock()
        self.totals = totals = Totals()
        # Looking the values up in each family would double the cost of counting a request.
        self._open_requests = totals.series(families.OPEN_REQUESTS)
        self._opened, self._begun = (
            LabelledSeries(self._open_requests),
            LabelledSeries(totals.series(families.OPEN_STREAMS)),
        )
        self._endings = Endings(totals)
        self.gauges: list[Callable[[Totals], None]] = []
        self._violation_log = ViolationLog(clock)
        self._validated = totals.series(families.OUTPUT_VALIDATED)
        self.count_validated(validate)
        for family, words in families.FROM_ZERO:
            for word in words:
                totals.add(family, (word,), 0)

    def count_keys(self, providers: Iterable[str]) -> None:
        """Count errors about the keys of these providers from 0."""
        for provider in providers:
            for kind in KEY_ERRORS:
                self.totals.add(families.UPSTREAM_ERRORS, (provider, kind), 0)

    def count_validated(self, validate: bool) -> None:
        """Count streams and violations from 0 in the directions that are validated. The others have no counts."""
        for client, upstream in DIRECTIONS:
            if validate or client is upstream:
                self.totals.add(families.OUTPUT_VALIDATED, (client, upstream), 0)
                self.totals.add(families.OUTPUT_VIOLATIONS, (client, upstream), 0)

    @property
    def started(self) -> float:
        """The Unix seconds at which the gateway began."""
        return self._started

    @property
    def open_requests(self) -> int:
        """The number of requests being answered."""
        return sum(int(value[0]) for value in self._open_requests.values())

    @property
    def uptime(self) -> float:
        """Seconds since these counters were made."""
        return self._clock() - self._opened_at

    def opened(self, receipt: Receipt) -> None:
        """Count a request that has arrived."""
        receipt.opened_at = self._clock()
        self._opened[receipt.endpoint or receipt.client][0] += 1

    def begun(self, receipt: Receipt) -> None:
        """Count the first event of a streamed reply."""
        if receipt.begun_at is None:
            receipt.begun_at = self._clock()
            self._begun[receipt.endpoint or receipt.client][0] += 1

    def seconds(self, receipt: Receipt) -> float:
        """Return the seconds since the request arrived."""
        return self._clock() - receipt.opened_at

    def ended(self, receipt: Receipt, failure: Failure | None) -> None:
        """Count the end of a request. Its receipt must be complete and still have its translation."""
        translation, begun_at = receipt.translation, receipt.begun_at
        client, provider, status = receipt.endpoint or receipt.client, receipt.provider or "", receipt.status or 500
        stream = translation.stream if translation is not None else None
        ending = client, provider, receipt.route, receipt.ended, status // 100, stream, begun_at is not None
        counters = self._endings[ending]
        if receipt.runs_on is None:  # else `count_run` counts it: another process may have read the end
            counters.requests[0] += 1
        counters.open_requests[0] -= 1
        if begun_at is not None:
            counters.open_streams[0] -= 1
            observe(counters.first_events, begun_at - receipt.opened_at)
        if translation is None or receipt.ended == "rejected":  # no upstream is at fault, and its times are not these
            if failure is None and translation is not None:
                failure = translation.context.failure
            if failure is not None and failure.origin is FailureOrigin.PROXY:
                self._count_own(failure)
            return
        if translation.context.validated:
            self._validated[client, translation.direction.upstream.dialect][0] += 1
        seconds = receipt.duration
        observe(counters.durations, seconds)
        facts = receipt.facts
        if facts is not None and (usage := facts.usage) is not None:
            if receipt.runs_on is None:
                _add_tokens(counters.tokens, usage, facts.estimated)
            written = usage.output_total or 0
            if begun_at is not None and receipt.ended == "completed" and written > 1:
                # Single gaps are not measured, as each chunk would pay for it.
                gap = (seconds - begun_at + receipt.opened_at) / (written - 1)
                observe(counters.token_times or counters.add_token_times(), gap, families.SHORT)
        if failure is not None or facts is None or facts.rest is not None:
            self._count_rest(receipt, translation, failure)

    def count_run(self, ending: RunEnding, usage: Usage | None, estimated: Sequence[str]) -> None:
        """Count a response that an upstream ran in the background, and its tokens, once its end is known."""
        client, provider, route, ended, status = ending
        self.totals.add(families.REQUESTS, (client, provider, route, ended, f"{status // 100}xx"))
        if usage is not None:
            _add_tokens(LabelledSeries(self.totals.series(families.TOKENS), provider), usage, estimated)

    def count_error(self, provider: str, failure: Failure) -> None:
        """Count the error of a response that an upstream ran in the background, which a later request has read."""
        self.totals.add(families.UPSTREAM_ERRORS, (provider, kind_of(failure, own_key=False)))

    def _count_rest(self, receipt: Receipt, translation: Translation, failure: Failure | None) -> None:
        """Count what few translated requests have: losses, violations and failures."""
        context, provider = translation.context, receipt.provider or ""
        if context.losses:
            for code, times in context.losses.counts.items():
                self.totals.add(families.LOSSES, (code, receipt.route), times)
        if context.violation is not None:
            client = receipt.endpoint or receipt.client
            self.totals.add(families.OUTPUT_VIOLATIONS, (client, translation.direction.upstream.dialect))
            self._violation_log.record(receipt, context.violation)
        failure = failure or context.failure
        if failure is not None and receipt.ended in ("failed", "refused"):
            if failure.origin is FailureOrigin.PROXY:
                self._count_own(failure)
            else:
                self.totals.add(families.UPSTREAM_ERRORS, (provider, kind_of(failure, own_key=bool(context.own_key))))

    def _count_own(self, failure: Failure) -> None:
        self.totals.add(families.GATEWAY_ERRORS, (failure.reason or failure.kind,))

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
        totals.put(families.WORKER_UP, ("1",))
        identify(totals, self._started)
        return totals


def _add_tokens(tokens: LabelledSeries, usage: Usage, estimated: Sequence[str]) -> None:
    """Add the counts of a reply to those of its provider, by kind."""
    if usage.input_total:
        tokens["input_estimated" if "input_total" in estimated else "input"][0] += usage.input_total
    if usage.cache_read:
        tokens["cache_read"][0] += usage.cache_read
    if usage.cache_write:
        tokens["cache_write"][0] += usage.cache_write
    if usage.output_total:
        tokens["output_estimated" if "output_total" in estimated else "output"][0] += usage.output_total
    if usage.reasoning:
        tokens["reasoning"][0] += usage.reasoning


def footprint() -> Totals:
    """Return processor time, memory and open files of this process."""
    totals = Totals()
    totals.put(families.CPU, (), time.process_time())
    try:
        totals.put(families.MEMORY, (), resident_memory())
        # Since Linux 6.2 the size of the directory is the number of its entries.
        files = os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
        totals.put(families.FILES, (), files)
    except (OSError, ValueError, IndexError):
        return totals  # without /proc, as on macOS, these numbers are missing
    return totals


def resident_memory() -> int:
    """Return the resident memory of this process in bytes. Raises OSError on systems without /proc, such as macOS."""
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def identify(totals: Totals, started: float) -> None:
    """Add the numbers that a gateway has once: its start time and its versions."""
    totals.put(families.STARTED, (), started)
    totals.put(families.BUILD, _build())


@cache
def _build() -> tuple[str, str, str]:
    return installed_version(), revision(), platform.python_version()
