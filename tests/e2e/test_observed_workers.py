"""Logs, metrics and traces of `dragoman serve` with several workers, as an operator collects them."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from support.exposed import total
from support.fleet import fleet
from support.gateways import CHAT, MESSAGES, until
from support.otlp_collector import attributes, otlp_collector
from support.samples import dump, reply, text_stream
from support.sockets import ScriptedServer, answer, stream

FILE = """
[server]
keys = ["canary-gateway-key"]
[server.overload]
event_loop_lag = 30
[telemetry]
traces = true
metrics = true
interval = 0.5
endpoint = "{collector}"
service_name = "observed"
[telemetry.headers]
authorization = "Bearer canary-collector-key"
[models]
discover = false
[providers.up]
dialect = "chat"
base_url = "{upstream}/v1"
api_key = "canary-upstream-key"
[[routes]]
model = "*"
provider = "up"
"""
KEY = {"x-api-key": "canary-gateway-key"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def test_every_exchange_is_in_log_metrics_and_traces(tmp_path: Path) -> None:
    scripts = (answer(200, dump(reply(CHAT))), stream(text_stream(CHAT)))
    async with ScriptedServer(*scripts * 3) as server, otlp_collector() as collector:
        path = tmp_path / "dragoman.toml"
        await asyncio.to_thread(path.write_text, FILE.format(collector=collector.url, upstream=server.url))
        async with fleet(str(path), "--log-format", "json") as up:
            headers = {**KEY, "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
            for number in range(6):
                client = (CHAT, MESSAGES)[number // 2 % 2]
                sent = await up.ask(client, headers=headers, stream=number % 2 == 1, model=f"m{number}")
                assert sent.status == 200
            await until(lambda: len(collector.spans) == 12, 60)
            await until(lambda: "gen_ai.server.request.duration" in collector.metrics, 60)
            samples = await up.metrics(**KEY)
            ready = await up.get("/ready")
            page = (await up.get("/metrics", **KEY))[1]
            up.signal(signal.SIGTERM)
            assert await up.command.ends() == 0
            log = up.command.stated
    assert ready == (200, b'{"ready":true,"reasons":[],"warnings":[]}')
    assert total(samples, "dragoman_trace_spans_total", result="exported") == 12
    assert total(samples, "dragoman_time_per_output_token_seconds_count", provider="up") == 3
    assert total(samples, "dragoman_event_loop_lag_seconds_count") > 0
    assert 0 <= total(samples, "dragoman_event_loop_lag_max_seconds") < 30
    assert "dragoman_accept_queue_connections" in {name for name, _ in samples}
    assert total(samples, "dragoman_upstream_connections", origin=server.url, state="idle") >= 1
    assert collector.resource["service.name"] == "observed"
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    lines = [json.loads(line) for line in log.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    requests = [line for line in lines if line.get("event") == "request"]
    assert [line["trace_id"] for line in requests] == [TRACE] * 6
    exchanges = [attributes(span) for span in collector.spans if span.kind == 2]
    assert {line["request_id"] for line in requests} == {exchange["dragoman.request_id"] for exchange in exchanges}
    seen = {
        "log": log,
        "metrics": page.decode(),
        "spans": str(collector.spans),
        "sent": repr(collector.bodies),
        "ready": str(ready),
    }
    assert not {name for name, text in seen.items() if "canary" in text}
