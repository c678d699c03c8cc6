"""Plays the session in one direction: each answer is an upstream's reply, translated, and what came of it goes back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from conversations.clients import CLIENTS
from conversations.script import NATIVE, Step, script
from conversations.upstreams import Call, answer
from dragoman import Direction, Knobs, Translation, builtin_profile, direction, translate
from dragoman.gateway import ReplyOptions

Json = dict[str, Any]
MODEL = "claude-opus-5"
"""The name sent upstream: one that takes instructions where they stand, as its profile lists."""


@dataclass(slots=True)
class Turn:
    """One request: the client's body, and its translation, whose reply was not read yet.

    `lost_before` is what the reply before it lost; `last` ends the session.
    """

    step: Step
    body: bytes
    translation: Translation
    lost_before: Counter[str]
    last: bool = False


def play(client: str, upstream: str, profile: str | None = None) -> Iterator[Turn]:
    """Every request of the session, one after the other."""
    row, by = direction(client, upstream), CLIENTS[client]
    fields, history = by.begin()
    lost: Counter[str] = Counter()
    for step in script():
        calls = [by.call(act) for act in step.acts]
        if step.number < NATIVE:
            # Before the session moved here: the client's own vendor answered.
            history += by.kept(answer(client, step, calls)) + by.stated(step, calls)
            continue
        turn = _turn(row, {**fields, by.history: by.moving(history)}, profile, step, lost)
        yield turn
        losses = turn.translation.losses
        before = Counter(losses.counts)
        sent = [_made(call, turn.translation) for call in calls]
        reply = turn.translation.reply(orjson.dumps(answer(upstream, step, sent)))
        lost = Counter({code.value: count for code, count in (Counter(losses.counts) - before).items()})
        history += by.kept(orjson.loads(reply)) + by.stated(step, calls)
    last = _turn(row, {**fields, by.history: by.moving(history)}, profile, step, lost)
    last.last = True
    yield last


def _turn(row: Direction, body: Json, profile: str | None, step: Step, lost: Counter[str]) -> Turn:
    raw = orjson.dumps(body)
    known = builtin_profile(row.upstream.dialect, profile)
    request_id = f"req_{step.number}"
    options = ReplyOptions(created=step.number, request_id=request_id)
    translation = translate(row, raw, profile=known, upstream_model=MODEL, knobs=knobs_of(row), options=options)
    return Turn(step, raw, translation, lost)


def knobs_of(row: Direction) -> Knobs:
    """The operator's choices. Gemini takes no instruction among its turns; one at the head would change the prefix."""
    return Knobs(mid_system="user") if row.upstream.dialect == "generate" else Knobs()


def _made(call: Call, translation: Translation) -> Call:
    """The call as the upstream makes it: a free-text tool may have been declared as a function with one text."""
    if call.custom and b'{"type":"custom"' not in translation.body:
        return replace(call, custom=False, arguments=json.dumps({"input": call.arguments}, ensure_ascii=False))
    return call
