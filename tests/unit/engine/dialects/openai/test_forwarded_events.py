"""Event streams that are forwarded: equal bytes whatever the split, counts read, and no secret in an error."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import Usage
from dragoman.dialects.openai.forwarded_events import ForwardedEvents
from dragoman.errors import FailureKind
from dragoman.limits import Limits

SECRET = "the-upstreams-own-key"
STREAM = (
    b'data: {"type":"transcript.text.delta","delta":"the \\"usage\\" the-upstreams-own-key"}\n\n'
    b'event: x\r\ndata: {"usage":{"input_tokens":5,"output_tokens":2}}\r\n\r\n'
    b'data: {"usage":null}\n\ndata: "usage" {\r\rdata: {"error":{"message":"bad key the-upstreams-own-key"}}\n\n'
    b": comment\n\ndata: [DONE]\n\n"
)


def forwarded(*pieces: bytes, limits: Limits | None = None) -> tuple[bytes, ForwardedEvents]:
    events = ForwardedEvents(limits or Limits(), (SECRET,))
    return b"".join([*map(events.feed, pieces), events.finish()]), events


def test_events_are_the_same_whatever_the_split() -> None:
    expected = STREAM.replace(b"bad key the-upstreams-own-key", b"bad key ***")
    for at in range(len(STREAM)):
        out, events = forwarded(STREAM[:at], STREAM[at:])
        assert out == expected
        assert (events.usage, events.done) == (Usage(input_total=5, output_total=2), True)
    assert forwarded(*(STREAM[at : at + 1] for at in range(len(STREAM))))[0] == expected


def test_the_last_event_is_the_same_if_its_line_end_is_cut() -> None:
    """The caller reads nothing after `[DONE]`, so the second half of a CR LF may be missing."""
    stream = b"data: 1\r\n\r\ndata: [DONE]\r\n\r\n"
    for at in range(len(stream)):
        events = ForwardedEvents()
        out = events.feed(stream[:at])
        out += b"" if events.done else events.feed(stream[at:])
        assert out + events.finish() == stream
    assert forwarded(stream[:9], stream[9:])[0] == stream


def test_an_event_is_forwarded_as_soon_as_it_is_complete() -> None:
    events = ForwardedEvents()
    assert events.feed(b"data: 1\n\ndata:") == b"data: 1\n\n"
    assert events.feed(b" 2\n") == b""
    assert events.feed(b"\n") == b"data: 2\n\n"
    assert not events.done


def test_an_event_that_is_too_long_is_not_held_back() -> None:
    events = ForwardedEvents(Limits(sse_frame=100))
    assert events.feed(b"data: " + b"x" * 90) == b""
    assert events.feed(b"x" * 10) == b"data: " + b"x" * 100
    assert events.feed(b"\n\n") == b"\n\n"


def test_text_that_is_no_end_is_none() -> None:
    assert not forwarded(b'data: {"text":"data: [DONE]"}\n\n')[1].done


def test_T75_texts_of_completions_are_counted() -> None:
    """For a client that leaves before the counts. The texts of other endpoints are of another kind."""
    chunk = b'data: {"choices":[{"index":0,"text":"say \\"hi\\""},{"text": ""}]}\n\n'
    assert forwarded(chunk, chunk)[1].written == 2 * len(b'say \\"hi\\"')
    assert forwarded(b'data: {"type":"transcript.text.done","text":"hi"}\n\n')[1].written == 0


REFUSED = b'data: {"error":{"message":"Incorrect API key provided: sk-1","code":"invalid_api_key"}}\n\n'
FLAT = b'event: error\ndata: {"type":"error","code":"invalid_api_key","message":"bad key"}\n\n'


@pytest.mark.parametrize("error", [REFUSED, FLAT, REFUSED[:-2]])
def test_an_error_about_the_callers_own_key_ends_the_stream(error: bytes) -> None:
    before = b'data: {"type":"transcript.text.delta","delta":"the \\"error\\""}\n\ndata: {"x":1,"error":null}\n\n'
    whole = before + error + (b"data: more\n\n" if error.endswith(b"\n\n") else b"")
    for at in range(len(whole)):
        events = ForwardedEvents(own_key="up")
        assert events.feed(whole[:at]) + events.feed(whole[at:]) + events.finish() == before
        assert events.failure is not None
        assert events.failure.kind is FailureKind.AUTHENTICATION
        odd = ForwardedEvents(own_key="up")
        crs = whole.replace(b"\n", b"\r\n")
        assert odd.feed(crs[:at]) + odd.feed(crs[at:]) + odd.finish() == before.replace(b"\n", b"\r\n")
    theirs = ForwardedEvents()
    ended = whole if whole.endswith(b"\n\n") else whole + b"\n\n"
    assert theirs.feed(whole) + theirs.finish() == ended.replace(b"sk-1", b"***")
    assert theirs.failure is None
    other = b'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n'
    events = ForwardedEvents(own_key="up")
    assert (events.feed(other), events.failure) == (other, None)


@pytest.mark.parametrize("left_out", [b"", b"\n"])
def test_a_whole_last_event_gets_its_blank_line(left_out: bytes) -> None:
    """Clients ignore an event without one. Half an event stays half."""
    first, last = b'data: {"x":1}\n\n', b"data: [DONE]"
    assert forwarded(first, last + left_out)[0] == first + last + b"\n\n"
    assert forwarded(first[:-2] + left_out)[0] == first
    assert forwarded(first, b'data: {"x":' + left_out)[0] == first + b'data: {"x":' + left_out
