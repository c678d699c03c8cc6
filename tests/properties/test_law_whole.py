"""Law: a stream accumulates to the same reply as the whole body, and a whole body replayed is that stream."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Code, Dialect, Direction, Losses
from dragoman.events import Kind
from support.directions import CROSS, judge, stream_through, translated
from support.replies import compared, held_by_client, reply_of, whole_chat, whole_messages
from support.responses_upstreams import responses_streams
from support.strategies import CHAT, MESSAGES_SEQUENTIAL, RESPONSES
from support.upstreams import Upstream, chat_streams, messages_streams

# A call that was cut has no whole form: arguments are an object there, or at least JSON.
_CHAT = replace(CHAT, cut=False, interleave="none", kinds=(Kind.TEXT, Kind.REASONING, Kind.TOOL))
# A whole Chat reply has its text before its refusal, whatever came first; to Messages both are text.
_REFUSING = replace(_CHAT, kinds=(Kind.REFUSAL, Kind.REASONING))
_MESSAGES = replace(MESSAGES_SEQUENTIAL, cut=False)
_RESPONSES = replace(RESPONSES, cut=False, interleave="none")


@st.composite
def both_forms(draw: st.DrawFn, row: Direction) -> tuple[Upstream, bytes]:
    """One reply as the upstream streams it and as it answers whole."""
    if row.upstream.dialect is Dialect.CHAT:
        upstream = draw(chat_streams(draw(st.sampled_from((_CHAT, _CHAT, _REFUSING))), quirks=False))
        return upstream, json.dumps(whole_chat(reply_of(upstream.events, "chat"))).encode()
    if row.upstream.dialect is Dialect.RESPONSES:
        # The last event of a stream holds the whole body.
        upstream = draw(responses_streams(_RESPONSES, quirks=draw(st.booleans())))
        return upstream, json.dumps(upstream.notes["response"]).encode()
    upstream = draw(messages_streams(_MESSAGES, quirks=False))
    return upstream, json.dumps(whole_messages(reply_of(upstream.events, "messages"))).encode()


def undeclared(row: Direction, held: dict[str, Any], losses: Losses) -> dict[str, Any]:
    """Without what a declared loss may make different: counts that the upstream did not give are estimated from what
    the form of the reply shows, and a refusal's explanation has no place in a stream that has shown something."""
    if losses.counts.get(Code.USAGE_ESTIMATED):
        held["usage"] = None
    if row.client.dialect is not Dialect.RESPONSES and (held["text"] or held["calls"]):
        held["refusal"] = ""
    return held


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_the_stream_accumulates_to_the_whole_reply(row: Direction, data: st.DataObject) -> None:
    upstream, body = data.draw(both_forms(row))
    streaming, whole = translated(row), translated(row)
    streamed = stream_through(streaming, [upstream.data])
    answered = whole.reply(body)
    note(streamed.decode())
    note(answered.decode())
    one = compared(judge(row.client.dialect, streamed))
    other = compared(held_by_client(row.client.dialect, json.loads(answered)))
    assert undeclared(row, one, streaming.losses) == undeclared(row, other, whole.losses)
    lost = set(streaming.losses.counts) ^ set(whole.losses.counts)
    # What was repaired is mostly the stream itself: events that its server left out, or that came out of place.
    assert not lost - {Code.USAGE_ESTIMATED, Code.REFUSAL_EXPLANATION, Code.REPLY_REPAIRED}


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_the_replayed_reply_is_the_stream(row: Direction, data: st.DataObject) -> None:
    upstream, body = data.draw(both_forms(row))
    streaming, whole = translated(row), translated(row)
    streamed = judge(row.client.dialect, stream_through(streaming, [upstream.data]))
    replayed = whole.replay(body)
    note(replayed.decode())
    held = judge(row.client.dialect, replayed)
    assert undeclared(row, compared(held), whole.losses) == undeclared(row, compared(streamed), streaming.losses)
    assert held.signatures == streamed.signatures
