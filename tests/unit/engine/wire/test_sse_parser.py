"""The SSE parser against the WHATWG grammar, at every split, and the encoder."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import LimitExceeded
from dragoman.limits import Limits
from dragoman.wire import sse_parser
from dragoman.wire.body_opening import BOM, document_in
from dragoman.wire.sse import Frame, FrameBatch, encode, encode_frames
from dragoman.wire.sse_parser import Parser, decode_frames, encoded_frames
from oracles.grammar import sse as judge
from support.frames import frames_of
from support.strategies import split_at, splits, texts

Seen = tuple[str, bytes | None, str | None, int | None, str | None]

NASTY = (
    b"\xef\xbb\xbf: hello\r\n"
    b"event: a\r\ndata: one\r\n\r\n"
    b"event:b\rdata:two\rdata:  three\r\r"
    b"data\n\n"
    b'data: {"t":"\xe2\x80\xa8\xc2\x85\xf0\x9f\x98\x80"}\n\n'
    b":\n:x\n\n"
    b"id: 7\nretry: 3000\nnovelty: x\nfoo\ndata: four\n\n"
    b"id: 8\x00\nretry: 3s\nretry:\ndata: five\ndata:\ndata: six\r\n\r"
    b"event: gone\n\n"
    b"data: \xff\xfe\n\r\n"
    b"event: last\ndata: unended"
)


def seen(frames: Iterable[Frame]) -> list[Seen]:
    """Frames as comparable tuples: a fault is its limit's name, or "name" for a damaged field name."""
    out: list[Seen] = []
    for frame in frames:
        fault = frame.fault
        word = None if fault is None else "name"
        if isinstance(fault, LimitExceeded):
            word = fault.name
        elif fault is not None:
            assert "damaged field name" in fault.failure.message
        out.append((frame.event, frame.data, frame.id, frame.retry, word))
    return out


def parse(pieces: Iterable[bytes], limits: Limits | None = None) -> list[Seen]:
    parser = Parser(limits) if limits is not None else Parser()
    frames: list[Frame] = []
    for piece in pieces:
        frames += frames_of(parser.feed(piece))
    return seen(frames + parser.finish())


def judged(data: bytes) -> list[Seen]:
    return [(item.event, item.data, item.id, item.retry, item.fault) for item in judge.split(data)]


def data_of(data: bytes) -> list[bytes | None]:
    return [row[1] for row in parse([data])]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_each_line_end(end: bytes) -> None:
    stream = end.join([b"event: x", b"data: 1", b"data: 2", b"", b": c", b"data: 3", b"", b""])
    expected: list[Seen] = [
        ("x", b"1\n2", None, None, None),
        ("", None, None, None, None),
        ("", b"3", None, None, None),
    ]
    assert parse([stream]) == expected
    assert parse(bytes([byte]) for byte in stream) == expected


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r\n", [b"a", b"b"]),
        (b"data: a\n\rdata: b\r\n\r", [b"a", b"b"]),
        (b"data: a\r\ndata: b\n\n", [b"a\nb"]),
        (b"\n\n\r\r\n\ndata: a\n\n\n\n", [b"a"]),
    ],
)
def test_mixed_line_ends(stream: bytes, data: list[bytes]) -> None:
    assert data_of(stream) == data
    assert parse(bytes([byte]) for byte in stream) == parse([stream])


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data:a\n\n", [b"a"]),
        (b"data: a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data:\ta\n\n", [b"\ta"]),
        (b"data: a \n\n", [b"a "]),
        (b"data\n\n", [b""]),
        (b"data:\n\n", [b""]),
        (b"data: \n\n", [b""]),
        (b"data\ndata\n\n", [b"\n"]),
        (b"data: a\ndata:\ndata: b\n\n", [b"a\n\nb"]),
        (b"data:a:b\n\n", [b"a:b"]),
        (b" data: a\n\n", []),
        (b"Data: a\n\n", []),
        (b"database: a\n\n", []),
        (b"data : a\n\n", []),
        (b"event: x\n\n", []),
        (b"\n\n", []),
        (b"", []),
    ],
)
def test_data_lines(stream: bytes, data: list[bytes]) -> None:
    assert data_of(stream) == data


def test_unicode_line_separators_stay_inside_the_text() -> None:
    text = '{"t":"a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"}'.encode()
    assert data_of(b"data: " + text + b"\n\n") == [text]


