"""No frame that is taken without parsing it is one that the grammar rejects."""

from __future__ import annotations

from dragoman.dialects import Dialect
from support.altered_bytes import assert_taken_frames_are_valid
from support.verdicts import golden_frames, validator

FRAMES = golden_frames("responses_from_chat/text")


def test_altered_first_frames_are_valid_or_not_taken() -> None:
    validator(Dialect.RESPONSES).feed(FRAMES[0])  # learns what the snapshots repeat of the request
    assert_taken_frames_are_valid(Dialect.RESPONSES, FRAMES, 0, 4)


def test_an_altered_item_is_valid_or_not_taken() -> None:
    assert assert_taken_frames_are_valid(Dialect.RESPONSES, FRAMES, 2, 4) == 0  # its id is in both frames


def test_altered_last_frames_are_valid_or_not_taken() -> None:
    assert_taken_frames_are_valid(Dialect.RESPONSES, FRAMES, len(FRAMES) - 4, len(FRAMES))
