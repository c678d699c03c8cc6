"""The alert rules on the metrics of real gateways, as Prometheus' own `promtool` evaluates them.

Each case is a gateway and a minute of traffic. Its metrics are read before and after, and their difference is repeated
for half an hour. The tests are skipped without `promtool` (Debian's package `prometheus`).
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from dragoman.dialects import Dialect
from dragoman_server.accounts.usage.price import Price
from dragoman_server.config.overload import Overload
from dragoman_server.config.provider import Auth
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models
from dragoman_server.observability.metric_families import OPEN_STREAMS
from dragoman_server.proxy.hooks import NO_HOOKS, Hooks
from support.exposed import Sample, read_exposition
from support.gateways import Gate, gate, raw_exchange, until
from support.named_keys import keyed, made
from support.paths import ROOT
from support.programs import installed
from support.samples import dump, error_frame, reply, text_stream
from support.sockets import Close, ScriptedServer, Send, Stall, Step, answer, chunk, sse_head, stream

CHAT, MESSAGES, *_ = Dialect
RULES = ROOT / "docs/deploy/prometheus-alerts.yml"
PROMTOOL = installed("promtool")
AT = {"job": "dragoman", "instance": "gateway:8080"}
MINUTES = 30
QUIET = 3
"""Minutes before the traffic begins."""
OF_THE_MACHINE = ("dragoman_event_loop_lag", "dragoman_process_")
"""Metrics that depend on the load of the machine."""
FIRED = "count by (alertname, severity, provider) (ALERTS{alertstate='firing'})"

Alerts = frozenset[tuple[str, str, str]]
"""Names, severities and providers."""
NONE: Alerts = frozenset()
ADMIN, ADMINS = made("admin", admin=True)
Traffic = Callable[[Gate, str], Coroutine[Any, Any, None]]


def about(provider: str, **severities: str) -> Alerts:
    return frozenset((f"Dragoman{name}", severity, provider) for name, severity in severities.items())


# --- one case ---------------------------------------------------------------------------------------------------------


def series(name: str, labels: tuple[tuple[str, str], ...], before: float | None, after: float) -> dict[str, str]:
    """A series of promtool: a quiet beginning, then the difference once more in each minute."""
    pairs = ",".join(f"{label}={dump(value).decode()}" for label, value in (*AT.items(), *labels))
    counter = name.endswith(("_total", "_bucket", "_sum", "_count"))
    start = f"_x{QUIET}" if before is None else f"{before:g}x{QUIET}"
    step, last = (after - (before or 0), after) if counter else (0, after)
    return {"series": f"{name}{{{pairs}}}", "values": f"{start} {last:g}{step:+g}x{MINUTES}"}


def firing(before: Mapping[Sample, float], after: Mapping[Sample, float], fired: Alerts, folder: Path) -> str:
    """Evaluate the rules. Returns the output if other alerts than `fired` fire at the end, else an empty text."""
    samples = [
        {"labels": "{" + ",".join(f'{name}="{value}"' for name, value in shown.items() if value) + "}", "value": 1}
        for name, severity, provider in fired
        for shown in ({"alertname": name, "severity": severity, "provider": provider},)
    ]
    rows = [
        series(name, labels, before.get((name, labels)), value)
        for (name, labels), value in after.items()
        if not name.startswith(OF_THE_MACHINE)
    ]
    expected = {"expr": FIRED, "eval_time": f"{MINUTES}m", "exp_samples": samples}
    return promtool(folder, input_series=rows, promql_expr_test=[expected])


def promtool(folder: Path, **test: Any) -> str:
    """Run one test of the rules. Returns the output if it fails, else an empty text."""
    path = folder / "test.yml"
    tests = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [{"interval": "1m", **test}]}
    path.write_text(yaml.safe_dump(tests), "utf-8")
    done = subprocess.run([PROMTOOL, "test", "rules", str(path)], capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@dataclass(frozen=True)
class Case:
    """A provider that answers with `scripts`, a key with `limits`, and a minute of `traffic`."""

    traffic: Traffic
    fires: Alerts = NONE
    scripts: tuple[list[Step], ...] = (answer(200, dump(reply(CHAT))),)
    limits: tuple[tuple[str, Any], ...] = ()
    change: Callable[[Config], Config] = lambda config: config
    hooks: Hooks[Any] = NO_HOOKS
    seen: tuple[str, str] = ("requests", "")
    """A counter that the traffic increases, and the value of one of its labels."""


async def page(entrance: Gate) -> dict[Sample, float]:
    async with entrance.session.get(f"{entrance.url}/metrics", headers=bearer(ADMIN)) as response:
        assert response.status == 200
        return read_exposition(await response.read())


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def asking(times: int = 5, path: str = "/v1/chat/completions", **fields: Any) -> Traffic:
    """Return the same request several times, with the client's key."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}

    async def send(entrance: Gate, key: str) -> None:
        for _ in range(times):
            async with entrance.session.post(entrance.url + path, json=body, headers=bearer(key)) as response:
                await response.read()

    return send


