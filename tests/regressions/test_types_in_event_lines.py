"""Events of Messages and Responses streams that have their type in the event line or in the data, but not in both."""

from __future__ import annotations

import json
import re

import pytest

from oracles.grammar import Call
from regressions.repaired import restored
from regressions.test_odd_calls import _stream
from regressions.wire import CHAT, MESSAGES

RESPONSES = "responses"
DONE = "an event had its type in its event line only"


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("upstream", [MESSAGES, RESPONSES])
def test_T25_the_type_is_in_the_event_line_only(client: str, upstream: str) -> None:
    """Relays write the event's name and leave it out of the data, by which the SDKs choose the event's class."""
    stream = b"".join(_stream(upstream, ['{"f":', '"a"}']))
    if upstream == RESPONSES:
        stream = re.sub(rb'data: \{"type": ?"([^"]+)"', rb'event: \1\ndata: {"type": "\1"', stream)
    bare = re.sub(rb'(\nevent: |^event: )([^\n]+)\ndata: \{"type": ?"[^"]+", ', rb"\1\2\ndata: {", stream)
    bare = re.sub(rb'data: \{"type": ?"message_stop"\}', b"data: {}", bare)
    assert b'data: {"type"' not in bare
    held, done, _ = restored(client, upstream, bare)
    assert held.error is None
    assert held.calls == [Call("call_a", "read", '{"f":"a"}')]
    assert DONE in done


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_T25_a_messages_stream_without_event_lines(client: str) -> None:
    """Anthropic's SDKs read the event line alone: the reply was empty for them."""
    frames = [re.sub(rb"event: [^\n]+\n", b"", frame) for frame in _stream(MESSAGES, ['{"f":', '"a"}'])]
    held, _, out = restored(client, MESSAGES, *frames)
    assert held.calls == [Call("call_a", "read", '{"f":"a"}')]
    if client == MESSAGES:
        names = re.findall(rb"event: ([^\n]+)\n", out)
        assert [json.loads(data)["type"].encode() for data in re.findall(rb"data: (.+)\n", out)] == names
