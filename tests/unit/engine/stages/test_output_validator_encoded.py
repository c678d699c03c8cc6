"""The verdict on a batch is the same whether its frames are encoded already or not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.dialects import Dialect
from dragoman.stages.violation import Violation
from dragoman.wire.sse import Encoder, Frame, Parser, encode
from support.verdicts import TEXT, golden, golden_frames, goldens, settings_of, validator


def judged(dialect: str, batches: Sequence[Sequence[Frame | bytes]], name: str) -> tuple[bytes, Violation | None, int]:
    judge = validator(dialect, **settings_of(name))
    written = b"".join(judge.feed(batch) for batch in batches) + judge.finish()
    return written, judge.context.violation, judge.position


def batched(frames: Sequence[Frame], size: int) -> list[Sequence[Frame]]:
    return [frames[at : at + size] for at in range(0, len(frames), size)]


def assert_same_verdict(dialect: str, frames: Sequence[Frame], name: str) -> None:
    for size in (1, 2, 3, len(frames) or 1):
        batches = batched(frames, size)
        encoded = [[encode(frame) for frame in batch] for batch in batches]
        mixed = [[encode(frame) if at % 2 else frame for at, frame in enumerate(batch)] for batch in batches]
        expected = judged(dialect, batches, name)
        assert judged(dialect, encoded, name) == expected
        assert judged(dialect, mixed, name) == expected


@pytest.mark.parametrize("name", [name for dialect in Dialect for name in goldens(dialect)])
def test_of_valid_streams(name: str) -> None:
    frames = Parser().parse(golden(name))
    assert Encoder().feed(frames) == golden(name)
    assert_same_verdict(name.partition("_")[0], frames, name)


@pytest.mark.parametrize("name", ["chat_from_messages/text", "messages_from_chat/text"])
@pytest.mark.parametrize("change", ["lose", "double", "move to the end", "rename", "damage"])
def test_of_streams_with_a_defect(name: str, change: str) -> None:
    whole = golden_frames(name)
    for at, frame in enumerate(whole):
        changed = [*whole[:at], *whole[at + 1 :]]
        if change == "double":
            changed = [*whole[:at], frame, *whole[at:]]
        elif change == "move to the end":
            changed.append(frame)
        elif change == "rename":
            changed.insert(at, b"event: other\ndata: " + (frame.partition(b"data: ")[2] or b"{}\n\n"))
        elif change == "damage":
            changed.insert(at, frame.replace(b"{", b"[", 1))
        assert_same_verdict(name.partition("_")[0], Parser().parse(b"".join(changed)), name)


@pytest.mark.parametrize("dialect", Dialect)
def test_the_end_that_comes_with_the_last_text_is_not_parsed(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = Parser().parse(golden(TEXT[dialect]))
    first_text = next(at for at, frame in enumerate(frames) if b"Hel" in (frame.data or b"")) + 1
    judged(dialect, [frames], TEXT[dialect])  # the template of its texts is known from now on
    judge = validator(dialect)
    judge.feed(frames[:first_text])
    monkeypatch.setattr(type(judge), "read", lambda *_: pytest.fail("a frame was parsed"))
    judge.feed(frames[first_text:])
    assert judge.ended
    assert judge.context.violation is None
