"""Strings of JSON, overwritten in place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.observability.captures.overwrite import SECRET, TEXT, overwrite, overwrite_view, view

ESCAPED = [False, True]
TEXTS = st.text()


@pytest.mark.parametrize("ascii_only", ESCAPED)
@given(TEXTS)
def test_a_string_keeps_its_lengths_and_loses_its_letters(ascii_only: bool, text: str) -> None:
    data = json.dumps(text, ensure_ascii=ascii_only).encode()
    buffer = bytearray(data)
    overwrite(buffer, 1, len(data) - 1, TEXT)
    assert len(buffer) == len(data)
    found = json.loads(buffer)
    assert len(found) == len(text)
    assert set(found) <= set('x\\"\n\r\t\b\f\x7fß\u27df\U0001f7df\U0001f512')


@given(st.dictionaries(TEXTS, TEXTS))
def test_a_view_is_the_text_without_its_escapes(value: dict[str, str]) -> None:
    inner = json.dumps(value)
    data = bytearray(json.dumps(inner).encode())
    seen = view(data, ((1, len(data) - 1),))
    assert seen.text.decode() == inner
    assert len(seen.at) == len(seen.text)


@given(TEXTS)
def test_a_string_within_a_string_stays_valid(text: str) -> None:
    inner = json.dumps({"a": text})
    data = bytearray(json.dumps(inner).encode())
    size = len(data)
    seen = view(data, ((1, size - 1),))
    overwrite_view(data, seen, 7, len(seen.text) - 2, TEXT, json=True)
    assert len(data) == size
    found = json.loads(json.loads(data))
    assert len(found["a"]) == len(text)
    assert not any(letter in found["a"] for letter in "abcyz019")


def test_a_view_of_fragments_is_one_text() -> None:
    data = bytearray(rb'"{\"a\": \"se" , "cret\u00e9\"}"')
    seen = view(data, ((1, 13), (18, 31)))
    assert seen.text == b'{"a": "secret\x80"}'
    start = seen.text.index(b"secret")
    overwrite_view(data, seen, start, start + 7, SECRET, json=True)
    assert bytes(data) == rb'"{\"a\": \"**" , "****\u002a\"}"'


def test_a_cut_escape_is_left_alone() -> None:
    for data in (b"ab\\", b"ab\\u00", b"\\"):
        buffer = bytearray(data)
        overwrite(buffer, 0, len(buffer), TEXT)
        assert len(buffer) == len(data)
        assert b"ab" not in buffer
