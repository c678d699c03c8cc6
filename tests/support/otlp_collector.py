"""A collector of traces and metrics that receives OTLP over HTTP, and keeps what it gets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from support.gateways import served


class OtlpCollector:
    """`spans` are those of all requests so far, `metrics` the last ones by name, `resource` the process."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.resource: dict[str, Any] = {}
        self.scopes: set[str] = set()
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    async def take_spans(self, request: web.Request) -> web.Response:
        """`POST /v1/traces`."""
        received = ExportTraceServiceRequest.FromString(await self._body(request))
        for of_resource in received.resource_spans:
            self.resource |= attributes(of_resource.resource)
            for of_scope in of_resource.scope_spans:
                self.scopes.add(of_scope.scope.name)
                self.spans += of_scope.spans
        body = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=body, content_type="application/x-protobuf")

    async def take_metrics(self, request: web.Request) -> web.Response:
        """`POST /v1/metrics`."""
        received = ExportMetricsServiceRequest.FromString(await self._body(request))
        for of_resource in received.resource_metrics:
            self.resource |= attributes(of_resource.resource)
            for of_scope in of_resource.scope_metrics:
                self.metrics |= {metric.name: metric for metric in of_scope.metrics}
        return web.Response(content_type="application/x-protobuf")

    async def _body(self, request: web.Request) -> bytes:
        assert request.content_type == "application/x-protobuf"
        body = await request.read()
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.bodies.append(body)
        return body


def attributes(span: Any) -> dict[str, Any]:
    """The attributes of a span, a resource or a data point."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@asynccontextmanager
async def otlp_collector() -> AsyncIterator[OtlpCollector]:
    """A collector on a port of its own."""
    collector, app = OtlpCollector(), web.Application()
    app.router.add_post("/v1/traces", collector.take_spans)
    app.router.add_post("/v1/metrics", collector.take_metrics)
    async with served(app) as (collector.url, _):
        yield collector
