"""The end of a response in what a client reads about it later."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Usage
from dragoman.dialects.responses.reply.read_end import find_end, read_end
from dragoman.dialects.responses.stream.phases import TERMINALS

COUNTS = {"input_tokens": 12, "output_tokens": 7, "total_tokens": 19, "input_tokens_details": {"cached_tokens": 3}}


def response(status: str, **more: Any) -> dict[str, Any]:
    return {"object": "response", "id": "resp_1", "status": status, "background": True, "output": [], **more}


def event(name: str, status: str, **more: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (
        name.encode(),
        json.dumps({"type": name, "response": response(status, **more)}).encode(),
    )


@pytest.mark.parametrize("status", ["completed", "incomplete", "COMPLETED"])
def test_the_counts_of_an_end(status: str) -> None:
    end = read_end(json.dumps(response(status, usage=COUNTS, service_tier="flex")).encode())
    assert end is not None
    assert (end.status, end.failure, end.written) == (status.lower(), None, 0)
    assert end.usage == Usage(input_total=12, cache_read=3, output_total=7)
    assert end.service is not None
    assert end.service.tier == "flex"


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(response("queued")).encode(),
        json.dumps(response("in_progress", usage=None)).encode(),
        json.dumps(response("odd")).encode(),
        json.dumps(response(7)).encode(),  # type: ignore[arg-type]
        b'{"object":"list","data":[],"status":"completed"}',
        b'{"object":"response.deleted","id":"resp_1"}',
        b"[1]",
        b"nonsense",
    ],
)
def test_what_has_no_end(body: bytes) -> None:
    assert read_end(body) is None


def test_an_error_and_a_cancelled_response_are_ends() -> None:
    failed = read_end(json.dumps(response("failed", error={"code": "server_error", "message": "no"})).encode())
    assert failed is not None
    assert failed.failure is not None
    assert (failed.status, failed.failure.message) == ("failed", "no")
    cancelled = read_end(json.dumps(response("cancelled", usage=None)).encode())
    assert cancelled is not None
    assert (cancelled.status, cancelled.usage) == ("cancelled", None)


def test_the_output_that_was_not_counted_is_measured() -> None:
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x" * 40}]}
    end = read_end(json.dumps(response("completed", output=[text])).encode())
    assert end is not None
    assert (end.usage, end.written) == (None, 40)


@pytest.mark.parametrize(("name", "status"), TERMINALS.items())
def test_each_terminal_event_is_found_among_others(name: str, status: str | None) -> None:
    delta = b'data: {"type":"response.output_text.delta","delta":"\\"type\\":\\"response.completed\\""}\n\n'
    found = event(name, status or "completed", usage=COUNTS)
    assert find_end(delta) is None
    assert find_end(event("response.in_progress", "in_progress") + delta) is None
    for data in (found, delta + found, found.replace(b"\n", b"\r\n"), found.replace(b'": "', b'" : "')):
        end = find_end(data)
        assert end is not None
        assert end.usage is not None
        assert (end.status, end.usage.output_total) == (status or "completed", 7)


def test_an_odd_terminal_event_is_no_end() -> None:
    for data in (b'{"type":"response.completed"', b'{"type":"response.completed"}', b'["type","response.completed"]'):
        assert find_end(b"data: " + data + b"\n\n") is None
