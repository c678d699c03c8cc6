"""The table `[tracing]`."""

from __future__ import annotations

import pytest

from dragoman_server.config import tracing
from dragoman_server.config.load import parse_config
from dragoman_server.config.tracing import Tracing


def test_the_table_is_read() -> None:
    table = {
        "enabled": True,
        "endpoint": "https://collector:4318/",
        "headers": {"x-api-key": "${COLLECTOR_KEY}"},
        "sample": 0.25,
        "service_name": "llm",
        "queue": 100,
    }
    options = parse_config({"tracing": table}, {"COLLECTOR_KEY": "canary"}).tracing
    assert options == Tracing(True, "https://collector:4318/", {"x-api-key": "canary"}, 0.25, "llm", 100)
    assert "canary" not in repr(options)


def test_tracing_is_off_by_default() -> None:
    assert not parse_config({}, {}).tracing.enabled
    assert not Tracing(endpoint="http://collector:4318").exports


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://host/otlp/v1/traces", "https://host/otlp/v1/traces"),
    ],
)
def test_an_endpoint_without_a_path_gets_the_usual_one(endpoint: str, url: str) -> None:
    assert Tracing(endpoint=endpoint).url == url


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (Tracing(endpoint="collector:4318"), "tracing.endpoint"),
        (Tracing(endpoint="http://canary@collector"), "tracing.endpoint"),
        (Tracing(endpoint="http://collector?key=canary"), "tracing.endpoint"),
        (Tracing(endpoint="http://[canary"), "tracing.endpoint"),
        (Tracing(sample=1.5), "tracing.sample"),
        (Tracing(sample=float("nan")), "tracing.sample"),
        (Tracing(queue=0), "tracing.queue"),
        (Tracing(service_name=""), "tracing.service_name"),
        (Tracing(headers={"a b": "canary"}), "tracing.headers"),
        (Tracing(headers={"a": "canary\r\nx: y"}), "tracing.headers"),
    ],
)
def test_problems(options: Tracing, path: str) -> None:
    ((found, message),) = options.problems()
    assert found == path
    assert "canary" not in message


def test_the_packages_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Tracing(True, "http://collector:4318")
    assert list(options.problems()) == []
    monkeypatch.setattr(tracing, "_MODULE", "opentelemetry.exporter.of_nobody.http")
    ((path, message),) = options.problems()
    assert path == "tracing.endpoint"
    assert "pip install 'dragoman[otel]'" in message
    assert list(Tracing(True).problems()) == [], "headers alone need no package"
