"""The table `[tracing]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from dragoman_server.config.toml_reader import Problem, Table

QUEUE_MAX = 1_000_000
_PATH = "/v1/traces"
_MODULE = "opentelemetry.exporter.otlp.proto.http"


@dataclass(frozen=True, slots=True)
class Tracing:
    """The settings of traces.

    If it is `enabled`, upstreams get a `traceparent`. With an `endpoint` spans are sent there as well, of the share
    `sample` of the traces that begin here; those of a client follow its decision. `headers` may hold a key. Up to
    `queue` spans wait to be sent.
    """

    enabled: bool = False
    endpoint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    sample: float = 1.0
    service_name: str = "dragoman"
    queue: int = 10_000

    @property
    def exports(self) -> bool:
        """True if spans are sent to a collector."""
        return self.enabled and bool(self.endpoint)

    @property
    def url(self) -> str:
        """The URL to which spans are sent."""
        base = self.endpoint.rstrip("/")
        return base if urlsplit(base).path else base + _PATH

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        if self.endpoint and (wrong := _url_problem(self.endpoint)):
            yield "tracing.endpoint", wrong
        elif self.exports and not _is_installed():
            yield "tracing.endpoint", "needs the packages of OpenTelemetry: pip install 'dragoman[otel]'"
        if not 0 <= self.sample <= 1:
            yield "tracing.sample", f"expected 0 to 1; got {self.sample:g}"
        if not 1 <= self.queue <= QUEUE_MAX:
            yield "tracing.queue", f"expected 1 to {QUEUE_MAX}; got {self.queue}"
        if not self.service_name:
            yield "tracing.service_name", "is empty"
        for name, value in self.headers.items():
            if not name.isascii() or not (name + value).isprintable() or ":" in name or " " in name:
                yield "tracing.headers", f"{name!a} is not a header name, or its value cannot be sent"


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https") or not host:
        return "expected a URL like http://127.0.0.1:4318"
    if "@" in parts.netloc or parts.query or parts.fragment:
        # The URL is logged when spans cannot be sent.
        return "may have no password and no query: use headers"
    return None


def _is_installed() -> bool:
    try:
        return find_spec(_MODULE) is not None
    except ModuleNotFoundError:
        return False


def read_tracing(table: Table) -> Tracing:
    """Return the settings of the file; problems go to the table."""
    headers = table.table("headers")
    given: dict[str, Any] = {
        "enabled": table.boolean("enabled"),
        "endpoint": table.text("endpoint"),
        "headers": {name: value for name in headers if (value := headers.text(name)) is not None},
        "sample": table.number("sample"),
        "service_name": table.text("service_name"),
        "queue": table.integer("queue"),
    }
    headers.finish()
    table.finish()
    return Tracing(**{name: value for name, value in given.items() if value is not None})