def test_comments_are_frames_without_data() -> None:
    assert parse([b": a\n:\n:b\ndata: 1\n: in between\ndata: 2\n\n"]) == [
        ("", None, None, None, None),
        ("", None, None, None, None),
        ("", None, None, None, None),
        ("", None, None, None, None),
        ("", b"1\n2", None, None, None),
    ]


def test_an_event_name_is_for_one_frame_and_the_last_one_counts() -> None:
    rows = parse([b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\nevent: c\n\ndata: 3\n\nevent\ndata: 4\n\n"])
    assert [row[0] for row in rows] == ["b", "", "", ""]


def test_id_lasts_and_retry_does_not() -> None:
    rows = parse([b"id: 1\nretry: 10\ndata: a\n\ndata: b\n\nid\ndata: c\n\n"])
    assert [row[2:4] for row in rows] == [("1", 10), ("1", None), ("", None)]


def test_id_with_nul_is_ignored() -> None:
    assert [row[2] for row in parse([b"id: 1\ndata: a\n\nid: 2\x003\ndata: b\n\n"])] == ["1", "1"]


@pytest.mark.parametrize("value", [b"", b" ", b"1s", b"-1", b"1.5", b"+1", b"\xd9\xa1", b"9" * 4000])
def test_retry_that_is_no_sane_number_is_ignored(value: bytes) -> None:
    assert [row[3] for row in parse([b"retry:" + value + b"\ndata: a\n\n"])] == [None]


def test_invalid_utf8_in_an_event_name_does_not_raise() -> None:
    assert [row[0] for row in parse([b"event: \xff\ndata: a\n\n"])] == ["\ufffd"]


def test_byte_order_mark_only_at_the_start() -> None:
    bom = b"\xef\xbb\xbf"
    assert data_of(bom + b"data: a\n\n") == [b"a"]
    damaged = ("", None, None, None, "name")
    assert parse([bom + bom + b"data: a\n\ndata: b\n\n"]) == [damaged]
    assert parse([b"data: a\n\n" + bom + b"data: b\n\n"]) == [("", b"a", None, None, None), damaged]
    assert data_of(bom) == []
    assert data_of(b"data: " + bom + b"a\n\n") == [bom + b"a"]


@pytest.mark.parametrize("points", [(1,), (2,), (3,), (1, 2), (1, 1, 2, 2, 3), (0, 0)])
def test_split_byte_order_mark(points: tuple[int, ...]) -> None:
    assert [row[1] for row in parse(split_at(b"\xef\xbb\xbfdata: a\n\n", points))] == [b"a"]


def test_what_only_begins_like_a_byte_order_mark() -> None:
    for stream in (b"\xef\xbb\ndata: a\n\n", b"\xef\ndata: a\n\n", b"\xef", b"\xef\xbb"):
        for at in range(len(stream)):
            assert parse(split_at(stream, [at])) == [("", None, None, None, "name")]


@pytest.mark.parametrize("name", [b"da\xffta", b"data\x00", b"\x1bdata", b"d\x7fata", "dätä".encode(), b"\xc3"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_damaged_field_name_is_a_fault_and_nothing_follows_it(name: bytes, end: bytes) -> None:
    """A `data` line with one damaged byte would be ignored, and the stream would look whole without it."""
    stream = b"data: a\n\n" + name + b": b\n\ndata: c\n\n"
    expected = [("", b"a", None, None, None), ("", None, None, None, "name")]
    for at in range(len(stream) + 1):
        assert parse(split_at(stream.replace(b"\n", end), [at])) == expected
    # A line without a colon is all name.
    assert parse([b"data: a\n\n" + name + b"\n\n"]) == expected


def test_unknown_field_names_of_plain_ascii_are_ignored() -> None:
    stream = (
        b'novelty: x\nx-y_z: \xc3\xa4\nsome words\nusage: {"a":1}\ndata: a\n\n<html>: 0\n\n{"bare": {}}\ndata: b\n\n'
    )
    assert data_of(stream) == [b"a", b"b"]


LINE = b'data: {"a":1}'


@pytest.mark.parametrize(
    "garbage", [b"\xff", b":\xff", b":\x1b", b"\n", b"\r", b"\r\n", b"\n\x00", b"q", b'\n{"', b"\xe2\x80\xa8"]
)
@pytest.mark.parametrize("at", range(1, 4))
def test_garbage_within_a_field_name_never_loses_a_frame_silently(garbage: bytes, at: int) -> None:
    """Also if it splits the name in two lines, or in a name and a value."""
    stream = b"data: b\n\n" + LINE[:at] + garbage + LINE[at:] + b"\n\ndata: c\n\n"
    expected = [("", b"b", None, None, None), ("", None, None, None, "name")]
    for split in range(len(stream) + 1):
        assert parse(split_at(stream, [split])) == expected
    assert judged(stream) == expected


@pytest.mark.parametrize(
    "line", [b": \xff", b"x: \xff", b"x: \x00", b"da", b"even", b"meta:\x07{}", b'H(1ata: {"a":1}']
)
def test_a_line_that_may_hide_an_event_is_a_fault(line: bytes) -> None:
    stream = b"data: b\n\n" + line + b"\n\n"
    assert parse([stream])[1:] == [("", None, None, None, "name")]
    assert judged(stream) == parse([stream])
    assert parse([b"data: b\n\n" + line])[1:] == ([] if line in (b"da", b"even") else parse([stream])[1:])  # cut off


@pytest.mark.parametrize("tail", [b"data: z", b"data: z\n", b"data: z\r", b"data: z\r\n"])
def test_the_last_frame_may_lack_its_end(tail: bytes) -> None:
    assert data_of(b"data: a\n\n" + tail) == [b"a", b"z"]


def test_feeding_after_the_end_returns_nothing() -> None:
    parser = Parser()
    assert seen(frames_of(parser.feed(b"data: a"))) == []
    assert [frame.data for frame in parser.finish()] == [b"a"]
    assert parser.done
    assert parser.feed(b"data: b\n\n") == []
    assert parser.finish() == []


def test_the_judge_reads_the_nasty_stream_as_expected() -> None:
    assert judged(NASTY) == [
        ("", None, None, None, None),
        ("a", b"one", None, None, None),
        ("b", b"two\n three", None, None, None),
        ("", b"", None, None, None),
        ("", '{"t":"\u2028\u0085😀"}'.encode(), None, None, None),
        ("", None, None, None, None),
        ("", None, None, None, None),
        ("", b"four", "7", 3000, None),
        ("", b"five\n\nsix", "7", None, None),
        ("", b"\xff\xfe", "7", None, None),
        ("last", b"unended", "7", None, None),
    ]


PLAIN = {
    "chat": b'data: {"a":1}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n',
    "messages": b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n",
    "data within data": b"data: a\ndata: b\n\ndata: data: c\n\n",
    "comments between": b"data: a\n\n: hi\n\ndata: b\n\n",
    "an id in the middle": b"data: a\n\nid: 1\ndata: b\n\ndata: c\n\n",
    "blank lines": b"\n\n\ndata: a\n\n\n\ndata: b\n\n",
    "names without data": b"event: a\n\nevent: b\ndata: 1\n\ndata: 2\n\n",
}


@pytest.mark.parametrize("name", PLAIN)
def test_every_split_in_three_of_a_plain_stream(name: str) -> None:
    """Nearly all reads take a shorter way through the parser, with the same result."""
    data = PLAIN[name]
    whole = judged(data)
    assert parse([data]) == whole
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            assert parse([data[:first], data[first:second], data[second:]]) == whole, (first, second)


def test_T71_every_split_of_a_nasty_stream_in_two_and_byte_by_byte() -> None:
    whole = parse([NASTY])
    assert whole == judged(NASTY)
    for at in range(len(NASTY) + 1):
        assert parse([NASTY[:at], NASTY[at:]]) == whole, at
        assert parse([NASTY[:at], b"", NASTY[at:]]) == whole, at
    assert parse(bytes([byte]) for byte in NASTY) == whole
    for size in range(2, 9):
        assert parse(NASTY[at : at + size] for at in range(0, len(NASTY), size)) == whole, size


def test_every_prefix_of_a_nasty_stream_is_read_as_the_judge_reads_it() -> None:
    for end in range(len(NASTY) + 1):
        assert parse([NASTY[:end]]) == judged(NASTY[:end]), end


LINES = st.sampled_from(
    b"|data: x|data:|data|data:  y|data: \xe2\x80\xa8|data: \xf0\x9f\x98\x80|data: z\0|\0".split(b"|")
) | (
    st.sampled_from(
        b":|: c|event: e|event|id: 1|id:\0|retry: 5|retry: x|\xef\xbb\xbf|a: b|a: {|x: {|dat|: \xff|{: {|tada: [".split(
            b"|"
        )
    )
)
ENDS = st.sampled_from((b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n"))
STREAMS = st.one_of(
    st.lists(st.tuples(LINES, ENDS), max_size=12).map(lambda rows: b"".join(line + end for line, end in rows)),
    st.lists(
        st.sampled_from((b"\n", b"\r", b":", b" ", b"data", b"id", b"\xef", b"\xbb", b"\xbf", b"x")), max_size=30
    ).map(b"".join),
    st.binary(max_size=60),
)


@given(st.data(), STREAMS)
def test_law_any_split_of_any_bytes_is_read_as_the_judge_reads_it(data: st.DataObject, stream: bytes) -> None:
    if (document := document_in(stream)) and document[0] in b"{[":  # not an event stream
        return
    assert parse(data.draw(splits(stream))) == judged(stream)


SMALL = Limits(sse_line=20, sse_frame=30)
AT_LIMIT = b"data: " + b"x" * 14
assert len(AT_LIMIT) == 20


def test_a_line_at_the_limit_passes_and_one_over_it_does_not() -> None:
    assert parse([AT_LIMIT + b"\n\n"], SMALL) == [("", b"x" * 14, None, None, None)]
    assert parse([AT_LIMIT + b"x\n\n"], SMALL) == [("", None, None, None, "sse_line")]
    assert parse([AT_LIMIT], SMALL) == [("", b"x" * 14, None, None, None)]
    assert parse([AT_LIMIT + b"x"], SMALL) == [("", None, None, None, "sse_line")]


@pytest.mark.parametrize("line", [b": " + b"x" * 30, b"event: " + b"x" * 30, b"foo" * 10, b"id: " + b"1" * 30])
def test_the_line_limit_is_for_every_line(line: bytes) -> None:
    assert parse([line + b"\ndata: 1\n\n"], SMALL)[-1][4] == "sse_line"


def test_a_frame_over_the_limit() -> None:
    assert parse([b"data: " + b"x" * 9 + b"\ndata: " + b"y" * 9 + b"\n\n"], SMALL)[0][4] is None
    assert parse([b"data: " + b"x" * 9 + b"\ndata: " + b"y" * 10 + b"\n\n"], SMALL) == [
        ("", None, None, None, "sse_frame")
    ]
    many = b"data: 123456789\n\n" * 50
    assert len(parse([many], SMALL)) == 50, "the limit is for one frame, not for the stream"


@pytest.mark.parametrize("line", [b"data\n", b"data:\n"])
def test_empty_data_lines_count_towards_the_frame_limit(line: bytes) -> None:
    assert parse([line * 10_000], SMALL) == [("", None, None, None, "sse_frame")]


def test_long_event_names_are_not_kept_for_ever() -> None:
    before = sse_parser._short_name.cache_info().currsize
    for number in range(20):
        parse([b"event: " + b"%d" % number * 200 + b"\ndata: 1\n\n"])
    assert sse_parser._short_name.cache_info().currsize == before


OVER = b"data: a\n\n: c\ndata: b\n\ndata: " + b"x" * 40 + b"\n\ndata: never\n\n"


def test_a_broken_limit_loses_nothing_before_it_and_returns_nothing_after_at_any_split() -> None:
    expected: list[Seen] = [
        ("", b"a", None, None, None),
        ("", None, None, None, None),
        ("", b"b", None, None, None),
        ("", None, None, None, "sse_line"),
    ]
    assert parse([OVER], SMALL) == expected
    for at in range(len(OVER)):
        assert parse([OVER[:at], OVER[at:]], SMALL) == expected, at
    assert parse((bytes([byte]) for byte in OVER), SMALL) == expected


def test_whole_reads_behind_a_broken_limit_give_nothing() -> None:
    parser = Parser(SMALL)
    assert [frame.data for frame in frames_of(parser.feed(b"data: 1\n\n"))] == [b"1"]
    (fault,) = frames_of(parser.feed(b"data: " + b"x" * 40 + b"\n\n"))
    assert fault.fault is not None
    assert parser.done
    assert parser.feed(b"data: 2\n\n") == []


def test_a_drip_fed_line_breaks_the_limit_before_its_end_comes() -> None:
    parser = Parser(SMALL)
    for _ in range(20):
        assert parser.feed(b"x") == []
    (fault,) = frames_of(parser.feed(b"x"))
    assert isinstance(fault.fault, LimitExceeded)
    assert (fault.fault.name, fault.fault.limit, fault.fault.failure.status) == ("sse_line", 20, 502)
    assert parser.done
    assert parser.feed(b"\n\ndata: a\n\n") == []
    assert parser.finish() == []


@given(st.data(), STREAMS, st.integers(1, 12), st.integers(1, 12))
def test_law_limits_do_not_depend_on_the_split(data: st.DataObject, stream: bytes, line: int, frame: int) -> None:
    limits = Limits(sse_line=line, sse_frame=frame)
    assert parse(data.draw(splits(stream)), limits) == parse([stream], limits)


def test_long_data_in_single_bytes_searches_each_byte_once() -> None:
    """O(n) without a clock: the parser is fed a `bytes` that counts what is looked for in it, and what is kept is
    never searched: with a quadratic parser the frames' memory would be built again for each byte."""

    class Counted(bytes):
        searched = 0

        def rfind(self, *args: object) -> int:
            Counted.searched += len(self)
            return super().rfind(*args)  # type: ignore[arg-type]

    size = 1 << 18
    parser = Parser()
    buffer = parser._partial
    grown = 0
    last = sys.getsizeof(buffer)
    piece = Counted(b"x")
    assert parser.feed(b"data: ") == []
    for _ in range(size):
        parser.feed(piece)
        now = sys.getsizeof(buffer)
        grown += now != last
        last = now
    assert parser._partial is buffer, "the buffer is grown in place, not built again"
    assert grown < 2000, "and by growing steps"
    assert Counted.searched == size
    assert [frame.data for frame in frames_of(parser.feed(b"\n\n"))] == [b"x" * size]


def test_encoded_frames_of_a_batch_are_taken_apart() -> None:
    written = Frame("a", b"1")
    found = [*decode_frames([written, b"event: b\ndata: 2\n\n: hi\n\ndata: 3\n\n", Frame("", None)])]
    assert found[0] is written
    assert [(frame.event, frame.data) for frame in found[1:]] == [("b", b"2"), ("", None), ("", b"3"), ("", None)]
    assert [*decode_frames([])] == [*decode_frames(b"")] == []


@given(st.lists(st.sampled_from(("a", "")), min_size=1), st.sampled_from((b"\n", b"\r\n", b"\r")), st.booleans())
def test_law_batches_of_any_upstream_are_taken_apart(names: list[str], end: bytes, marked: bool) -> None:
    """The line feed of the last CR LF may be in the next batch, and the first batch may have a byte order mark."""
    frames = [Frame(name, b'{"n":%d}' % number) for number, name in enumerate(names)]
    batches = [encode(frame).replace(b"\n", end) for frame in frames]
    if marked:
        batches[0] = BOM + batches[0]
    assert [frame for batch in batches for frame in decode_frames(batch)] == frames
    late = [batch.removesuffix(b"\n") if end == b"\r\n" else batch for batch in batches]
    if end == b"\r\n":
        late[1:] = [b"\n" + batch for batch in late[1:]]
    assert [frame for batch in late for frame in decode_frames(batch)] == frames


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("", "ping", "message_delta")),
            st.none() | texts.map(str.encode) | st.sampled_from((b"", b" x", b"\n", b"a\r\nb", b"\r\r\n")),
        ),
        max_size=6,
    ),
    st.data(),
)
def test_law_what_is_encoded_is_read_back(rows: list[tuple[str, bytes | None]], data: st.DataObject) -> None:
    stream = encode_frames([Frame(event, payload) for event, payload in rows])
    judge.written(stream)
    expected: list[Seen] = []
    for event, payload in rows:
        if payload is None:
            expected.append(("", None, None, None, None))
        else:
            payload = payload.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            expected.append((event, payload, None, None, None))
    assert parse(data.draw(splits(stream))) == expected


_LINES = st.sampled_from([b"data: 1", b"data:2", b"event: a", b"event:", b"id: 7", b": hi", b"data", b"other: 1", b""])


@given(st.lists(st.lists(_LINES, max_size=4), max_size=4), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans())
def test_encoded_frames_are_those_that_a_parser_reads(events: list[list[bytes]], end: bytes, joined: bool) -> None:
    encoded = [end.join([*lines, b"", b""]) for lines in events if lines]
    batch: FrameBatch = b"".join(encoded) if joined else [*encoded, Frame("x", b"1"), Frame("", None)]
    expected = [encode(Frame(each.event, each.data)) for each in decode_frames(batch) if each.data is not None]
    found = encoded_frames(batch)
    assert [each.replace(b"event: \n", b"") for each in found] == expected


@given(st.lists(st.sampled_from([b"event: a\ndata: {}\n\n", b"data: [DONE]\n\n"]), max_size=5))
def test_frames_in_the_plain_form_stay_as_they_are(frames: list[bytes]) -> None:
    assert encoded_frames(frames) == encoded_frames(b"".join(frames)) == frames
