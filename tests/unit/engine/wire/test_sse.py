"""Frames as bytes, and the data that stands for nothing."""

from __future__ import annotations

import pytest

from dragoman.wire.sse import COMMENT, Frame, OddFrame, encode, encode_frames, is_blank


def test_encode() -> None:
    assert encode(Frame("", b"{}")) == b"data: {}\n\n"
    assert encode(Frame("ping", b"{}")) == b"event: ping\ndata: {}\n\n"
    assert encode(Frame("", None)) == COMMENT
    assert encode(Frame("", b"a\nb\r\nc\rd")) == b"data: a\ndata: b\ndata: c\ndata: d\n\n"
    assert b"id" not in encode(OddFrame("e", b"1", id="7", retry=5)), (
        "an id before a lone comment crashes the OpenAI SDK"
    )
    assert (
        encode_frames([Frame("", b"1"), b"id: 7\n\n", Frame("", None), Frame("", b"2")])
        == b"data: 1\n\nid: 7\n\n" + COMMENT + b"data: 2\n\n"
    )
    assert encode_frames(b"data: 1\n\n") == b"data: 1\n\n"
    assert encode_frames([]) == b""


@pytest.mark.parametrize("data", [b"", b" ", b"null", b"{}", b"[ ]", b'""', b"\t{\r\n}"])
def test_blank_data(data: bytes) -> None:
    assert is_blank(data)


@pytest.mark.parametrize("data", [b"0", b"false", b"[0]", b" " * 8, b"[DONE]", b'{"a":1}'])
def test_data_that_is_not_blank(data: bytes) -> None:
    assert not is_blank(data)


def test_frames_are_equal_by_all_of_their_fields() -> None:
    assert Frame("a", b"1") == OddFrame("a", b"1")
    assert Frame("a", b"1") != OddFrame("a", b"1", id="7")
    assert Frame("a", b"1") != b"1"
