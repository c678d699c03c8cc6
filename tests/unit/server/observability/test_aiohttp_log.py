"""Requests that aiohttp cannot parse are counted, and logged without their content."""

from __future__ import annotations

import logging

import pytest
from aiohttp.http import HttpProcessingError
from aiohttp.web import RequestPayloadError

from dragoman_server.observability.aiohttp_log import ServerLog
from dragoman_server.observability.metric_families import MALFORMED, Totals


def test_a_request_that_cannot_be_parsed_is_one_line_without_its_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    totals = Totals()
    log = ServerLog(totals)
    log.error("Error handling request", "1.2.3.4", exc_info=HttpProcessingError(message="sk-secret"))
    log.error("Error handling request", exc_info=HttpProcessingError(message="Received HTTPS traffic on an HTTP port"))
    payload = RequestPayloadError("sk-secret")
    payload.__cause__ = ValueError("sk-secret")
    log.error("Unhandled", exc_info=payload)
    assert [record.getMessage() for record in caplog.records] == [
        "a request from 1.2.3.4 cannot be read: HttpProcessingError",
        "a request cannot be read: https on a port of http",
        "a request cannot be read: ValueError",
    ]
    assert not any(record.exc_info for record in caplog.records)
    assert totals.values == {MALFORMED.name: {(): [3]}}


def test_other_records_are_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    totals = Totals()
    ServerLog(totals).error("It failed: %s", "why", exc_info=ValueError("x"))
    (record,) = caplog.records
    assert (record.name, record.getMessage(), bool(record.exc_info)) == ("aiohttp.server", "It failed: why", True)
    assert not totals.values
