"""The booked usage of a stream whose upstream has not counted: estimates, marked as such."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Start,
    Stop,
    StopReason,
    Usage,
    text_run,
)
from dragoman.dialects import CLIENT_DIALECTS
from dragoman.dialects.all_codecs import CODECS
from dragoman.errors import Failure, FailureKind
from dragoman.reply_context import ReplyContext
from dragoman.tokens.stream_usage import usage_so_far

WRITERS = [CODECS[client].writer for client in CLIENT_DIALECTS]
ANSWER: list[Event] = [
    BlockStart(0, "reasoning"),
    Delta(0, "Hm"),
    BlockEnd(0),
    BlockStart(1, "text"),
    Delta(1, "Größer"),
    text_run(1, " als 東京", [" als", " 東京"], [b" als", " 東京".encode()]),
    BlockEnd(1),
    BlockStart(2, "tool", "c", "look"),
    Delta(2, "{}"),
    BlockEnd(2),
]
LENGTH = len("HmGrößer als 東京{}")


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("start", "usage", "estimated"),
    [
        (None, Usage(50, output_total=5), ("input_total", "output_total")),
        (Usage(9, 4), Usage(9, 4, output_total=5), ("output_total",)),
        # What Anthropic begins with is no count of the output yet.
        (Usage(9, output_total=1), Usage(9, output_total=5), ("output_total",)),
    ],
)
def test_T75_what_was_not_counted_is_estimated_and_marked_so(
    writer: type, start: Usage | None, usage: Usage, estimated: tuple[str, ...]
) -> None:
    context = ReplyContext("m", input_estimate=50)
    machine = writer(context)
    machine.feed([Start("x", "m", start), *ANSWER])
    assert LENGTH == 17
    assert usage_so_far(context) == (usage, estimated)
    machine.feed([Error(Failure(FailureKind.API, "cut", 502))])
    assert usage_so_far(context) == (usage, estimated)


@pytest.mark.parametrize("writer", WRITERS)
def test_what_the_upstream_counted_is_never_estimated(writer: type) -> None:
    counts = Usage(7, output_total=3)
    context = ReplyContext("m", input_estimate=50)
    writer(context).feed([Start("x", "m", Usage(9)), *ANSWER, Finish(Stop(StopReason.TOOL_CALLS), counts), End()])
    assert usage_so_far(context) == (counts, ())


@pytest.mark.parametrize("writer", WRITERS)
def test_an_upstream_that_never_counts_is_estimated(writer: type) -> None:
    context = ReplyContext("m")
    writer(context).feed([Start("x", "m"), *ANSWER, Finish(Stop(StopReason.TOOL_CALLS)), End()])
    assert usage_so_far(context) == (Usage(output_total=5), ("output_total",))


def test_nothing_stated_is_nothing_to_estimate() -> None:
    assert usage_so_far(ReplyContext("m", input_estimate=50)) == (None, ())
    assert usage_so_far(ReplyContext("m", usage=Usage(3))) == (Usage(3), ())
