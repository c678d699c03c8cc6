"""The end of a reply that could not be stored."""

from __future__ import annotations

from dragoman.dialects.responses.reply.unstored import unstored


def test_a_whole_reply() -> None:
    assert (
        unstored(b'{"id":"r","store":true,"text":"\\n\\ndata: x"}')
        == b'{"id":"r","store":false,"text":"\\n\\ndata: x"}'
    )


def test_the_last_event_of_a_stream() -> None:
    before = b'event: a\ndata: {"store":true}\n\n'
    last = b'event: response.completed\ndata: {"type":"response.completed","response":{"store":true,"a":"\\n"}}\n\n'
    assert unstored(before + last) == before + last.replace(b"true", b"false")
