"""No frame that is taken without parsing it is one that the grammar rejects."""

from __future__ import annotations

from dragoman.dialects import Dialect
from support.altered_bytes import assert_taken_frames_are_valid
from support.verdicts import golden_frames

FRAMES = golden_frames("messages_from_chat/text")


def test_altered_first_frames_are_valid_or_not_taken() -> None:
    assert assert_taken_frames_are_valid(Dialect.MESSAGES, FRAMES, 0, 2) > 30


def test_altered_last_frames_are_valid_or_not_taken() -> None:
    assert assert_taken_frames_are_valid(Dialect.MESSAGES, FRAMES, len(FRAMES) - 3, len(FRAMES)) > 0
