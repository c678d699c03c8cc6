"""Begins the traces of exchanges, and decides which are recorded."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability.metric_families import Totals
from dragoman_server.observability.tracing.exchange_trace import ExchangeTrace
from dragoman_server.observability.tracing.export_thread import ExportThread
from dragoman_server.observability.tracing.span import SpanSink
from dragoman_server.observability.tracing.trace_context import TraceContext, new_span_id, new_trace_id, read_context

CLOSE_SECONDS = 2.0
"""Seconds that the last spans have when the gateway closes."""


class Tracer:
    """The traces of one gateway. `now` returns Unix nanoseconds, `chance` a number from 0 to 1."""

    def __init__(
        self,
        sample: float,
        sink: SpanSink | None,
        *,
        now: Callable[[], int] = time.time_ns,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sample = sample
        self._sink = sink
        self._now = now
        self._chance = chance

    def begin(self, headers: Mapping[str, str], endpoint: str = "") -> ExchangeTrace:
        """Return the trace of a request that has just arrived: the client's, or a new one.

        `endpoint` is the path of a forwarded endpoint.
        """
        parent = read_context(headers)
        if parent is None:
            context = TraceContext(new_trace_id(), new_span_id(), self._chance() < self._sample)
        else:
            context = parent._replace(span_id=new_span_id())
        return ExchangeTrace(context, parent, self._now, self._sink if context.sampled else None, endpoint)

    async def close(self) -> None:
        """Send the last spans."""
        if isinstance(self._sink, ExportThread):
            await self._sink.close(CLOSE_SECONDS)


def create_tracer(options: Telemetry, totals: Totals, host: str = "") -> Tracer | None:
    """Return the tracer of these options, None without traces. Spans are counted in `totals`, and name `host`."""
    if not options.traces:
        return None
    if not options.exports_spans:
        return Tracer(options.sample, None)
    # Imported here: it needs an extra, and takes 0.2 seconds.
    from dragoman_server.observability.otlp.spans import OtlpSpans

    exporter = OtlpSpans(options, host)
    return Tracer(options.sample, ExportThread(exporter.export, exporter.stop, totals, options.queue))
