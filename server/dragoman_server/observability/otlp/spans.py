"""Sends spans to a collector. The export thread calls everything here but the constructor."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability.otlp.connection import SECONDS, limit_lines, resource, scope
from dragoman_server.observability.tracing.span import Span

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpSpans:
    """The connection to one collector."""

    def __init__(self, options: Telemetry, host: str = "") -> None:
        self._exporter: SpanExporter = OTLPSpanExporter(
            options.url("traces"), headers=dict(options.headers), timeout=SECONDS
        )
        limit_lines(OTLPSpanExporter)
        self._resource = resource(options.service_name, host)

    def export(self, spans: Sequence[Span]) -> bool:
        """Send spans. Return False if the collector did not take them."""
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
            instrumentation_scope=scope(),
        )
