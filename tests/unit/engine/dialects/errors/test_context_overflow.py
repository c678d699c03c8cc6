"""Prompts that are too long, with token counts or an estimate of them."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import Error, Start
from dragoman.dialects.errors.context_overflow import add_sizes
from dragoman.dialects.messages.stream.writer import MessagesWriter as Writer
from dragoman.errors import Failure, FailureKind
from dragoman.knobs import Knobs
from dragoman.profiles.profile import Profile
from dragoman.reply_context import ReplyContext

ESTIMATE = Knobs(overflow_sizes="estimate")


@pytest.mark.parametrize(
    ("message", "window", "estimate", "begins"),
    [
        ("no", 0, 5000, "prompt is too long: 5000 tokens > 4500 maximum"),
        ("no", 4000, 5000, "prompt is too long: 5500 tokens > 4000 maximum"),
        ("no", 8000, 5000, "prompt is too long: 8800 tokens > 8000 maximum"),
        ("no", 0, 0, "prompt is too long: 2 tokens > 1 maximum"),
        ("prompt is too long: 9 tokens > 8 maximum", 0, 5000, "prompt is too long: 9 tokens > 8 maximum"),
    ],
)
def test_sizes_are_estimated_if_the_upstream_sent_none(message: str, window: int, estimate: int, begins: str) -> None:
    """Claude Code compacts by `prompt is too long: N tokens > M maximum`; other wordings do nothing."""
    context = ReplyContext("m", input_estimate=estimate, profile=Profile(context_window=window), knobs=ESTIMATE)
    failure = Failure(FailureKind.CONTEXT_LENGTH, message, 400)
    assert add_sizes(failure, context).message.startswith(begins)
    writer = Writer(context)
    frames = writer.feed([Start("x", "m"), Error(failure)])
    assert begins in str(frames)
    assert context.failure is not None
    assert context.failure.message.startswith(begins)


def test_other_failures_and_other_clients_keep_their_words() -> None:
    other = Failure(FailureKind.RATE_LIMIT, "slow down", 429)
    assert add_sizes(other, ReplyContext("m", knobs=ESTIMATE)) is other
    overflow = Failure(FailureKind.CONTEXT_LENGTH, "no", 400)
    assert add_sizes(overflow, ReplyContext("m")) is overflow
