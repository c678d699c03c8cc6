"""Law: a stream accumulates to the same reply as the whole body, and a whole body replayed is that stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from dragoman import Dialect, Direction, LossCode, Losses, Translation
from dragoman.canonical.events import BlockStart
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.wire.body_opening import BOM
from oracles.grammar import Accumulated
from support.directions import CROSS, PASSTHROUGH, judge, stream_through, translated
from support.replies import compared, held_by_client
from support.strategies import splits
from support.whole_forms import both_forms


def undeclared(row: Direction, held: dict[str, Any], losses: Losses) -> dict[str, Any]:
    """Without what a declared loss may make different: counts that the upstream did not give are estimated from what
    the form of the reply shows, and a refusal's explanation has no place in a stream that has shown something."""
    if losses.counts.get(LossCode.USAGE_ESTIMATED):
        held["usage"] = None
    if row.client.dialect is not Dialect.RESPONSES and (held["text"] or held["calls"]):
        held["refusal"] = ""
    return held


@pytest.mark.few
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
    assert not lost - {LossCode.USAGE_ESTIMATED, LossCode.REFUSAL_EXPLANATION, LossCode.REPLY_REPAIRED}


@pytest.mark.few
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


COMMENTS = b": PROCESSING\n\n\n: PROCESSING\n\n"


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_a_complete_reply_is_the_same_however_it_is_wrapped(row: Direction, data: st.DataObject) -> None:
    """T-25."""
    upstream, body = data.draw(both_forms(row))
    stream = upstream.data.removeprefix(BOM)
    expected: Any = None
    for form in (body, COMMENTS + body, upstream.data, COMMENTS + stream, b"data: " + body + b"\n\n"):
        translation = translated(row)
        written = translation.reply(form)
        note(f"{form!r}\n{written!r}")
        held = undeclared(row, compared(held_by_client(row.client.dialect, json.loads(written))), translation.losses)
        expected = expected or held
        assert held == expected


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS + PASSTHROUGH, ids=str)
@given(data=st.data())
def test_a_stream_is_the_same_however_the_reply_is_wrapped(row: Direction, data: st.DataObject) -> None:
    upstream, body = data.draw(both_forms(row))
    expected: Any = None
    forms = [body, b"data: " + body + b"\n\n", b"data: " + body]
    for form in forms if row.passthrough else [upstream.data, COMMENTS + body, *forms]:
        translation = translated(row)
        written = stream_through(translation, data.draw(splits(form)))
        note(f"{form!r}\n{written!r}")
        held = undeclared(row, compared(judge(row.client.dialect, written)), translation.losses)
        expected = expected or held
        assert held == expected
        assert translation.failure is None


def undone(row: Direction) -> Translation:
    """A translation of the direction whose reply is read and written, in the same dialect too."""
    if not row.passthrough:
        return translated(row)
    envelope_of = Envelope("family", "m") if row.client.restore_reasoning is not None else None
    context = ReplyContext("m", 1, "req_1", include_usage=True, names={"renamed_": "x"}, envelope=envelope_of)
    return Translation(row, b"", True, context, "m", rewritten=True)


def blocks_of(row: Direction, held: Accumulated) -> Any:
    """The blocks that a client holds; a call's arguments may be written again. Chat has one text of each kind, in no
    order, and none that is empty."""
    blocks = [(kind, "" if kind == "tool" else stated) for kind, stated in held.blocks]
    if row.upstream.dialect is not Dialect.CHAT:
        return blocks
    assert all(stated or kind == "tool" for kind, stated in blocks)
    return {name: "".join(stated for kind, stated in blocks if kind == name) for name, _ in blocks}


@pytest.mark.few
@pytest.mark.parametrize("row", [row for row in CROSS + PASSTHROUGH if row.client.dialect is not Dialect.CHAT], ids=str)
@given(data=st.data())
def test_the_stream_holds_the_blocks_of_the_whole_reply(row: Direction, data: st.DataObject) -> None:
    upstream, body = data.draw(both_forms(row, silent=True))
    streaming = undone(row)
    streamed, answered = stream_through(streaming, [upstream.data]), undone(row).reply(body)
    note(streamed.decode())
    note(answered.decode())
    held = judge(row.client.dialect, streamed)
    whole = held_by_client(row.client.dialect, json.loads(answered))
    assert blocks_of(row, held) == blocks_of(row, whole)
    # A citation that arrives when its text has ended already is dropped, with a loss.
    assert held.annotations == whole.annotations or LossCode.CITATIONS in streaming.losses.counts
    replayed = judge(row.client.dialect, undone(row).replay(body))
    assert blocks_of(row, replayed) == blocks_of(row, whole)


@pytest.mark.parametrize("row", [row for row in CROSS + PASSTHROUGH if row.client.dialect is Dialect.CHAT], ids=str)
@given(data=st.data())
def test_the_stream_states_what_the_whole_reply_states(row: Direction, data: st.DataObject) -> None:
    """Chat has no blocks: what is not stated is null in a whole reply, and no key of any chunk."""
    upstream, body = data.draw(both_forms(row, silent=True))
    # A whole Chat reply has one text and one reasoning: where they stood around each other is not known there.
    kinds = [event.kind for event in upstream.events if type(event) is BlockStart]
    assume(all(kinds.count(kind) < 2 for kind in ("text", "refusal", "reasoning")))
    streaming = undone(row)
    streamed, answered = stream_through(streaming, [upstream.data]), undone(row).reply(body)
    note(streamed.decode())
    note(answered.decode())
    held = judge(row.client.dialect, streamed)
    message = json.loads(answered)["choices"][0]["message"]
    if not streaming.losses.counts.get(LossCode.REFUSAL_EXPLANATION):
        assert (message["refusal"] or "") == held.refusal
    assert (message["content"] or "") == held.text
    assert message.get("reasoning_content", "") == held.reasoning
    assert all(message.get(key) != "" for key in ("content", "refusal", "reasoning_content"))
