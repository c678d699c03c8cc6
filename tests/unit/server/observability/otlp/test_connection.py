"""The connection that the exporters of spans and of metrics share."""

from __future__ import annotations

import logging

import pytest

from dragoman_server.observability.otlp.connection import LOG_EVERY, RareLines, limit_lines, resource
from support.clocks import Clock


def test_an_exporter_logs_one_line_per_minute() -> None:
    clock = Clock()
    lines = RareLines(clock)
    record = logging.makeLogRecord({"msg": "failed"})
    assert [lines.filter(record) for _ in range(3)] == [True, False, False]
    clock.now += LOG_EVERY
    assert [lines.filter(record) for _ in range(2)] == [True, False]


def test_the_logger_of_an_exporter_has_the_filter_once() -> None:
    logger = logging.getLogger(Clock.__module__)
    for _ in range(2):
        limit_lines(Clock)
    assert [type(each) for each in logger.filters] == [RareLines]
    logger.filters.clear()


def test_a_process_is_one_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    first = resource("one").attributes
    assert resource("one").attributes["service.instance.id"] == first["service.instance.id"]
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    attributes = resource("another", "gw-1").attributes
    assert (attributes["service.name"], attributes["deployment.environment.name"]) == ("another", "test")
    assert attributes["host.name"] == "gw-1"