def each(*parts: Traffic) -> Traffic:
    async def send(entrance: Gate, key: str) -> None:
        for part in parts:
            await part(entrance, key)

    return send


async def wrong_paths(entrance: Gate, key: str) -> None:
    for path in ("/v1/nothing", "/chat/completions", "/v1/v1/messages", "/v1/models"):
        for method in ("GET", "DELETE", "POST"):
            async with entrance.session.request(method, entrance.url + path, headers=bearer(key)) as response:
                await response.read()


async def no_http(entrance: Gate, key: str) -> None:
    for _ in range(5):
        assert b" 400 " in await raw_exchange(entrance.port, b"hello\r\n\r\n")


async def wrong_keys(entrance: Gate, _: str) -> None:
    await asking(9)(entrance, "wrong")
    async with entrance.session.get(f"{entrance.url}/metrics", headers=bearer("wrong")) as response:
        assert response.status == 401


async def while_stopping(entrance: Gate, key: str) -> None:
    """Five requests under way when the gateway stops, and some that come later."""
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(asking(1)(entrance, key))
        await until(lambda: entrance.gateway.metrics.open_requests == 5)
        await asyncio.sleep(0)
        await entrance.gateway.stop(0)
    await asking(5)(entrance, key)


async def while_overloaded(entrance: Gate, key: str) -> None:
    config = entrance.gateway.config
    busy = replace(config, server=replace(config.server, overload=Overload(memory=1)))
    entrance.gateway.reconfigure(busy)
    await until(lambda: entrance.gateway.services.instruments.load.reason() is not None)
    await asking(5)(entrance, key)
    entrance.gateway.reconfigure(config)
    await until(lambda: entrance.gateway.services.instruments.load.reason() is None)


async def choose_fails(*_: Any) -> Any:
    raise web.HTTPServiceUnavailable


async def choose_is_broken(*_: Any) -> Any:
    raise RuntimeError("a defect of the application")


def provider_with(**fields: Any) -> Callable[[Config], Config]:
    return lambda config: replace(config, providers={"up": replace(config.providers["up"], **fields)})


def nowhere(config: Config) -> Config:
    return provider_with(base_url="http://127.0.0.1:9")(config)


def passed_through(config: Config) -> Config:
    return replace(provider_with(auth=Auth.PASSTHROUGH)(config), keys={})


def priced(config: Config) -> Config:
    return provider_with(prices={"*": Price(input=1_000_000.0, output=1_000_000.0)})(config)


def without_routes(config: Config) -> Config:
    return replace(config, routes=[Route("known", "up")], models=Models(unknown="reject"))


def one_place(config: Config) -> Config:
    return provider_with(concurrent=1, queue=0)(config)


async def at_once(entrance: Gate, key: str) -> None:
    """Requests while the provider's only place is taken."""
    gateway = entrance.gateway
    first = asyncio.create_task(asking(1, stream=True)(entrance, key))
    await until(lambda: gateway.metrics.totals.read(OPEN_STREAMS, "chat")[0])
    await asking(5)(entrance, key)
    first.cancel()
    await until(lambda: not gateway.metrics.open_requests)


REFUSED = dump({"error": {"message": "no", "type": "x", "param": None, "code": None}})
WHOLE, STREAM = answer(200, dump(reply(CHAT))), stream(text_stream(CHAT))
BEGUN: list[Step] = [Send(sse_head()), Send(chunk(text_stream(CHAT)[0]))]
BROKEN = stream([*text_stream(CHAT)[:2], error_frame(CHAT)])


def limited(limit: str, most: float, change: Callable[[Config], Config] = lambda config: config) -> Case:
    """A key with a limit that the traffic exceeds."""
    return Case(
        asking(20), limits=((limit, most),), change=change, seen=("limit_rejections", limit.removesuffix("_per_minute"))
    )


