"""The metrics as a collector receives them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability.metric_families import (
    DURATION,
    MEMORY,
    OPEN_STREAMS,
    REQUESTS,
    SECONDS,
    Totals,
)
from dragoman_server.observability.otlp.metrics import OtlpMetrics
from support.gateways import CHAT, config_for, gate, until
from support.otlp_collector import attributes, otlp_collector
from support.samples import text_stream
from support.sockets import ScriptedServer, stream


async def test_families_keep_their_names_and_kinds() -> None:
    totals = Totals()
    totals.add(REQUESTS, ("chat", "up", "*", "completed", "2xx"), 3)
    totals.add(OPEN_STREAMS, ("chat",), 2)
    totals.put(MEMORY, (), 1000)
    for seconds in (0.01, 0.3, 1000.0):
        totals.observe(DURATION, ("chat", "up", "true"), seconds)
    async with otlp_collector() as collector:
        exporter = OtlpMetrics(Telemetry(metrics=True, endpoint=collector.url), now=iter((5, 7)).__next__)
        assert await asyncio.to_thread(exporter.export, totals)
        exporter.stop()
    found = collector.metrics
    requests = found["dragoman_requests_total"]
    assert requests.sum.is_monotonic
    assert requests.sum.aggregation_temporality == 2, "cumulative"
    (point,) = requests.sum.data_points
    assert (point.as_double or point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (3, 5, 7)
    labels = {"client": "chat", "provider": "up", "route": "*", "ended": "completed", "status": "2xx"}
    assert attributes(point) == labels
    (point,) = found["dragoman_open_streams"].gauge.data_points
    assert (point.as_double or point.as_int, attributes(point)) == (2, {"client": "chat"})
    assert found["dragoman_process_resident_memory_bytes"].unit == "By"
    labels = {"client": "chat", "provider": "up", "stream": "true"}
    for name, more in (
        ("dragoman_request_duration_seconds", {}),
        ("gen_ai.server.request.duration", {"gen_ai.operation.name": "chat"}),
    ):
        assert found[name].unit == "s"
        (point,) = found[name].histogram.data_points
        assert (point.count, round(point.sum, 2), attributes(point)) == (3, 1000.31, {**labels, **more})
        assert tuple(point.explicit_bounds) == SECONDS
        assert [point.bucket_counts[index] for index in (0, 3, len(SECONDS))] == [1, 1, 1]
        assert len(point.bucket_counts) == len(SECONDS) + 1
        assert not point.HasField("min")


async def test_a_gateway_sends_its_metrics_and_the_last_ones_at_its_end() -> None:
    async with ScriptedServer(stream(text_stream(CHAT))) as server, otlp_collector() as collector:
        options = Telemetry(metrics=True, endpoint=collector.url, interval=0.05, headers={"x-key": "canary"})
        async with gate(replace(config_for(server.url, CHAT), telemetry=options)) as entrance:
            await until(lambda: "dragoman_event_loop_lag_max_seconds" in collector.metrics)
            await entrance.stream(CHAT)
            assert "traceparent" not in server.requests[0].headers
        (point,) = collector.metrics["dragoman_requests_total"].sum.data_points
        assert attributes(point)["ended"] == "completed"
        assert "gen_ai.server.time_to_first_token" in collector.metrics
        assert collector.resource["service.name"] == "dragoman"
        assert {headers["x-key"] for headers in collector.headers} == {"canary"}
        assert b"canary" not in b"".join(collector.bodies)


async def test_a_collector_that_is_away_does_not_keep_the_gateway() -> None:
    async with otlp_collector() as collector:
        url = collector.url
    options = Telemetry(metrics=True, endpoint=url, interval=0.05)
    async with (
        ScriptedServer(stream(text_stream(CHAT))) as server,
        gate(replace(config_for(server.url, CHAT), telemetry=options)) as entrance,
    ):
        await entrance.stream(CHAT)
