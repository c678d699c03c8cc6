"""The first bytes of a body show whether it is an event stream or JSON."""

from __future__ import annotations

import pytest

from dragoman.wire.body_opening import Opening, document_in

COMMENT = b": PROCESSING\n\n"


@pytest.mark.parametrize("before", [b"", b"\n", b"\r\n \t", b"\xef\xbb\xbf", COMMENT, COMMENT * 3, b": x\r: y\r\n\r\n"])
@pytest.mark.parametrize("body", [b'{"a":1}', b"[1]", b"data: x\n\n", b"event: x\ndata\n\n", b"<html>", b"database"])
def test_blank_lines_and_comments_decide_nothing_in_any_split(before: bytes, body: bytes) -> None:
    whole = before + body
    for size in range(1, len(whole) + 1):
        opening, found, at = Opening(), -1, 0
        while found < 0:
            found = opening.find(whole[at : at + size])
            at += size
        assert at - size + found == len(before)


@pytest.mark.parametrize("body", [b"", b"\n\n", b": comment", b": comment\n\n", b"\xef\xbb"])
def test_a_body_without_a_line_has_no_document(body: bytes) -> None:
    assert Opening().find(body) == -1
    assert document_in(body) == body


def test_a_document_is_what_follows_the_comments() -> None:
    assert document_in(COMMENT + b' {"a":1}\n') == b'{"a":1}\n'


@pytest.mark.parametrize("body", [b"data: {}\n\n", b"data:{}", b"event: x\n\n", b"id: 1\n", b"retry: 1\n", b"data\n"])
def test_an_event_stream_is_no_document(body: bytes) -> None:
    assert document_in(body) is None
    assert document_in(COMMENT + body) is None


@pytest.mark.parametrize("body", [b"<html>", b"database: {", b"error"])
def test_what_is_neither_is_left_as_it_is(body: bytes) -> None:
    assert document_in(body) == body
