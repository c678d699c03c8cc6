"""No frame that is taken without parsing it is one that the grammar rejects."""

from __future__ import annotations

from dragoman.dialects import Dialect
from dragoman.wire.sse import COMMENT
from support.altered_bytes import assert_taken_frames_are_valid
from support.verdicts import golden_frames, validator

FRAMES = [frame for frame in golden_frames("chat_from_messages/text") if frame.startswith(b"data")]


def test_altered_first_chunks_are_valid_or_not_taken() -> None:
    assert assert_taken_frames_are_valid(Dialect.CHAT, FRAMES, 0, 1) > 100


def test_keep_alives_after_the_first_chunk_are_taken_with_it() -> None:
    data = FRAMES[0] + COMMENT * 2
    assert validator(Dialect.CHAT).take_usual(data + FRAMES[1]) == len(data)
    assert assert_taken_frames_are_valid(Dialect.CHAT, [data], 0, 1) > 100


def test_altered_last_chunks_are_valid_or_not_taken() -> None:
    # The identity must not change any more, and the counts must add up.
    assert assert_taken_frames_are_valid(Dialect.CHAT, FRAMES, len(FRAMES) - 3, len(FRAMES)) > 0
