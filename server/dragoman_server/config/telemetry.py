"""The table `[telemetry]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from dragoman.gateway import changed_fields
from dragoman_server.config.toml_reader import Problem, Table

QUEUE_MAX = 1_000_000
INTERVAL_MAX = 3600.0
_MODULE = "opentelemetry.exporter.otlp.proto.http"


@dataclass(frozen=True)
class Telemetry:
    """The traces and metrics that OpenTelemetry gets, and the collector that receives them.

    With `traces`, upstreams get a `traceparent`. With an `endpoint` spans are sent there as well, of the share `sample`
    of the traces that begin here; those of a client follow its decision. Up to `queue` spans wait to be sent. With
    `metrics`, the metrics are sent every `interval` seconds. `headers` may hold a key.
    """

    __repr__ = changed_fields

    traces: bool = False
    metrics: bool = False
    endpoint: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    service_name: str = "dragoman"
    sample: float = 1.0
    queue: int = 10_000
    interval: float = 60.0

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
        elif (self.exports_spans or self.metrics) and not _is_installed():
            yield "telemetry.endpoint", "needs the packages of OpenTelemetry: pip install 'dragoman[otel]'"
        if not 0 <= self.sample <= 1:
            yield "telemetry.sample", f"expected 0 to 1; got {self.sample:g}"
        if not 1 <= self.queue <= QUEUE_MAX:
            yield "telemetry.queue", f"expected 1 to {QUEUE_MAX}; got {self.queue}"
        if not 0 < self.interval <= INTERVAL_MAX:
            yield "telemetry.interval", f"expected seconds above 0, up to {INTERVAL_MAX:g}; got {self.interval:g}"
        if not self.service_name:
            yield "telemetry.service_name", "is empty"
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


def _is_installed() -> bool:
    try:
        return find_spec(_MODULE) is not None
    except ModuleNotFoundError:
        return False


def read_telemetry(table: Table) -> Telemetry:
    """Return the settings of the file; problems go to the table."""
    headers = table.table("headers")
    given: dict[str, Any] = {
        "traces": table.boolean("traces"),
        "metrics": table.boolean("metrics"),
        "endpoint": table.text("endpoint"),
        "headers": {name: value for name in headers if (value := headers.secret(name)) is not None},
        "service_name": table.text("service_name"),
        "sample": table.number("sample"),
        "queue": table.integer("queue"),
        "interval": table.number("interval"),
    }
    headers.finish()
    table.finish()
    return Telemetry(**{name: value for name, value in given.items() if value is not None})
