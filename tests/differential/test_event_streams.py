"""Event streams, as the parser reads them and as independent parsers do.

The others are httpx-sse, Speakeasy's parser in Mistral's SDK, and those of the OpenAI and Anthropic SDKs. Where one
differs, `DIFFERENCES` has the reason. The rules are those of WHATWG §9.2.6, "the standard".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anthropic._streaming
import httpx
import httpx_sse
import openai._streaming
import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st
from mistralai.client.utils.eventstreaming import stream_events

from dragoman.wire.sse import DocumentFrame, Frame, encode
from dragoman.wire.sse_parser import Parser
from support.strategies import examples, splits, texts

BOM = b"\xef\xbb\xbf"
FIELDS = frozenset((b"data", b"event", b"id", b"retry"))
DIFFERENCES = {
    "unfinished": "The standard drops an event that the end cuts. Ours returns it as not `whole`, as servers omit the "
    "last blank line. Speakeasy's returns it, too.",
    "no data": "The standard drops an event without a data line. httpx-sse and the SDKs return it with empty data, as "
    "they do an event of an empty data line.",
    "mark": "The standard drops a byte order mark. httpx-sse and the SDKs take it for a part of the first name.",
    "retry": "The standard takes ASCII digits. httpx-sse takes what `int` does, and ours at most 15 digits. The SDKs "
    "have no use for a retry time.",
    "encoding": "The standard replaces bytes that are not UTF-8. The SDKs and Speakeasy's raise.",
    "damaged": "The standard ignores an unknown field. Ours ends the stream if it may be the rest of a damaged one.",
    "document": "The standard ignores lines of JSON. Ours takes a body that begins with JSON, also behind two byte "
    "order marks, for one document.",
    "pieces": "Speakeasy's reads CRLF and byte order marks wrongly where two reads meet: it gets the stream whole.",
    "JSON": "Speakeasy's decodes data that is JSON: no stream with a number that Python's JSON writes otherwise.",
}


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a stream. `retry` is of the fields since the last event."""

    name: str
    data: str
    id: str = ""
    retry: int | None = None
    whole: bool = True


@dataclass(slots=True)
class Reading:
    """The events that the parser reads. `ended` has why it did not read all: a key of DIFFERENCES."""

    events: list[Event]
    ended: str = ""


def own(pieces: Sequence[bytes]) -> Reading:
    """Read a stream with the parser."""
    parser, reading = Parser(), Reading([])
    frames = [frame for piece in pieces for frame in parser.parse(piece)] + parser.finish()
    for frame in frames:
        if isinstance(frame, DocumentFrame):
            reading.ended = "document"
        elif frame.fault is not None:
            assert "damaged field name" in str(frame.fault)
            reading.ended = "damaged"
        elif frame.data is not None:
            text = frame.data.decode("utf-8", "replace")
            reading.events.append(Event(frame.event, text, frame.id or "", frame.retry, frame.whole))
    return reading


def httpx_reads(pieces: Sequence[bytes]) -> list[Event]:
    """Read a stream with httpx-sse."""
    head = {"content-type": "text/event-stream; charset=utf-8"}
    response = httpx.Response(200, headers=head, content=iter(pieces))
    found = httpx_sse.EventSource(response).iter_sse()
    # Its default of a name is the standard's.
    return [Event("" if each.event == "message" else each.event, each.data, each.id, each.retry) for each in found]


def openai_reads(pieces: Sequence[bytes]) -> list[Event]:
    """Read a stream with the decoder of the OpenAI SDK."""
    found = openai._streaming.SSEDecoder().iter_bytes(iter(pieces))
    return [Event(each.event or "", each.data, each.id or "", each.retry) for each in found]


def anthropic_reads(pieces: Sequence[bytes]) -> list[Event]:
    """Read a stream with the decoder of the Anthropic SDK."""
    found = anthropic._streaming.SSEDecoder().iter_bytes(iter(pieces))
    return [Event(each.event or "", each.data, each.id or "", each.retry) for each in found]


class _Response:
    """A reply of httpx, as far as Speakeasy's parser reads it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def iter_bytes(self) -> Iterator[bytes]:
        yield self._body

    def close(self) -> None:
        pass


def speakeasy_reads(pieces: Sequence[bytes]) -> list[Event]:
    """Read a stream with Speakeasy's parser, in one piece."""
    response: Any = _Response(b"".join(pieces))
    found: Iterator[dict[str, Any]] = stream_events(response, json.loads)
    return [Event(each.get("event", ""), _as_text(each["data"]), each.get("id", "")) for each in found]


