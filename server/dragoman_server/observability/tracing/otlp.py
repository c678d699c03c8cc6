"""Sends spans to a collector by OTLP over HTTP, with the packages of the extra `otel`.

Everything here runs in the export thread, but the constructor.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from dragoman_server.config.tracing import Tracing
from dragoman_server.observability.tracing.span import Span

SECONDS = 5.0
"""Seconds that one batch has, with its retries."""
LOG_EVERY = 60.0
"""Seconds between two lines of the exporter's own log, which has one for each try."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


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


class OtlpExporter:
    """The connection to one collector."""

    def __init__(self, options: Tracing) -> None:
        own = version("dragoman")
        self._exporter: SpanExporter = OTLPSpanExporter(options.url, headers=dict(options.headers), timeout=SECONDS)
        logging.getLogger(OTLPSpanExporter.__module__).addFilter(_RARE)
        # With the attributes of OTEL_RESOURCE_ATTRIBUTES.
        self._resource = Resource.create({"service.name": options.service_name, "service.version": own})
        self._scope = InstrumentationScope("dragoman", own)

    def export(self, spans: Sequence[Span]) -> bool:
        """Send spans. Returns False if the collector did not take them."""
        return self._exporter.export([self._readable(span) for span in spans]) is SpanExportResult.SUCCESS

    def stop(self) -> None:
        """End an export that waits for another try, and accept no further one."""
        self._exporter.shutdown()

    def _readable(self, span: Span) -> ReadableSpan:
        trace_id, state = int(span.context.trace_id, 16), TraceState.from_header([span.context.state])
        parent = None
        if span.parent is not None:
            parent = SpanContext(trace_id, int(span.parent, 16), span.remote, _SAMPLED, state)
        return ReadableSpan(
            span.name,
            SpanContext(trace_id, int(span.context.span_id, 16), False, _SAMPLED, state),
            parent,
            self._resource,
            span.attributes,
            kind=SpanKind.SERVER if span.server else SpanKind.CLIENT,
            # Without a description: messages of errors may quote a prompt.
            status=Status(StatusCode.ERROR if span.failed else StatusCode.UNSET),
            start_time=span.start,
            end_time=span.end,
            instrumentation_scope=self._scope,
        )
