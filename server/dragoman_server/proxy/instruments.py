"""The counters, monitors and exporters of one gateway, which live as long as it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman_server.accounts.usage.book import UsageBook
from dragoman_server.config.schema import Config
from dragoman_server.observability.descriptor_watch import DescriptorWatch
from dragoman_server.observability.load_monitor import LoadMonitor
from dragoman_server.observability.metric_families import Totals
from dragoman_server.observability.metrics import Metrics
from dragoman_server.observability.metrics_export import create_metrics_export
from dragoman_server.observability.provider_health import ProviderHealth

if TYPE_CHECKING:
    from dragoman_server.observability.captures.captures import Captures  # 0.3 MB of memory
    from dragoman_server.observability.failure_reasons import FailureReasons
    from dragoman_server.observability.metrics_export import MetricsExport
    from dragoman_server.observability.tracing.tracer import Tracer
    from dragoman_server.proxy.stream_recorder import StreamRecorder


class Instruments:
    """The instruments of one gateway.

    `metrics` has the counters, `load` the load of the process, `provider_health` the providers that are down,
    `descriptors` whether the process may open files, and `usage` books rows. `tracer` makes traces; it is set only with
    tracing. `captures` is set only with captures, `reasons` only with the console.

    Args:
        config: The configuration.
        add_pools: Adds the gauges of the connection pools.
        now: A function that returns Unix seconds.
    """

    def __init__(self, config: Config, add_pools: Callable[[Totals], None], now: Callable[[], float]) -> None:
        self.metrics = Metrics(now=now, validate=config.server.validate > 0)
        self.metrics.count_keys(config.providers)
        totals = self.metrics.totals
        self.load = LoadMonitor(totals, config.server.overload, lambda: self.metrics.open_requests)
        self.provider_health = ProviderHealth(totals, time.monotonic)
        self.descriptors = DescriptorWatch()
        self.load.on_tick += (self.provider_health.update, self.descriptors.update)
        self.metrics.gauges += (self.load.add_gauges, self.provider_health.add_gauges, add_pools)
        self._usage_options = config.usage
        self.usage = UsageBook(config.usage, config.price_table(), totals)
        self._capture_options = config.capture
        self.captures: Captures | None = None
        if config.capture.enabled:
            from dragoman_server.observability.captures.captures import Captures

            self.captures = Captures(config.capture, totals, now, host=config.server.host_name)
        self.reasons: FailureReasons | None = None
        if config.server.ui:
            from dragoman_server.observability.failure_reasons import FailureReasons

            self.reasons = FailureReasons()
        self._telemetry = config.telemetry
        self.tracer: Tracer | None = None
        if config.telemetry.traces:
            from dragoman_server.observability.tracing.tracer import create_tracer  # 0.1 MB of memory

            self.tracer = create_tracer(config.telemetry, totals, config.server.host_name)
        self._metrics_export: MetricsExport | None = None
        if config.telemetry.metrics:
            self._metrics_export = create_metrics_export(
                config.telemetry, self.metrics.snapshot, config.server.host_name
            )
        self.recorder: StreamRecorder | None = None
        """Records single streams. A console sets it while it records some."""

    def configure(self, config: Config) -> list[str]:
        """Use a new configuration. Return the names of the tables whose change takes effect after a restart."""
        self.metrics.count_validated(config.server.validate > 0)
        self.metrics.count_keys(config.providers)
        self.load.configure(config.server.overload)
        self.usage.configure(config.price_table())
        changed = {
            "usage": config.usage != self._usage_options,
            "telemetry": config.telemetry != self._telemetry,
            "capture": config.capture != self._capture_options,
        }
        return [name for name, differs in changed.items() if differs]

    def open(self) -> None:
        """Open the files and begin to measure and to export. Raises ConfigError if a file cannot be used."""
        self.usage.open()
        if self.captures is not None:
            self.captures.open()
        self.load.start()
        if self._metrics_export is not None:
            self._metrics_export.start()

    async def close(self) -> None:
        """Write and send what is pending."""
        self.load.stop()
        await self.usage.close()
        if self.captures is not None:
            await self.captures.close()
        await asyncio.gather(*(each.close() for each in (self.tracer, self._metrics_export) if each is not None))