INNOCENT = {
    "good replies": Case(each(asking(5), asking(stream=True)), scripts=(*[WHOLE] * 5, STREAM)),
    "requests per minute": limited("requests_per_minute", 2),
    "tokens per minute": limited("tokens_per_minute", 40),
    "token budget": limited("daily_tokens", 40),
    "cost budget": limited("monthly_cost", 40, change=priced),
    "missing price": Case(asking(20), limits=(("monthly_cost", 40),), seen=("requests", "rejected")),
    "model not permitted": Case(asking(20), limits=(("models", ("small-*",)),), seen=("requests", "rejected")),
    "unknown model": Case(asking(20), change=without_routes, seen=("requests", "rejected")),
    "no place": Case(at_once, scripts=([*BEGUN, Stall()],), change=one_place, seen=("gateway_errors", "no_provider")),
    "bad requests": Case(each(asking(), asking(20, n="x", path="/v1/messages")), seen=("requests", "rejected")),
    "wrong paths": Case(each(asking(), wrong_paths), seen=("rejected_requests", "path")),
    "no HTTP": Case(each(asking(), no_http)),
    "wrong keys": Case(each(asking(), wrong_keys), seen=("requests", "rejected")),
    "the client's key at the provider": Case(
        asking(20), scripts=(answer(401, REFUSED),), change=passed_through, seen=("upstream_errors", "client_key")
    ),
    "invalid at the provider": Case(
        asking(20), scripts=(answer(400, REFUSED),), seen=("upstream_errors", "invalid_request")
    ),
    "stopping": Case(while_stopping, scripts=([Stall()],), seen=("gateway_errors", "stopping")),
    "a hook that refuses": Case(asking(), hooks=Hooks(choose=choose_fails), seen=("gateway_errors", "hook")),
    "a hook that is broken": Case(asking(), hooks=Hooks(choose=choose_is_broken), seen=("gateway_errors", "hook")),
}
FAIL = {"RequestsFail": "page"}
DOWN = {"ProviderDown": "page", **FAIL}
DEAD = about("up", UpstreamUnreachable="ticket", **DOWN)
KEY = about("up", UpstreamRejectsKey="ticket", **FAIL)
GUILTY = {
    "dead": Case(asking(), DEAD, change=nowhere),
    "dead, and limits": replace(limited("requests_per_minute", 5, change=nowhere), traffic=asking(200), fires=DEAD),
    "errors": Case(asking(), about("up", **DOWN), (answer(500, REFUSED),)),
    "overloaded": Case(asking(), about("up", **DOWN), (answer(503, REFUSED),)),
    "no replies": Case(asking(), about("up", **DOWN), (answer(200, b"{"),)),
    "cut streams": Case(asking(stream=True), about("up", StreamsCut="ticket", **FAIL), ([*BEGUN, Close()],)),
    "errors in streams": Case(asking(stream=True), about("up", **DOWN), (BROKEN,)),
    "refuses the key": Case(asking(), KEY, (answer(401, REFUSED),)),
    "refuses the request": Case(asking(), KEY, (answer(403, REFUSED),)),
    "unpaid": Case(asking(), about("up", UpstreamRejectsKey="ticket"), (answer(402, REFUSED),)),
}
OF_THE_GATEWAY = {
    "load": Case(while_overloaded, about("", ShedsLoad="page"), seen=("shed_requests", "memory")),
}
CASES = INNOCENT | GUILTY | OF_THE_GATEWAY


async def run(case: Case) -> tuple[dict[Sample, float], dict[Sample, float]]:
    """Return the metrics before and after the traffic of a case."""
    key, record = made("alice", **dict(case.limits))
    async with ScriptedServer(*case.scripts) as server:
        config = case.change(keyed(server.url, CHAT, record, ADMINS))
        async with gate(config, hooks=case.hooks) as entrance:
            before = await page(entrance)
            await case.traffic(entrance, key)
            entrance.gateway.services.open_requests.stopping = False
            entrance.gateway.services.instruments.provider_health.compare(time.monotonic())
            return before, await page(entrance)


@pytest.mark.few
@pytest.mark.parametrize("name", CASES)
async def test_what_fires(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    before, after = await run(case)
    counter, label = case.seen
    rose = [sample for sample, value in after.items() if value > before.get(sample, 0)]
    assert any(
        name == f"dragoman_{counter}_total" and (label or "up") in dict(labels).values() for name, labels in rose
    )
    assert firing(before, after, case.fires, tmp_path) == ""


async def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    before, after = await run(GUILTY["errors"])
    assert "DragomanProviderDown" in firing(before, after, NONE, tmp_path)
    assert "DragomanShedsLoad" in firing(before, after, OF_THE_GATEWAY["load"].fires, tmp_path)


async def test_one_event_is_enough(tmp_path: Path) -> None:
    """For alerts without a threshold: Prometheus sees no increase in a series that begins with its first event."""
    before, after = await run(replace(GUILTY["refuses the key"], traffic=asking(1)))
    rows = []
    for (name, labels), value in before.items():
        if name == "dragoman_upstream_errors_total":
            row = series(name, labels, value, after[name, labels])
            rows.append({**row, "values": f"{value:g}x9 {after[name, labels]:g}x5"})
    wanted = {"severity": "ticket", "provider": "up", "kind": "authentication", **AT}
    alert = {"exp_labels": wanted, "exp_annotations": {"summary": "up does not accept its key: authentication."}}
    expected = {"eval_time": "12m", "alertname": "DragomanUpstreamRejectsKey", "exp_alerts": [alert]}
    assert promtool(tmp_path, input_series=rows, alert_rule_test=[expected]) == ""
