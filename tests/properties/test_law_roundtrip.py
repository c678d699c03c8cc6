"""Law: what a dialect's writer writes, its reader reads as what it was, for streams and for whole replies."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Code, Dialect, Knobs, Losses, ReplyContext
from dragoman.directions import CODECS
from dragoman.events import Event, Finish, Kind, Start
from dragoman.jsontext import dumps
from dragoman.model import Native, Reply, Text, ToolCall
from dragoman.protocols.chat import read_reply as read_chat_reply
from support import canonical
from support.replies import reply_of
from support.strategies import CHAT, MESSAGES, MESSAGES_SEQUENTIAL, event_streams

KNOBS = Knobs(echo_model="upstream")


def there_and_back(dialect: Dialect, events: list[Event]) -> tuple[list[Event], Losses]:
    losses = Losses()
    context = ReplyContext("m", knobs=KNOBS, include_usage=True, losses=losses)
    frames = CODECS[dialect].writer(context).feed(events)
    for frame in frames:
        note(repr(frame.data))
    reader = CODECS[dialect].reader(context)
    return reader.feed(frames) + reader.finish(), losses


def joined(blocks: list[tuple[str, str]]) -> dict[str, str]:
    """The texts by kind as Chat joins them: a blank line where another block stood between (mapping §4.2)."""
    whole = {"text": "", "reasoning": "", "refusal": ""}
    apart: set[str] = set()
    for kind, text in blocks:
        if kind != "text" and whole["text"]:
            apart.add("text")
        if kind == "reasoning" and whole["reasoning"]:
            apart.add("reasoning")
        if kind in whole and text:
            whole[kind] += ("\n\n" if kind in apart else "") + text
            apart.discard(kind)
    return whole


@given(events=event_streams(CHAT))
def test_a_chat_stream_survives_writing_and_reading(events: list[Event]) -> None:
    before = canonical.check(events)
    back, losses = there_and_back(Dialect.CHAT, events)
    after = canonical.check(back)
    assert joined(before.blocks) == {"text": after.text, "reasoning": after.reasoning, "refusal": after.refusal}
    assert after.calls == before.calls
    assert after.finish == before.finish
    finish = next(event for event in events if isinstance(event, Finish))
    if finish.usage is not None:
        assert after.usage == asdict(finish.usage)
    if not losses.counts.get(Code.CITATIONS, 0):
        assert len(after.annotations) == len(before.annotations)
    start, read = events[0], back[0]
    assert isinstance(start, Start)
    assert isinstance(read, Start)
    assert read.model == start.model
    assert read.id.removeprefix("chatcmpl-") == start.id.removeprefix("chatcmpl-").removeprefix("msg_").removeprefix(
        "resp_"
    )
    assert start.created in (None, read.created)


@given(events=event_streams(MESSAGES))
def test_a_messages_stream_survives_writing_and_reading(events: list[Event]) -> None:
    before = canonical.check(events)
    back, losses = there_and_back(Dialect.MESSAGES, events)
    after = canonical.check(back)
    unknown = losses.counts.get(Code.UNKNOWN_EVENT, 0)
    opaque = sum(kind == Kind.OPAQUE for kind, _ in before.blocks)
    # An opaque block takes its place on the wire when its payload is there; one of unknown type is a declared loss.
    if not opaque:
        assert after.blocks == before.blocks
    assert sorted(after.blocks) == sorted(before.blocks)[unknown:] or unknown <= opaque
    assert sorted(after.calls) == sorted(before.calls)
    assert sorted(after.signatures) == sorted(before.signatures)
    assert sorted(map(str, after.annotations)) == sorted(map(str, before.annotations))
    # Messages has one word for both.
    assert after.finish == {"refusal": "filtered"}.get(str(before.finish), before.finish)
    assert after.sequence == before.sequence
    finish = next(event for event in events if isinstance(event, Finish))
    read = next(event for event in back if isinstance(event, Finish))
    if finish.usage is not None:
        assert read.usage == finish.usage
    else:
        assert losses.counts.get(Code.USAGE_ESTIMATED, 0)
    if finish.refusal is not None:
        assert read.refusal == finish.refusal


@given(events=event_streams(MESSAGES_SEQUENTIAL))
def test_a_messages_stream_in_sequence_keeps_the_order_of_all_blocks(events: list[Event]) -> None:
    before = canonical.check(events)
    back, losses = there_and_back(Dialect.MESSAGES, events)
    kept = [block for block in before.blocks if block[0] != "opaque"]
    after = canonical.check(back)
    assert [block for block in after.blocks if block[0] != "opaque"] == kept
    assert len(before.blocks) - len(after.blocks) == losses.counts.get(Code.UNKNOWN_EVENT, 0)


# --- whole replies ----------------------------------------------------------------------------------------------------


def reread(dialect: Dialect, reply: Reply) -> tuple[Reply, Losses]:
    codec, losses = CODECS[dialect], Losses()
    body = json.loads(dumps(codec.write_reply(reply, model=reply.model, created=1, knobs=KNOBS, losses=losses)))
    note(body)
    options: dict[str, Any] = {"profile": None, "losses": losses, "names": {}}
    if dialect is Dialect.CHAT:
        return read_chat_reply(body, custom=True, **options), losses
    back: Reply = codec.read_reply(body, **options)
    return back, losses


def bare(reply: Reply) -> list[Any]:
    """The parts without their places, empty texts and blocks that no reader knows; arguments parsed."""
    out: list[Any] = []
    for part in reply.parts:
        if isinstance(part, Native):
            if part.type != "novelty":
                out.append((part.type, part.payload))
        elif isinstance(part, ToolCall):
            out.append((part.id, part.name, json.loads(part.arguments or "{}")))
        elif not (isinstance(part, Text) and not part.text):
            out.append(replace(part, at=()))
    return out


@given(events=event_streams(replace(MESSAGES_SEQUENTIAL, cut=False)))
def test_a_messages_reply_survives_writing_and_reading(events: list[Event]) -> None:
    reply = reply_of(events, "messages")
    back, losses = reread(Dialect.MESSAGES, reply)
    assert bare(back) == bare(reply)
    assert back.stop.sequence == reply.stop.sequence
    assert str(back.stop.reason) == {"refusal": "filtered"}.get(str(reply.stop.reason), str(reply.stop.reason))
    if reply.usage is not None:
        assert back.usage == reply.usage
    else:
        assert losses.counts.get(Code.USAGE_ESTIMATED, 0)
    if reply.refusal is not None:
        assert back.refusal == reply.refusal


@given(events=event_streams(replace(CHAT, cut=False)))
def test_a_chat_reply_survives_writing_and_reading(events: list[Event]) -> None:
    reply = reply_of(events, "chat")
    back, losses = reread(Dialect.CHAT, reply)
    before, after = canonical.check(events), back
    texts = joined(before.blocks)
    for kind in (Text, "refusal", "reasoning"):
        name = "text" if kind is Text else str(kind)
        found = [part.text for part in after.parts if type(part).__name__.lower() == name]  # type: ignore[union-attr]
        assert "".join(found) == texts[name]
    calls = [(part.id, part.name, part.arguments) for part in after.parts if isinstance(part, ToolCall)]
    assert calls == [(call.id, call.name, call.arguments or "{}") for call in before.calls]
    assert back.stop.reason == reply.stop.reason
    assert back.usage == reply.usage
    assert not set(losses.counts) - {"block_order", "citations"}


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.MESSAGES], ids=str)
@given(data=st.data())
def test_what_was_written_and_read_once_is_stable(dialect: Dialect, data: st.DataObject) -> None:
    shape = replace(CHAT if dialect is Dialect.CHAT else MESSAGES_SEQUENTIAL, cut=False)
    once, _ = reread(dialect, reply_of(data.draw(event_streams(shape)), str(dialect)))
    twice, losses = reread(dialect, once)
    assert bare(twice) == bare(once)
    assert (twice.stop, twice.usage, twice.refusal) == (once.stop, once.usage, once.refusal)
    assert not set(losses.counts) - {"usage_estimated"}
