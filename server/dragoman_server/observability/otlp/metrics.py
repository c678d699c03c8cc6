"""Sends the metrics to a collector: those of `GET /metrics` by the same names, and three of the conventions.

The names of OpenTelemetry's conventions for generative AI are added where the numbers have their meaning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability.metric_families import (
    DURATION,
    FAMILIES,
    FIRST_EVENT,
    TOKEN_TIME,
    Family,
    Kind,
    Series,
    Totals,
)
from dragoman_server.observability.otlp.connection import SECONDS, limit_lines, resource, scope

CONVENTIONS = {
    DURATION: "gen_ai.server.request.duration",
    FIRST_EVENT: "gen_ai.server.time_to_first_token",
    TOKEN_TIME: "gen_ai.server.time_per_output_token",
}
"""Family → its name in the conventions."""
_CUMULATIVE = AggregationTemporality.CUMULATIVE
_UNKNOWN = cast("float", None)  # the exporter leaves it out


class OtlpMetrics:
    """The connection to one collector. `now` returns Unix nanoseconds, and `host` is the name of this host."""

    def __init__(self, options: Telemetry, *, host: str = "", now: Callable[[], int] = time.time_ns) -> None:
        self._exporter: MetricExporter = OTLPMetricExporter(
            options.url("metrics"), headers=dict(options.headers), timeout=SECONDS
        )
        limit_lines(OTLPMetricExporter)
        self._resource = resource(options.service_name, host)
        self._now = now
        self._started = now()

    def export(self, totals: Totals) -> bool:
        """Send numbers. Return False if the collector did not take them. Called in another thread."""
        metrics = list(self._metrics(totals))
        of_scope = ScopeMetrics(scope(), metrics, "")
        data = MetricsData([ResourceMetrics(self._resource, [of_scope], "")])
        return self._exporter.export(data) is MetricExportResult.SUCCESS

    def stop(self) -> None:
        """End an export that waits for another try, and accept no further one."""
        self._exporter.shutdown()

    def _metrics(self, totals: Totals) -> Iterator[Metric]:
        now = self._now()
        for name, family in FAMILIES.items():
            if series := totals.values.get(name):
                yield self._metric(family, name, series, now, {})
                if (common := CONVENTIONS.get(family)) is not None:
                    yield self._metric(family, common, series, now, {"gen_ai.operation.name": "chat"})

    def _metric(self, family: Family, name: str, series: Series, now: int, more: Mapping[str, str]) -> Metric:
        points = [
            ({**dict(zip(family.labels, labels, strict=True)), **more}, numbers) for labels, numbers in series.items()
        ]
        if family.kind is Kind.HISTOGRAM:
            return Metric(name, family.doc, "s", Histogram(
                [
                    HistogramDataPoint(
                        attributes, self._started, now, int(sum(counts)), total, list(map(int, counts)),
                        family.buckets, _UNKNOWN, _UNKNOWN,
                    )
                    for attributes, (*counts, total) in points
                ],
                _CUMULATIVE,
            ))  # fmt: skip
        numbers = [NumberDataPoint(attributes, self._started, now, value) for attributes, (value,) in points]
        unit = "s" if "_seconds" in family.name else "By" if family.name.endswith("_bytes") else ""
        if family.kind is Kind.COUNTER:
            return Metric(name, family.doc, unit, Sum(numbers, _CUMULATIVE, is_monotonic=True))
        return Metric(name, family.doc, unit, Gauge(numbers))
