"""The validator against the independent grammar of the tests: both judge streams of ours with something wrong in them.

What the grammar refuses and the validator lets go by is named here. It is never the other way round, but for what a
client had asked for, which the grammar is told of otherwise.
"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman.dialects import Dialect
from dragoman.losses import Losses
from oracles.grammar import Accumulated, GrammarError, chat, messages, responses
from support.mutations import frames_of, mutated_streams
from support.verdicts import TEXT, golden, goldens, settings_of, validator, verdict

UNSEEN = re.compile(
    "|".join(
        (
            # Texts are not put together: whether the pieces make the whole, and whether arguments are JSON.
            r"not what its deltas were",
            r"a part that is not what",
            r"a wrong summary text",
            r"^not JSON \(",
            r"^not a JSON object",
            r"the two reasoning fields disagree",
            # Nor is it seen that there are none.
            r"an empty text block",
            r"a thinking block without text or proof",
            # Members that no client minds, and words that none reads.
            r"unknown keys",
            r"a key twice in one object",
            r"error type",
            r"error\.code",
            r"^reason ",
            r"annotation",
            r"citation",
            r"logprobs",
            r"call id '",
        )
    )
)
"""What the grammar says of streams that the validator takes for legal."""
EXCUSED = ("no usage although it was requested",)
"""What only the validator says: whether there are counts, the grammar does not know."""
_NUMBERS = re.compile(rb'"(index|output_index|content_index|sequence_number)":(\d+)')
_IDS = re.compile(rb'"(item_id|id|call_id)":"([^"\\]*)"')


def grammar(dialect: Dialect, data: bytes, name: str) -> Accumulated:
    settings = settings_of(name)
    if dialect is Dialect.CHAT:
        return chat.check(data, include_usage=settings["include_usage"], logprobs=settings["logprobs"])
    if dialect is Dialect.MESSAGES:
        return messages.check(data, overlapping="interleave" in name)
    return responses.check(data)


@st.composite
def rearranged(draw: st.DrawFn, data: bytes) -> bytes:
    """One or two frames lost, doubled, moved, or with another number or id."""
    frames = frames_of(data)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(frames) - 1))
        match draw(st.sampled_from(("lose", "double", "move", "number", "number", "id"))):
            case "lose":
                del frames[at]
            case "double":
                frames.insert(draw(st.integers(0, len(frames))), frames[at])
            case "move":
                frames.insert(draw(st.integers(0, len(frames) - 1)), frames.pop(at))
            case kind:
                pattern = _NUMBERS if kind == "number" else _IDS
                if found := list(pattern.finditer(frames[at])):
                    one = draw(st.sampled_from(found))
                    other = b"%d" % draw(st.integers(0, 9)) if kind == "number" else draw(st.sampled_from((b"", b"x")))
                    frames[at] = frames[at][: one.start(2)] + other + frames[at][one.end(2) :]
        if not frames:
            break
    return b"".join(frames)


def compare(dialect: Dialect, data: bytes, name: str) -> None:
    found = verdict(dialect, data, **settings_of(name), losses=Losses())
    note(f"{name}: {found}")
    refused = ""
    try:
        grammar(dialect, data, name)
    except GrammarError as error:
        refused = str(error) or "refused"
    note(f"the grammar: {refused}")
    if refused:
        assert found is not None or UNSEEN.search(refused), "a breach that was not seen"
    else:
        assert found is None or found.rule.startswith(EXCUSED), "a false alarm"


@pytest.mark.parametrize("dialect", Dialect)
@given(data=st.data())
def test_frames_out_of_place_are_judged_as_the_grammar_does(dialect: Dialect, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from((TEXT[dialect], *goldens(dialect))))
    compare(dialect, data.draw(rearranged(golden(name))), name)


@pytest.mark.parametrize("dialect", Dialect)
@given(data=st.data())
def test_what_the_grammar_takes_is_never_a_breach(dialect: Dialect, data: st.DataObject) -> None:
    """Whatever else went wrong with the bytes."""
    name = data.draw(st.sampled_from((TEXT[dialect], *goldens(dialect))))
    stream = data.draw(mutated_streams(golden(name)))
    try:
        grammar(dialect, stream, name)
    except (GrammarError, TypeError, LookupError, AttributeError):  # it reads frames of any type as its own
        return
    found = verdict(dialect, stream, **settings_of(name), losses=Losses())
    note(f"{name}: {found}\n{stream!r}")
    assert found is None or found.rule.startswith(EXCUSED)


@pytest.mark.parametrize("dialect", Dialect)
def test_a_stream_spelled_otherwise_is_judged_alike(dialect: Dialect) -> None:
    """The shortcuts know how we spell; what they do not know is read."""
    for name in goldens(dialect):
        frames = []
        for frame in frames_of(golden(name)):
            head, mark, payload = frame.partition(b"data: ")
            if mark and payload.startswith(b"{"):
                payload = json.dumps(json.loads(payload)).encode() + b"\n\n"
            frames.append(head + mark + payload)
        assert verdict(dialect, b"".join(frames), **settings_of(name)) is None, name
        assert verdict(dialect, b"".join(frames[:-1]), **settings_of(name)) is not None, name


@pytest.mark.parametrize("dialect", Dialect)
@given(data=st.data())
def test_frames_checked_together_are_judged_as_one_by_one(dialect: Dialect, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from((TEXT[dialect], *goldens(dialect))))
    stream = data.draw(st.one_of(rearranged(golden(name)), mutated_streams(golden(name))))
    frames = [frame + b"\n\n" for frame in stream.split(b"\n\n")[:-1]]
    settings = settings_of(name)
    singly, together = validator(dialect, **settings), validator(dialect, **settings)
    for frame in frames:
        singly.feed(frame)
    at = 0
    while at < len(frames):
        size = data.draw(st.integers(1, 6))
        assert together.feed(frames[at : at + size]) == b"".join(frames[at : at + size])
        at += size
    for judge in (singly, together):
        judge.finish()
    assert together.context.violation == singly.context.violation
    assert together.ended is singly.ended
