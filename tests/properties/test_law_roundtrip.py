"""Law: what a dialect's writer writes, its reader reads as what it was, for streams and for whole replies."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, Knobs, LossCode, Losses
from dragoman.canonical.events import End, Event, Finish, Start, Usage
from dragoman.canonical.parts import Native, Part, Reasoning, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects.all_codecs import CODECS
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps
from oracles.grammar import Accumulated
from support import canonical
from support.directions import DIALECTS
from support.frames import frames_of
from support.replies import reply_of, whole_responses
from support.responses_items import counted
from support.strategies import CHAT, MESSAGES, MESSAGES_SEQUENTIAL, RESPONSES_ONLY, event_streams

KNOBS = Knobs(echo_model="upstream")
SHAPES = {Dialect.CHAT: CHAT, Dialect.MESSAGES: MESSAGES_SEQUENTIAL, Dialect.RESPONSES: RESPONSES_ONLY}


def there_and_back(dialect: Dialect, events: list[Event], knobs: Knobs = KNOBS) -> tuple[list[Event], Losses]:
    losses = Losses()
    context = ReplyContext("m", knobs=knobs, include_usage=True, losses=losses)
    frames = frames_of(CODECS[dialect].writer(context).feed(events))
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
    if not losses.counts.get(LossCode.CITATIONS, 0):
        assert len(after.annotations) == len(before.annotations)
    start, read = events[0], back[0]
    assert isinstance(start, Start)
    assert isinstance(read, Start)
    assert read.model == start.model
    assert read.id.removeprefix("chatcmpl-") == start.id.removeprefix("chatcmpl-").removeprefix("msg_").removeprefix(
        "resp_"
    )
    assert start.created in (None, read.created)


def with_cache(usage: Usage | None) -> Usage | None:
    """Usage as a Messages reply has it: the cache counts are always there, 0 where they are not known."""
    return usage and replace(usage, cache_read=usage.cache_read or 0, cache_write=usage.cache_write or 0)


@given(events=event_streams(MESSAGES))
def test_a_messages_stream_survives_writing_and_reading(events: list[Event]) -> None:
    before = canonical.check(canonical.assistant_turn(events))
    back, losses = there_and_back(Dialect.MESSAGES, events, replace(KNOBS, block_order="interleave"))
    after = canonical.check(back)
    unknown = losses.counts.get(LossCode.UNKNOWN_EVENT, 0)
    opaque = sum(kind == "opaque" for kind, _ in before.blocks)
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
        assert read.usage == with_cache(finish.usage)
    else:
        assert losses.counts.get(LossCode.USAGE_ESTIMATED, 0)
    if finish.refusal is not None:
        assert read.refusal == finish.refusal


@given(events=event_streams(MESSAGES_SEQUENTIAL))
def test_a_messages_stream_in_sequence_keeps_the_order_of_all_blocks(events: list[Event]) -> None:
    before = canonical.check(canonical.assistant_turn(events))
    back, losses = there_and_back(Dialect.MESSAGES, events)
    kept = [block for block in before.blocks if block[0] != "opaque"]
    after = canonical.check(back)
    assert [block for block in after.blocks if block[0] != "opaque"] == kept
    assert len(before.blocks) - len(after.blocks) == losses.counts.get(LossCode.UNKNOWN_EVENT, 0)


def stated(held: Accumulated) -> list[tuple[str, str]]:
    """The blocks of text: what calls are called with may be written again."""
    return [block for block in held.blocks if block[0] not in ("opaque", "tool")]


WRITTEN_REASONS = {"policy_cut": "length"}
"""Every cut by a policy is written as the one by the cap (mapping §9.2)."""


@pytest.mark.parametrize("surface", ["reasoning_text", "summary"])
@given(events=event_streams(RESPONSES_ONLY))
def test_a_responses_stream_survives_writing_and_reading(surface: Any, events: list[Event]) -> None:
    before = canonical.check(events)
    back, losses = there_and_back(Dialect.RESPONSES, events, replace(KNOBS, reasoning_surface=surface))
    after = canonical.check(back)
    assert after.order == [kind for kind in before.order if kind != "opaque"]
    assert stated(after) == stated(before)
    assert losses.counts.get(LossCode.VENDOR_BLOCK, 0) == before.order.count("opaque")
    assert after.meant_calls() == before.meant_calls()
    assert sorted(after.signatures) == sorted(before.signatures)
    assert sorted(map(str, after.annotations)) == sorted(map(str, before.annotations))
    assert after.finish == WRITTEN_REASONS.get(str(before.finish), before.finish)
    finish = next(event for event in events if isinstance(event, Finish))
    known = finish.usage or next(event.usage for event in events if isinstance(event, End))
    assert after.usage == (asdict(counted(known)) if known is not None else None)
    start, read = events[0], back[0]
    assert isinstance(start, Start)
    assert isinstance(read, Start)
    assert read.model == start.model
    assert start.created in (None, read.created)


# --- whole replies ----------------------------------------------------------------------------------------------------


def reread(dialect: Dialect, reply: Reply) -> tuple[Reply, Losses]:
    codec, losses = CODECS[dialect], Losses()
    context = ReplyContext(reply.model, 1, knobs=KNOBS, losses=losses)
    body = json.loads(dumps(codec.write_reply(reply, context)))
    note(body)
    back: Reply = codec.read_reply(body, context)
    return back, losses


def bare(reply: Reply) -> list[Any]:
    """The parts without their places, empty texts and blocks that no reader knows; arguments parsed."""
    out: list[Any] = []
    for part in reply.parts:
        if isinstance(part, Native):
            if part.type != "novelty":
                out.append((part.type, part.payload))
        elif isinstance(part, ToolCall):
            given = part.arguments if part.custom else json.loads(part.arguments or "{}")
            out.append((part.id, part.name, given, part.namespace, part.custom, part.search))
        elif isinstance(part, Text):
            if part.text:  # whether two texts are one message's or two's is no part of what they state
                out.append(replace(part, at=(), apart=False))
        else:
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
        assert back.usage == with_cache(reply.usage)
    else:
        assert losses.counts.get(LossCode.USAGE_ESTIMATED, 0)
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


@given(events=event_streams(replace(RESPONSES_ONLY, cut=False)))
def test_a_responses_reply_survives_writing_and_reading(events: list[Event]) -> None:
    reply = reply_of(events, "responses")
    back, losses = reread(Dialect.RESPONSES, reply)
    # The native half of reasoning is the item as it was written.
    assert noted(back) == noted(reply)
    assert str(back.stop.reason) == WRITTEN_REASONS.get(str(reply.stop.reason), str(reply.stop.reason))
    assert back.usage == (counted(reply.usage) if reply.usage is not None else None)
    assert not set(losses.counts) - {"usage_estimated", "vendor_block"}


@given(events=event_streams(replace(RESPONSES_ONLY, cut=False)))
def test_a_responses_reply_is_read_as_what_it_is(events: list[Event]) -> None:
    reply = reply_of(events, "responses")
    back: Reply = CODECS[Dialect.RESPONSES].read_reply(whole_responses(reply), ReplyContext("m"))
    assert noted(back) == noted(reply)
    assert back.stop.reason is reply.stop.reason
    assert back.usage == (counted(reply.usage) if reply.usage is not None else None)
    assert (back.id, back.model) == (reply.id, reply.model)


def noted(reply: Reply) -> list[Any]:
    """The parts that a client of Responses is given: no hosted items, of reasoning what is in it."""
    shown: list[Part] = [part for part in reply.parts if not isinstance(part, Native)]
    return [
        (part.text.strip("\n"), part.proof) if isinstance(part, Reasoning) else part
        for part in bare(replace(reply, parts=shown))
        if not isinstance(part, Reasoning) or part.text.strip("\n") or part.proof  # empty paragraphs are left out
    ]


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@given(data=st.data())
def test_what_was_written_and_read_once_is_stable(dialect: Dialect, data: st.DataObject) -> None:
    shape = replace(SHAPES[dialect], cut=False)
    once, _ = reread(dialect, reply_of(data.draw(event_streams(shape)), str(dialect)))
    twice, losses = reread(dialect, once)
    look = noted if dialect is Dialect.RESPONSES else bare
    assert look(twice) == look(once)
    assert (twice.stop, twice.usage, twice.refusal) == (once.stop, once.usage, once.refusal)
    assert not set(losses.counts) - {"usage_estimated"}
