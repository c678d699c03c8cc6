"""Sends the metrics to a collector: those of `GET /metrics` by the same names, and three of the conventions.

The names of OpenTelemetry's conventions for generative AI are added where the numbers have their meaning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.metrics.export import Metric

from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability import metric_families as families
from dragoman_server.observability.metric_families import Family, Kind, Series, Totals
from dragoman_server.observability.otlp.connection import SECONDS, limit_lines, resource, scope

CONVENTIONS = {
    families.DURATION: "gen_ai.server.request.duration",
    families.FIRST_EVENT: "gen_ai.server.time_to_first_token",
    families.TOKEN_TIME: "gen_ai.server.time_per_output_token",
}
"""Family → its name in the conventions."""
_CUMULATIVE = export.AggregationTemporality.CUMULATIVE
_UNKNOWN = cast("float", None)  # the exporter leaves it out


class OtlpMetrics:
    """The connection to one collector. `now` returns Unix nanoseconds, and `host` is the name of this host."""

    def __init__(self, options: Telemetry, *, host: str = "", now: Callable[[], int] = time.time_ns) -> None:
        self._exporter: export.MetricExporter = OTLPMetricExporter(
            options.url("metrics"), headers=dict(options.headers), timeout=SECONDS
        )
        limit_lines(OTLPMetricExporter)
        self._resource = resource(options.service_name, host)
        self._now = now
        self._started = now()

    def export(self, totals: Totals) -> bool:
        """Send numbers. Return False if the collector did not take them. Called in another thread."""
        metrics = list(self._metrics(totals))
        of_scope = export.ScopeMetrics(scope(), metrics, "")
        data = export.MetricsData([export.ResourceMetrics(self._resource, [of_scope], "")])
        return self._exporter.export(data) is export.MetricExportResult.SUCCESS

    def stop(self) -> None:
        """End an export that waits for another try, and accept no further one."""
        self._exporter.shutdown()

    def _metrics(self, totals: Totals) -> Iterator[Metric]:
        now = self._now()
        for name, family in families.FAMILIES.items():
            if series := totals.values.get(name):
                yield self._metric(family, name, series, now, {})
                if (common := CONVENTIONS.get(family)) is not None:
                    yield self._metric(family, common, series, now, {"gen_ai.operation.name": "chat"})

    def _metric(self, family: Family, name: str, series: Series, now: int, more: Mapping[str, str]) -> Metric:
        points = [
            ({**dict(zip(family.labels, labels, strict=True)), **more}, numbers) for labels, numbers in series.items()
        ]
        if family.kind is Kind.HISTOGRAM:
            return Metric(name, family.doc, "s", export.Histogram(
                [
                    export.HistogramDataPoint(
                        attributes, self._started, now, int(sum(counts)), total, list(map(int, counts)),
                        family.buckets, _UNKNOWN, _UNKNOWN,
                    )
                    for attributes, (*counts, total) in points
                ],
                _CUMULATIVE,
            ))  # fmt: skip
        numbers = [export.NumberDataPoint(attributes, self._started, now, value) for attributes, (value,) in points]
        unit = "s" if "_seconds" in family.name else "By" if family.name.endswith("_bytes") else ""
        if family.kind is Kind.COUNTER:
            return Metric(name, family.doc, unit, export.Sum(numbers, _CUMULATIVE, is_monotonic=True))
        return Metric(name, family.doc, unit, export.Gauge(numbers))
