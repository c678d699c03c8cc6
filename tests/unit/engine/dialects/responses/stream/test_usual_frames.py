"""No frame that is taken without parsing it is one that the grammar rejects."""

from __future__ import annotations

import pytest

from dragoman import direction, translate
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


@pytest.mark.parametrize("one_by_one", [False, True])
def test_an_id_with_half_a_surrogate_pair_is_no_defect(one_by_one: bool) -> None:
    identity = b'"id":"\\ud83d","object":"chat.completion.chunk","created":1,"model":"m"'
    chunk = b"data: {" + identity + b',"choices":[{"index":0,%b}]}\n\n'
    stream = [
        chunk % b'"delta":{"role":"assistant","content":"Hi"},"finish_reason":null',
        chunk % b'"delta":{},"finish_reason":"stop"' + b"data: [DONE]\n\n",
    ]
    translation = translate(direction("responses", "chat"), b'{"model":"m","input":"Hi","stream":true}')
    machine = translation.stream_machine()
    written = b"".join(machine.feed(data) for data in (stream if one_by_one else [b"".join(stream)]))
    assert b"event: response.completed" in written
    assert translation.context.violation is None
