"""An upstream that ends without the blank line after its last event, or without any line end after it.

Clients dispatch an event at its blank line: what the gateway accepts as the end must reach them as a whole event.
"""

from __future__ import annotations

import pytest

from dragoman import Dialect, direction
from dragoman.dialects import CLIENT_DIALECTS
from oracles.grammar import sse
from support.directions import DIALECTS, error_of, stream_through, translated
from support.paths import TRANSCRIPTS

TERMINALS = {
    Dialect.CHAT: (b"[DONE]",),
    Dialect.MESSAGES: (b'"message_stop"',),
    Dialect.RESPONSES: (b'"response.completed"',),
}


def dispatched(data: bytes) -> list[sse.Item]:
    """The events that a client dispatches: those with their blank line."""
    return [item for item in sse.split(data, flush=False) if item.data is not None]


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("left_out", [1, 2])
@pytest.mark.parametrize("case", ["text", "two_tools"])
def test_T23_the_last_event_is_delivered_without_its_blank_line(
    client: Dialect, upstream: Dialect, eol: bytes, left_out: int, case: str
) -> None:
    """A stream that the gateway books as complete and that clients take for cut."""
    whole = (TRANSCRIPTS / upstream / f"{case}.sse").read_bytes().replace(b"\r\n", b"\n")
    assert whole.endswith(b"\n\n")
    stream = whole[:-left_out].replace(b"\n", eol)
    for pieces in ([stream], [stream[:-9], stream[-9:]], [stream[at : at + 1] for at in range(len(stream))]):
        translation = translated(direction(client, upstream))
        events = dispatched(stream_through(translation, pieces))
        assert [error for item in events if (error := error_of(client, item))] == []
        last = events[-1].data or b""
        assert any(word in last for word in TERMINALS[client])
        assert translation.failure is None


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
def test_T23_the_last_event_of_an_error_is_delivered_too(dialect: Dialect) -> None:
    """Clients that never get the error take the stream for cut, and ask again."""
    error = {
        Dialect.CHAT: b'data: {"error":{"message":"no","type":"server_error","param":null,"code":null}}',
        Dialect.MESSAGES: b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"no"}}',
        Dialect.RESPONSES: b'event: error\ndata: {"type":"error","code":"server_error","message":"no","param":null}',
    }[dialect]
    out = stream_through(translated(direction(dialect, dialect)), [error])
    assert next(found["message"] for item in dispatched(out) if (found := error_of(dialect, item))) == "no"
