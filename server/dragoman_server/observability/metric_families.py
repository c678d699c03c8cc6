"""The families of metrics, and their values in one process or in several together.

Each value is a list of numbers, so that values of workers are added by adding lists. A counter or a gauge has one
number. A histogram has the count of each bucket (not cumulative), the count above the last bucket, and the sum.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from dragoman.wire import Json


class Kind(StrEnum):
    """The type of a family. Counters and histograms never decrease, also when a worker ends."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0)
"""Upper ends of the buckets of most histograms: from a cached first token to the longest agent turn."""
SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the buckets for short times: lags, and single tokens."""


@dataclass(frozen=True)
class Family:
    """One family of metrics. Values of labels are dialects, names of the configuration, and Dragoman's own words.

    `buckets` are those of a histogram. A gauge with `highest` is the highest of all processes, and not their sum.
    """

    kind: Kind
    name: str
    doc: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS
    highest: bool = False

    @property
    def width(self) -> int:
        """The number of numbers in a value."""
        return len(self.buckets) + 2 if self.kind is Kind.HISTOGRAM else 1


_counter = partial(Family, Kind.COUNTER)
_gauge = partial(Family, Kind.GAUGE)
_histogram = partial(Family, Kind.HISTOGRAM)
REQUESTS = _counter(
    "dragoman_requests_total",
    "Requests that have ended; `ended` as in a receipt, `status` is 2xx, 4xx or 5xx. A background response that its"
    " upstream runs is counted when a client reads its end, by the process that gets it.",
    ("client", "provider", "route", "ended", "status"),
)
OPEN_REQUESTS = _gauge("dragoman_open_requests", "Requests being answered.", ("client",))
OPEN_STREAMS = _gauge("dragoman_open_streams", "Streamed replies that have begun and not ended.", ("client",))
OPEN_WEBSOCKETS = _gauge("dragoman_open_websockets", "WebSocket connections of clients.")
DURATION = _histogram(
    "dragoman_request_duration_seconds",
    "From a request's head to its reply's end, of requests that were sent on.",
    ("client", "provider", "stream"),
)
FIRST_EVENT = _histogram(
    "dragoman_first_event_seconds",
    "From a request's head to the first event of its streamed reply (the time to first token).",
    ("client", "provider"),
)
TOKEN_TIME = _histogram(
    "dragoman_time_per_output_token_seconds",
    "From the first event of a complete streamed reply to its end, divided by its output tokens without the first: the"
    " mean gap between tokens.",
    ("client", "provider"),
    SHORT,
)
TOKENS = _counter(
    "dragoman_tokens_total",
    "Tokens as upstreams counted them: `input` (with `cache_read` and `cache_write`), `output` (with `reasoning`); of"
    " translated streams that they did not count, `input_estimated` and `output_estimated`.",
    ("provider", "kind"),
)
COUNTS = _counter(
    "dragoman_token_counts_total",
    "Counts asked for in advance: `exact` or `remembered` from the upstream, `estimate` of ours, or `failed`.",
    ("client", "provider", "how"),
)
LOSSES = _counter("dragoman_losses_total", "What could not be carried, by its code.", ("code", "route"))
UPSTREAM_ERRORS = _counter(
    "dragoman_upstream_errors_total",
    "Failures of upstreams, before a reply or within it, by kind of error; `client_key` if the upstream refused a key"
    ' that the client sent (`auth = "passthrough"`).',
    ("provider", "kind"),
)
UPSTREAM_CONNECTIONS = _gauge(
    "dragoman_upstream_connections",
    "Connections to upstreams, `busy` (with those being opened) or `idle`; none with the transport `aiohttp`.",
    ("origin", "state"),
)
UPSTREAM_WAITING = _gauge(
    "dragoman_upstream_waiting_requests",
    "Requests that wait for a connection to their upstream, because of `server.connections.limit`.",
    ("origin",),
)
PROVIDER_DOWN = _gauge(
    "dragoman_provider_down",
    "Processes for which the last requests to a provider failed because it was not there, and none succeeded.",
    ("provider",),
)
GATEWAY_ERRORS = _counter(
    "dragoman_gateway_errors_total",
    "Requests that the gateway itself ended: `defect` (please report it), `stopping`, `given_up`, `no_provider`,"
    " `overloaded`, `store`, `background` (too many responses run) or `hook` (of the embedding application).",
    ("kind",),
)
MALFORMED = _counter(
    "dragoman_malformed_requests_total",
    "What `dragoman serve` could not read as HTTP, or not in time: mostly answered with an error 4xx, and then in no"
    " other number.",
)
REJECTED = _counter(
    "dragoman_rejected_requests_total",
    "Requests that were rejected without a receipt, and are not in `dragoman_requests_total`: `path` (it does not"
    " exist), `method` (the path does not have it), or at the other endpoints the limit of the key, or the kind of"
    " the error, such as `authentication`.",
    ("reason",),
)
REFUSED_CONNECTIONS = _counter(
    "dragoman_refused_connections_total",
    "Connections of clients beyond `server.max_connections` or `server.max_connections_per_address`, as `limit` says.",
    ("limit",),
)
OUTPUT_VALIDATED = _counter(
    "dragoman_output_validated_total",
    "Streams that were checked against the grammar of their client's dialect: between two dialects a share"
    " (`server.validate`), within one all of them.",
    ("client", "upstream"),
)
OUTPUT_VIOLATIONS = _counter(
    "dragoman_output_violations_total",
    "Validated streams that broke the grammar of their client's dialect; between two dialects that is a defect (please"
    " report it), within one it is the upstream's.",
    ("client", "upstream"),
)
LIMIT_REJECTIONS = _counter(
    "dragoman_limit_rejections_total",
    "Requests rejected by a limit of their key: `requests`, `tokens` (per minute), `concurrent`, `daily_tokens`,"
    " `monthly_tokens`, `daily_cost` or `monthly_cost`.",
    ("limit",),
)
STORE_UP = _gauge("dragoman_store_up", "Processes whose store of limits and keys answers.")
STORE_ERRORS = _counter("dragoman_store_errors_total", "Calls of the store that failed, by operation.", ("operation",))
STORE_UNCHECKED = _counter(
    "dragoman_store_unchecked_total",
    "Requests that the store could not check: `admitted` or `rejected`, as `store.on_failure` decides.",
    ("result",),
)
RECEIPTS_DROPPED = _counter(
    "dragoman_receipts_dropped_total",
    "Receipts that other hosts do not get, as the store did not answer for too long.",
)
RESPONSES_STORED = _counter(
    "dragoman_responses_stored_total",
    "Replies that were to be stored: `stored`, `rejected` by a limit, or `failed`.",
    ("result",),
)
STATE_UP = _gauge("dragoman_state_up", "Processes whose store of responses answers.")
STATE_ERRORS = _counter(
    "dragoman_state_errors_total",
    "Calls of the store of responses that failed, by operation.",
    ("operation",),
)
SETTLEMENTS_DROPPED = _counter(
    "dragoman_settlements_dropped_total",
    "Ended requests whose tokens were never counted, because the store was away for too long.",
)
ATTEMPTS = _counter(
    "dragoman_upstream_attempts_total",
    "Upstream requests of routes that retry or fall back, by outcome: `answered`, `refused`, `unauthorized`,"
    " `no_credit`, `too_long` (for the context), `rate_limited`, `unavailable`, `unreachable`, `timeout`, `cut`"
    " (before the first event), `malformed`, `abandoned`, or `queue` (not sent: no place became free).",
    ("provider", "outcome"),
)
RETRIES_DENIED = _counter(
    "dragoman_retries_denied_total",
    "Failed attempts that were not followed by another: the `budget`, the `attempts` or the `wait` was used up, or no"
    " provider was left (`candidates`).",
    ("reason",),
)
BREAKERS_OPEN = _gauge(
    "dragoman_breakers_open",
    "Processes that pause a provider after its failures, for a client or for all.",
    ("provider",),
)
QUEUED_REQUESTS = _gauge("dragoman_queued_requests", "Requests that wait for a place at a provider.", ("provider",))
USAGE_DROPPED = _counter(
    "dragoman_usage_dropped_total",
    "Ended exchanges whose usage was not written, because the file could not be written for too long.",
)
USAGE_UNGUARDED = _counter(
    "dragoman_usage_unguarded_total",
    "Requests that were sent without an entry in the journal of usage, because it could not be written.",
)
CAPTURES = _counter(
    "dragoman_captures_total",
    "Exchanges that were to be captured: `written`, `dropped` (more than `capture.open` at once), or `failed` (the"
    " directory cannot be written).",
    ("outcome",),
)
LAG = _histogram(
    "dragoman_event_loop_lag_seconds",
    "Delay of a timer that is due four times per second: how long ready work waits for the event loop.",
    (),
    SHORT,
)
LAG_MAX = _gauge(
    "dragoman_event_loop_lag_max_seconds",
    "The longest such delay in the last 15 to 30 seconds, of the process that has the longest.",
    highest=True,
)
TASKS = _gauge("dragoman_event_loop_tasks", "Tasks of the event loops of all processes.")
ACCEPT_QUEUE = _gauge("dragoman_accept_queue_connections", "Connections that no process has accepted yet. Linux only.")
SHED = _counter(
    "dragoman_shed_requests_total",
    "Requests rejected because of a bound in `[server.overload]`: `event_loop_lag`, `memory` or `open_requests`.",
    ("reason",),
)
SPANS = _counter(
    "dragoman_trace_spans_total",
    "Spans of traces: `exported`, `failed` (the collector did not take them) or `dropped` (the queue was full).",
    ("result",),
)
CPU = _counter("dragoman_process_cpu_seconds_total", "Processor time of all processes.")
MEMORY = _gauge("dragoman_process_resident_memory_bytes", "Resident memory of all processes.")
FILES = _gauge("dragoman_process_open_fds", "Open file descriptors of all processes.")
WORKER_UP = _gauge("dragoman_worker_up", "1 if the worker serves and answered.", ("worker",))
WORKERS_LEAVING = _gauge("dragoman_workers_leaving", "Workers that finish their open replies.")
RESTARTS = _counter("dragoman_worker_restarts_total", "Workers replaced because they were gone.", ("worker",))
RELOADS = _counter(
    "dragoman_reloads_total",
    "Reloads asked for: `done`, `refused` (configuration) or `failed`.",
    ("result",),
)
STARTED = _gauge("dragoman_start_time_seconds", "When `dragoman serve` started, in Unix seconds.")
HOST = _gauge("dragoman_host_info", "Processes of the gateway, by the name of their host.", ("host",))
BUILD = _gauge("dragoman_build_info", "Always 1.", ("version", "revision", "python"))

FAMILIES = {family.name: family for family in tuple(globals().values()) if isinstance(family, Family)}
"""Every family by its name, in the order of the page, which is that of this file."""
FROM_ZERO = (
    (GATEWAY_ERRORS, ("defect",)),
    (REFUSED_CONNECTIONS, ("max_connections", "max_connections_per_address")),
    (RETRIES_DENIED, ("budget",)),
    (SHED, ("event_loop_lag", "memory", "open_requests")),
    (RELOADS, ("refused", "failed")),
)
"""Series that a gateway has from its start. Prometheus finds no increase in a series that begins with its first event,
and an alert for one event would never fire."""

Labels = tuple[str, ...]


class Series(dict[Labels, list[float]]):
    """The values of one family by their labels. A value that does not exist is created, with zeros."""

    __slots__ = ("_width",)

    def __init__(self, family: Family) -> None:
        self._width = family.width

    def __missing__(self, labels: Labels) -> list[float]:
        value = self[labels] = [0] * self._width
        return value


def observe(histogram: list[float], seconds: float, buckets: tuple[float, ...] = SECONDS) -> None:
    """Count one time in the value of a histogram with these buckets."""
    histogram[bisect_left(buckets, seconds)] += 1
    histogram[-1] += seconds


class Totals:
    """Numbers by family and labels."""

    def __init__(self) -> None:
        self.values: dict[str, Series] = {}

    def series(self, family: Family) -> Series:
        """Return the series of a family. It stays the same object, so frequent counters can keep it."""
        series = self.values.get(family.name)
        if series is None:
            series = self.values[family.name] = Series(family)
        return series

    def add(self, family: Family, labels: Labels = (), number: float = 1) -> None:
        """Add `number`, which may be negative for a gauge."""
        self.series(family)[labels][0] += number

    def put(self, family: Family, labels: Labels = (), number: float = 1) -> None:
        """Set a gauge."""
        self.series(family)[labels] = [number]

    def observe(self, family: Family, labels: Labels, seconds: float) -> None:
        """Add one time to a histogram."""
        observe(self.series(family)[labels], seconds, family.buckets)

    def read(self, family: Family, *labels: str) -> list[float]:
        """Return the numbers of one series; zeros if it does not exist."""
        series = self.values.get(family.name)
        return (series.get(labels) if series is not None else None) or [0] * family.width

    def merge(self, other: Totals, *, counters_only: bool = False) -> None:
        """Add the numbers of `other`; with `counters_only` without its gauges, as for a process that has ended."""
        for name, theirs in list(other.values.items()):
            family = FAMILIES[name]
            if counters_only and family.kind is Kind.GAUGE:
                continue
            series = self.series(family)
            for labels, numbers in list(theirs.items()):  # a copy, as a collector may run in another thread
                mine = series.get(labels)
                if mine is None:
                    series[labels] = list(numbers)
                elif family.highest:
                    series[labels] = [max(mine[0], numbers[0])]
                else:
                    series[labels] = [a + b for a, b in zip(mine, numbers, strict=True)]

    def pack(self) -> Json:
        """Return the numbers as JSON, for another process."""
        return {
            name: [[list(labels), value] for labels, value in series.items()] for name, series in self.values.items()
        }

    @classmethod
    def unpack(cls, data: Json) -> Totals:
        """Return the numbers that `pack` returned. Families that this version does not know are dropped."""
        totals = cls()
        for name, rows in data.items():
            family = FAMILIES.get(name)
            if family is not None:
                totals.series(family).update(
                    (tuple(labels), list(value))
                    for labels, value in rows
                    if len(labels) == len(family.labels) and len(value) == family.width
                )
        return totals
