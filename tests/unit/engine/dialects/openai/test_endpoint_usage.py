"""The token counts of the endpoints that are not translated, in each form that servers use."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import Usage
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects.openai.endpoint_usage import note_endpoint_service, read_audio_tokens, read_endpoint_usage
from dragoman.reply_context import ReplyContext


@pytest.mark.parametrize(
    ("payload", "usage"),
    [
        ({"usage": {"prompt_tokens": 4, "total_tokens": 4}}, Usage(input_total=4)),
        ({"usage": {"prompt_tokens": 4, "completion_tokens": 2}}, Usage(input_total=4, output_total=2)),
        (
            {"usage": {"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 5}}},
            Usage(input_total=9, cache_read=5, output_total=3),
        ),
        ({"usage": {"total_tokens": 7}}, Usage(input_total=7)),
        ({"usage": {"type": "duration", "seconds": 3}}, None),
        ({"meta": {"billed_units": {"search_units": 1}, "tokens": {"input_tokens": 6}}}, Usage(input_total=6)),
        ({"meta": {"billed_units": {"input_tokens": 6, "output_tokens": 0}}}, Usage(input_total=6, output_total=0)),
        ({"usage": {"prompt_tokens": -1}}, None),
        ({"usage": [1]}, None),
        ({"meta": "x"}, None),
        ([1], None),
        (None, None),
    ],
)
def test_counts_of_a_reply(payload: Any, usage: Usage | None) -> None:
    assert read_endpoint_usage(payload) == usage


@pytest.mark.parametrize(
    ("payload", "tokens"),
    [
        ({"usage": {"type": "duration", "seconds": 3}}, 30),
        ({"usage": {"type": "duration", "seconds": 3}, "duration": 9}, 30),
        ({"duration": "2.01"}, 21),
        ({"duration": 0}, 0),
        ({"duration": "long"}, None),
        ({"duration": -1}, None),
        ({"duration": float("nan")}, None),
        ({"duration": 1e30}, None),
        ({"duration": [1], "usage": []}, None),
        ({}, None),
        ([1], None),
    ],
)
def test_seconds_of_audio_are_tokens(payload: Any, tokens: int | None) -> None:
    assert read_audio_tokens(payload) == tokens


def test_the_tier_and_the_price_are_noted() -> None:
    context = ReplyContext("m")
    note_endpoint_service([1], context)
    note_endpoint_service({"usage": [1]}, context)
    assert context.service is None
    note_endpoint_service({"service_tier": "flex", "usage": {"cost": 0.5}}, context)
    assert context.service == ServiceReport("flex", cost=0.5)
