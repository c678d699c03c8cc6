"""The gateway's metrics in a registry of prometheus_client, for an application that embeds the gateway and has one.

It needs the extra `prometheus`, or any installed prometheus_client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from dragoman_server.observability.metric_families import FAMILIES, Family, Kind, Series
from dragoman_server.observability.metrics import Metrics
from dragoman_server.observability.prometheus import number


class HasMetrics(Protocol):
    """A gateway, by its counters."""

    @property
    def metrics(self) -> Metrics:
        """The counters."""
        ...


class GatewayCollector(Collector):
    """Collects the metrics of one gateway: `REGISTRY.register(GatewayCollector(gateway))`.

    Numbers are read when the registry is, in any thread. A registry can have one gateway.
    """

    def __init__(self, gateway: HasMetrics) -> None:
        self._gateway = gateway

    def describe(self) -> Iterable[Metric]:
        """Return the families without numbers, so that a second gateway is an error when it is registered."""
        return [_metric(family, Series(family)) for family in FAMILIES.values()]

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have numbers."""
        totals = self._gateway.metrics.alone()
        for name, family in FAMILIES.items():
            if series := totals.values.get(name):
                yield _metric(family, series)


def _metric(family: Family, series: Series) -> Metric:
    if family.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(family.name, family.doc, labels=family.labels)
        ends = (*map(number, family.buckets), "+Inf")
        for labels, (*counts, total) in series.items():
            buckets = list(zip(ends, accumulate(counts), strict=True))
            histogram.add_metric(labels, buckets, total)
        return histogram
    made: CounterMetricFamily | GaugeMetricFamily
    if family.kind is Kind.COUNTER:
        made = CounterMetricFamily(family.name, family.doc, labels=family.labels)
    else:
        made = GaugeMetricFamily(family.name, family.doc, labels=family.labels)
    for labels, numbers in series.items():
        made.add_metric(labels, numbers[0])
    return made
