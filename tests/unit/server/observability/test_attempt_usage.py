"""The counts of a request that was sent several times."""

from __future__ import annotations

import pytest

from dragoman import Dialect, Usage, translate
from dragoman.errors import LimitExceeded, StreamTruncated
from dragoman.gateway import DIRECTIONS
from dragoman_server.observability.attempt_usage import AttemptUsage, has_begun, with_attempts, with_input

BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
PART = ("adviser", Usage(1))


def test_the_input_is_estimated_if_it_is_not_known() -> None:
    translation = translate(DIRECTIONS[Dialect.CHAT, Dialect.MESSAGES], BODY)
    translation.context.input_estimate = 9
    assert with_input(None, (), translation) == (Usage(9), ("input_total",))
    assert with_input(Usage(output_total=3), ("output_total",), translation) == (
        Usage(9, output_total=3),
        ("input_total", "output_total"),
    )
    assert with_input(Usage(5), (), translation) == (Usage(5), ())
    translation.context.input_estimate = 0
    assert with_input(None, (), translation) == (None, ())


def test_a_reply_has_begun_with_its_first_bytes() -> None:
    error = StreamTruncated()
    assert not has_begun(error)
    error.received = 1
    assert has_begun(error)
    assert has_begun(LimitExceeded("reply_body", 7, upstream=True))


@pytest.mark.parametrize("last", [None, Usage()])
def test_the_counts_of_attempts_are_added(last: Usage | None) -> None:
    before = [AttemptUsage("m", Usage(7, output_total=2), ("input_total",)), AttemptUsage("m", Usage(1), ())]
    assert with_attempts(last, (), "m", before) == (Usage(8, output_total=2), ("input_total",))


def test_the_counts_of_another_model_are_a_part_of_their_own() -> None:
    last = Usage(10, 4, output_total=5, other_models=(PART,))
    before = [AttemptUsage("small", Usage(7, output_total=2), ("output_total", "input_total"))]
    total, estimated = with_attempts(last, ("output_total",), "m", before)
    assert total == Usage(17, 4, output_total=7, other_models=(PART, ("small", before[0].usage)))
    assert estimated == ("output_total", "input_total")
    assert last == Usage(10, 4, output_total=5, other_models=(PART,))
