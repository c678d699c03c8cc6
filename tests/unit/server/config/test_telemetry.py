"""The table `[telemetry]`."""

from __future__ import annotations

import pytest

from dragoman_server.config import telemetry
from dragoman_server.config.load import parse_config
from dragoman_server.config.telemetry import Telemetry


def test_the_table_is_read() -> None:
    table = {
        "traces": True,
        "metrics": True,
        "interval": 10,
        "endpoint": "https://collector:4318/",
        "headers": {"x-api-key": "${COLLECTOR_KEY}"},
        "sample": 0.25,
        "service_name": "llm",
        "queue": 100,
    }
    options = parse_config({"telemetry": table}, {"COLLECTOR_KEY": "canary"}).telemetry
    assert options == Telemetry(True, True, "https://collector:4318/", {"x-api-key": "canary"}, "llm", 0.25, 100, 10)
    assert "canary" not in repr(options)


def test_all_is_off_by_default() -> None:
    options = parse_config({}, {}).telemetry
    assert not options.traces
    assert not options.metrics
    assert not Telemetry(endpoint="http://collector:4318").exports_spans


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://host/otlp", "https://host/otlp/v1/traces"),
    ],
)
def test_the_url_of_a_signal(endpoint: str, url: str) -> None:
    assert Telemetry(endpoint=endpoint).url("traces") == url


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (Telemetry(endpoint="collector:4318"), "telemetry.endpoint"),
        (Telemetry(endpoint="http://canary@collector"), "telemetry.endpoint"),
        (Telemetry(endpoint="http://collector?key=canary"), "telemetry.endpoint"),
        (Telemetry(endpoint="http://[canary"), "telemetry.endpoint"),
        (Telemetry(endpoint="http://collector:4318/v1/traces"), "telemetry.endpoint"),
        (Telemetry(metrics=True), "telemetry.endpoint"),
        (Telemetry(interval=0), "telemetry.interval"),
        (Telemetry(sample=1.5), "telemetry.sample"),
        (Telemetry(sample=float("nan")), "telemetry.sample"),
        (Telemetry(queue=0), "telemetry.queue"),
        (Telemetry(service_name=""), "telemetry.service_name"),
        (Telemetry(headers={"a b": "canary"}), "telemetry.headers"),
        (Telemetry(headers={"a": "canary\r\nx: y"}), "telemetry.headers"),
    ],
)
def test_problems(options: Telemetry, path: str) -> None:
    ((found, message),) = options.problems()
    assert found == path
    assert "canary" not in message


def test_the_packages_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Telemetry(True, endpoint="http://collector:4318")
    assert list(options.problems()) == []
    monkeypatch.setattr(telemetry, "_MODULE", "opentelemetry.exporter.of_nobody.http")
    ((path, message),) = options.problems()
    assert path == "telemetry.endpoint"
    assert "install Dragoman with the extra otel" in message
    assert list(Telemetry(True).problems()) == [], "headers alone need no package"
