"""The table `[telemetry]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from dragoman.gateway import changed_fields
from dragoman_server.config.config_error import Problem
from dragoman_server.config.setting import Above, Filled, Range, setting, setting_problems
from dragoman_server.config.value_problems import is_installed

QUEUE_MAX = 1_000_000
INTERVAL_MAX = 3600.0
_MODULE = "opentelemetry.exporter.otlp.proto.http"


@dataclass(frozen=True)
class Telemetry:
    """The traces and metrics that OpenTelemetry gets, and the collector that receives them.

    With an `endpoint`, spans are sent there as well; those of a client follow its decision.
    """

    __repr__ = changed_fields

    traces: bool = setting(False)
    """Give each exchange a trace, and send traceparent to upstreams."""
    metrics: bool = setting(False)
    """Send metrics to the collector."""
    endpoint: str = setting("", shown=False)
    """URL of a collector that takes OTLP over HTTP: http://127.0.0.1:4318."""
    headers: Mapping[str, str] = setting(dict, getter="named_secrets", shown=False)
    """Headers for the collector."""
    service_name: str = setting("dragoman", Filled())
    """Name of the service in traces and metrics."""
    sample: float = setting(1.0, Range(0, 1))
    """Share of the traces that begin here and are recorded, 0 to 1."""
    queue: int = setting(10_000, Range(1, QUEUE_MAX))
    """Spans that may wait to be sent."""
    interval: float = setting(60.0, Above("seconds", INTERVAL_MAX))
    """Seconds between two sendings of metrics."""

    @property
    def exports_spans(self) -> bool:
        """True if spans are sent to a collector."""
        return self.traces and bool(self.endpoint)

    def url(self, signal: str) -> str:
        """Return the URL to which a signal (`traces`, `metrics`) is sent."""
        return f"{self.endpoint.rstrip('/')}/v1/{signal}"

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        if self.endpoint and (wrong := _url_problem(self.endpoint)):
            yield "telemetry.endpoint", wrong
        elif self.metrics and not self.endpoint:
            yield "telemetry.endpoint", "is required for metrics: the URL of a collector"
        elif (self.exports_spans or self.metrics) and not is_installed(_MODULE):
            yield "telemetry.endpoint", "needs the packages of OpenTelemetry: install Dragoman with the extra otel"
        yield from setting_problems("telemetry", self)
        for name, value in self.headers.items():
            if not name.isascii() or not (name + value).isprintable() or ":" in name or " " in name:
                yield "telemetry.headers", f"{name!a} is not a header name, or its value cannot be sent"


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https") or not host:
        return "expected a URL like http://127.0.0.1:4318"
    if "@" in parts.netloc or parts.query or parts.fragment:
        # The URL is logged when the collector does not answer.
        return "may have no password and no query: use headers"
    if parts.path.rstrip("/").endswith(("/v1/traces", "/v1/metrics")):
        return "expected the base URL, without /v1/traces"
    return None
