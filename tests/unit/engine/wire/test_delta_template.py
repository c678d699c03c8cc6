"""Frames that differ in one text only are read by a template, where their meaning is certain."""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.events import Delta, TextRun, text_run
from dragoman.wire.delta_template import DeltaTemplate, VaryingKeys, learn
from dragoman.wire.sse import Frame
from dragoman.wire.sse_parser import Parser

NUMBERED = VaryingKeys(number=b"n", padding=b"pad")


def template(payload: str, text: str = "hi", *, event: str = "") -> DeltaTemplate | None:
    head = f"event: {event}\n".encode() if event else b""
    return learn(head, payload.encode(), Delta(3, text), NUMBERED)


def known(payload: str, *, event: str = "") -> DeltaTemplate:
    found = template(payload, event=event)
    assert found is not None
    return found


def frames(*payloads: str) -> bytes:
    return "".join(f"data: {payload}\n\n" for payload in payloads).encode()


def texts(run: TextRun | None) -> list[str] | None:
    return None if run is None else run.pieces


def test_a_run_is_all_that_is_alike_and_nothing_behind_it() -> None:
    data = frames('{"t":"a"}', '{"t":"é"}', '{"t":"c"}', '{"u":"d"}', '{"t":"e"}')
    found = known('{"t":"hi"}')
    run = found.run(data)
    assert run == text_run(3, "aéc", ["a", "é", "c"], [b'"a"', '"é"'.encode(), b'"c"'])
    assert data[found.end :] == frames('{"u":"d"}', '{"t":"e"}')
    assert found.run(data, found.end) is None
    assert texts(found.run(data, found.end + len(frames('{"u":"d"}')))) == ["e"]
    assert found.end == len(data)


@pytest.mark.parametrize(
    "payload",
    [
        '{"hi":"hi"}',  # which of the two is it
        '{"a":"hi","b":"hi"}',
        '{"hi":1,"t":"h\\u0069"}',  # written so, it is a key
        '{"t":"hi","t":"other\\n"}',  # the first of two is not what counts
        '{"t":["x","\\u0068i"],"u":"hi"}',
        '{"t":1}',
        '{"hi":1}',  # a key
        '{"hi" : "there"}',
        '{"t":"hi\\n"',
    ],
)
def test_nothing_is_learnt_where_the_place_of_the_text_is_not_sure(payload: str) -> None:
    assert template(payload) is None


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ('{"a":"x","b":1}', ","),  # between two strings
        ('{"a":"b:","c":"d"}', ","),
        ('{"a":["b" ,"c"]}', " ,"),
        ('{"a":"b"}', ":"),
    ],
)
def test_bytes_between_two_strings_are_not_taken_for_a_text(payload: str, text: str) -> None:
    assert template(payload, text) is None


def test_half_a_character_is_not_learnt() -> None:
    assert template('{"t":"\\ud83d"}', "\ud83d") is None


@pytest.mark.parametrize(
    "literal",
    [
        '"',
        '""',
        "1",
        "null",
        '["a"]',
        '"a","u":"b"',
        '"a" "b"',
        '"a\\"',
        '"\\ud83d"',
        '"\\x"',
        '"a\x01"',
        '"\udcff"',
        "",
    ],
)
@pytest.mark.parametrize("others", [0, 1, 3])
@pytest.mark.parametrize("place", [0, -1])
def test_what_is_no_text_ends_the_template(literal: str, others: int, place: int) -> None:
    literals = ['"x"'] * others
    literals.insert(0 if place == 0 else others, literal)
    data = b"".join(
        b'data: {"t":%b}\n\n' % formatted.encode("utf-8", "surrogateescape").replace(b"\xed", b"\xff")
        for formatted in literals
    )
    assert known('{"t":"hi"}').run(data) is None


@pytest.mark.parametrize(
    "pieces",
    [
        ['"a","b"', '"c', 'd"'],  # as many strings as pieces, but not one each
        ['"a","b"', ""],
        ['["x","y"]', "1"],
        ['"c\\"', '"'],
    ],
)
def test_each_frame_holds_one_whole_text(pieces: list[str]) -> None:
    assert known('{"t":"hi"}').run(frames(*(f'{{"t":{piece}}}' for piece in pieces))) is None


@pytest.mark.parametrize("formatted", ['"\\u00e9\\/\\n"', ' "é/\\n"', '"é/\\n" '])
@pytest.mark.parametrize("count", [1, 2])
def test_texts_are_written_as_our_writers_do(formatted: str, count: int) -> None:
    run = known('{"t":"hi"}').run(frames(*[f'{{"t":{formatted}}}'] * count))
    assert run is not None
    assert run.pieces == ["é/\n"] * count
    assert run.encoded == [json.dumps("é/\n", ensure_ascii=False).encode()] * count


@pytest.mark.parametrize("shape", ['{"n":%s,"t":"%s"}', '{"t":"%s","n":%s}', '{"t": "%s", "n": %s, "x": 1}'])
def test_a_number_may_differ(shape: str) -> None:
    def payload(text: str, number: str) -> str:
        return shape % ((number, text) if shape.startswith('{"n"') else (text, number))

    found = known(payload("hi", "7"))
    assert texts(found.run(frames(payload("a", "8"), payload("b", "10"), payload("c", "0")))) == ["a", "b", "c"]
    for wrong in ("", "x", "07", "-1", "1.5", '"1"', "1,2", "1e3", "1" * 99):
        data = frames(payload("a", "8"), payload("b", wrong), payload("c", "9"))
        assert texts(found.run(data)) == ["a"]
        assert data[found.end :] == frames(payload("b", wrong), payload("c", "9"))


def test_padding_may_differ() -> None:
    found = known('{"t":"hi","pad":"aB1"}')
    data = frames('{"t":"a","pad":"x"}', '{"t":"b","pad":"yyyyyyyy"}', '{"t":"c","pad":"\\n"}')
    assert texts(found.run(data)) == ["a", "b"]
    assert data[found.end :] == frames('{"t":"c","pad":"\\n"}')
    assert found.run(frames('{"t":"c","pad":""}')) is None


def test_the_name_of_the_event_belongs_to_it() -> None:
    found = known('{"t":"hi"}', event="delta")
    assert texts(found.run(b'event: delta\ndata: {"t":"a"}\n\n')) == ["a"]
    assert found.run(b'event: other\ndata: {"t":"a"}\n\n') is None
    assert found.run(b'data: {"t":"a"}\n\n') is None


def test_whole_frames_are_left_whole_and_the_rest_is_parsed() -> None:
    parser = Parser(whole=True)
    assert parser.feed(b"data: 1\n\ndata: 2\n\nda") == [b"data: 1\n\ndata: 2\n\n"]
    assert parser.feed(b"ta: 3\n\ndata: 4\n\ndata: 5\n\nevent: x") == [Frame("", b"3"), b"data: 4\n\ndata: 5\n\n"]
    assert parser.feed(b"\ndata: 6\n\n") == [Frame("x", b"6")]
    assert parser.feed(b"data: 7\n\n") == b"data: 7\n\n"
    assert parser.feed(b"data: 8\r\n\r\n") == b"data: 8\r\n\r\n"
    assert parser.finish() == []
