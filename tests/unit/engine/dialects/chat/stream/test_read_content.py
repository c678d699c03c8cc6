"""The reader of the content of a Chat stream's choice, without the chunks around it."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import Annotation, BlockEnd, BlockStart, Delta, Event
from dragoman.dialects.chat.stream.read_content import ContentReader
from dragoman.errors import UpstreamProtocolError
from dragoman.reply_context import ReplyContext

CALL = {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "read", "arguments": '{"f"'}}]}


def test_deltas_become_blocks() -> None:
    content, out = ContentReader(ReplyContext("m")), list[Event]()
    content.add({"role": "assistant", "content": "Hi"}, out)
    content.add(CALL, out)
    assert content.summary() == "blocks=2 open=1 calls=1"
    assert not content.are_calls_complete()
    content.add({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}, out)
    assert content.are_calls_complete()
    content.close(out, complete=True)
    assert content.is_open()
    content.close(out, complete=True)
    assert out == [
        BlockStart(0, "text"),
        Delta(0, "Hi"),
        BlockEnd(0),
        BlockStart(1, "tool", "call_1", "read"),
        Delta(1, '{"f"'),
        Delta(1, ":1}"),
        BlockEnd(1),
    ]


def test_sources_are_cited_once() -> None:
    content, out = ContentReader(ReplyContext("m")), list[Event]()
    content.add_sources({"citations": ["https://a.example"]})
    content.add({"content": "Hi"}, out)
    content.cite_sources(out)
    content.cite_sources(out)
    assert [event.citation.url for event in out if isinstance(event, Annotation)] == ["https://a.example"]


def test_a_message_adds_what_no_delta_had() -> None:
    content, out = ContentReader(ReplyContext("m")), list[Event]()
    content.add({"content": "Hi"}, out)
    assert content.unsent({"role": "assistant", "content": "Hi", "refusal": None}) is None
    assert content.unsent({"content": "Hi", **CALL}) == CALL
    assert content.unsent("Hi") is None


@pytest.mark.parametrize("delta", ["Hi", {"role": "user"}, {"tool_calls": "read"}])
def test_a_delta_that_means_nothing_is_an_error(delta: object) -> None:
    with pytest.raises(UpstreamProtocolError):
        ContentReader(ReplyContext("m")).add(delta, [])