def _as_text(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(data)


def lines_of(raw: bytes) -> list[tuple[bytes, bytes]]:
    """The names and values of a stream's lines, those of comments and blank lines too."""
    parts = (line.partition(b":") for line in re.split(rb"\r\n|\r|\n", raw.removeprefix(BOM)))
    return [(name, value[1:] if value.startswith(b" ") else value) for name, _, value in parts]


def with_data(events: Sequence[Event]) -> list[Event]:
    """The events whose data is not empty, with the retry times of those that are left out."""
    kept: list[Event] = []
    waiting: int | None = None
    for event in events:
        waiting = waiting if event.retry is None else event.retry
        if event.data:
            kept.append(replace(event, retry=waiting))
            waiting = None
    return kept


def without_retry(events: Sequence[Event]) -> list[Event]:
    """The events, without what the SDKs have no use for."""
    return [replace(event, retry=None) for event in events]


_NAMES = st.sampled_from(
    (b"data", b"data", b"data", b"event", b"id", b"retry", b"", b"x", b"Data", b"data ", b" id", b"dat", BOM + b"data")
)
_COLONS = st.sampled_from((b":", b": ", b":  ", b":\t", b"", b" :"))
_VALUES = st.one_of(
    texts.map(str.encode),
    st.binary(max_size=6),
    st.sampled_from((b"1", b"0015", b"-1", b"1_0", b"1" * 15, b"1" * 16, "٣".encode(), b"a\0b", b"\xff", b"\xe2\x82")),
    st.sampled_from((b"message", b"ping", b"[DONE]", b'{"a": 1}', b"[", b":", b" ", b"\x0b", b"\x1c", b"\xc2\x85")),
)
_ENDS = st.sampled_from(
    (b"\n", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r", b"\n\r\n", b"\r\r\n", b"")
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """The bytes of a stream: fields, comments, blank lines and broken lines, with ends of all kinds."""
    parts = [draw(st.sampled_from((b"", b"", b"", BOM, BOM + BOM, BOM[:2], b"\n")))]
    lines = st.tuples(_NAMES, _COLONS, _VALUES, _ENDS).map(b"".join)
    return b"".join(parts + draw(st.lists(lines, max_size=10)))


def compare(raw: bytes, mine: Reading, theirs: list[Event], normal: Callable[[list[Event]], list[Event]]) -> None:
    """Fail unless both have the same events, up to the place where the parser ended the stream."""
    note(f"{raw!r}: {mine}, {theirs}")
    names = {name for name, _ in lines_of(raw)}
    if mine.ended == "damaged":
        assert names - FIELDS
    elif mine.ended == "document":
        assert not mine.events
        assert any(name.removeprefix(BOM).startswith((b"{", b"[")) for name in names)
    found = normal(theirs)
    assert normal(mine.events) == (found[: len(normal(mine.events))] if mine.ended else found)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


@examples(3)
@given(data=st.data())
def test_as_httpx_sse(data: st.DataObject) -> None:
    raw = data.draw(streams())
    mine = own(data.draw(splits(raw)))
    mine.events = [event for event in mine.events if event.whole]  # "unfinished"
    retries = [value for name, value in lines_of(raw) if name == b"retry"]
    plain = all(re.fullmatch(rb"[0-9]{1,15}", value) for value in retries)  # "retry"
    theirs = httpx_reads(data.draw(splits(raw.removeprefix(BOM))))  # "mark"
    mine.events = [replace(event, name="" if event.name == "message" else event.name) for event in mine.events]
    compare(raw, mine, theirs, with_data if plain else lambda events: without_retry(with_data(events)))


@pytest.mark.parametrize("read", [openai_reads, anthropic_reads], ids=["openai", "anthropic"])
@given(data=st.data())
def test_as_the_sdks(read: Callable[[Sequence[bytes]], list[Event]], data: st.DataObject) -> None:
    raw = data.draw(streams().filter(_is_utf8))  # "encoding"
    mine = own(data.draw(splits(raw)))
    mine.events = [event for event in mine.events if event.whole]
    compare(raw, mine, read(data.draw(splits(raw.removeprefix(BOM)))), lambda events: without_retry(with_data(events)))


@given(data=st.data())
def test_as_speakeasys(data: st.DataObject) -> None:
    """Its events of empty data are the standard's, and it reads the last one without its blank line."""
    raw = data.draw(streams().filter(_is_utf8))
    mine = own(data.draw(splits(raw)))
    mine.events = [replace(event, data=_json(event.data), whole=True, retry=None) for event in mine.events]
    compare(raw, mine, speakeasy_reads([raw]), list)


def _json(text: str) -> str:
    """Data as Speakeasy's parser returns it ("JSON")."""
    try:
        return _as_text(json.loads(text))
    except json.JSONDecodeError:
        return text


@given(name=texts.filter(lambda text: not re.search("[\r\n]", text)), data=texts)
@example(name="message_delta", data="a\r\nb\rc\n\nd\n")
def test_what_is_written_is_read_by_all(name: str, data: str) -> None:
    """An event as the gateway writes it is the same to each parser, with line ends of one kind."""
    raw = encode(Frame(name, data.encode()))
    lines = re.sub("\r\n|\r", "\n", data)
    expected = [Event(name, lines)]
    assert own([raw]).events == openai_reads([raw]) == anthropic_reads([raw]) == expected
    assert httpx_reads([raw]) == [Event("" if name == "message" else name, lines)]
    assert speakeasy_reads([raw]) == [Event(name, _json(lines))]
