"""The ignored lines of an event stream may be the rest of a damaged field."""

from __future__ import annotations

import pytest

from dragoman.wire.sse_field_names import BEGINNINGS, is_damaged


@pytest.mark.parametrize(
    "line",
    [
        *(b"data: \xff", b"event: \xff", b"id: \x00", b"retry: x"),  # known names
        *(b": ping", b":", ": ä".encode(), b': {"a":1}', b":\x07"),  # comments
        *(b"OK", b"some words", b"database", b"x-request-id: 1", b'meta: {"a":1}', b'usage.v2: {"a":1}', b"tada: 1"),
        *(b'{"error": {"message": "x"}}', b'{"error":'),  # bare JSON
    ],
)
def test_lines_that_are_ignored(line: bytes) -> None:
    assert not is_damaged(line)


@pytest.mark.parametrize(
    "line",
    [
        *(b": \xff", b"x: \xff", b"da\xffta: x", "dätä: x".encode(), b"\x00data: x", b"d:\x00ata: x", b"\tdata: x"),
        *(b" data: {", b"Data: {", b"dta: {", b"dato: [", b"ta: {", b"data2: [1]", b"H(1ata: {"),
        *(b'dataX {"id": 1}', b'5r {"id": 1}'),
        *sorted(BEGINNINGS),
    ],
)
def test_lines_that_may_hide_an_event(line: bytes) -> None:
    assert is_damaged(line)
