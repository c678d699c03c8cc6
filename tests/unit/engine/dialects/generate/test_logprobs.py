from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.generate.logprobs import read_logprobs
from dragoman.losses import LossCode
from support.generate import new_context

RESULT: dict[str, Any] = {
    "chosenCandidates": [{"token": "å", "tokenId": 7, "logProbability": -0.5}, {"token": "b"}],
    "topCandidates": [{"candidates": [{"token": "å", "logProbability": -0.5}, {"token": 1}]}],
}


def test_tokens() -> None:
    assert read_logprobs(RESULT, new_context(logprobs=True)) == [
        {
            "token": "å",
            "logprob": -0.5,
            "bytes": [195, 165],
            "top_logprobs": [{"token": "å", "logprob": -0.5, "bytes": [195, 165]}],
        },
        {"token": "b", "logprob": 0.0, "bytes": [98], "top_logprobs": []},
    ]


def test_tokens_that_were_not_requested() -> None:
    context = new_context()
    assert read_logprobs(RESULT, context) == []
    assert [loss.code for loss in context.losses] == [LossCode.UNKNOWN_FIELD]


@pytest.mark.parametrize("result", [None, {}, {"chosenCandidates": []}, {"chosenCandidates": [{"token": None}]}])
def test_no_tokens(result: object) -> None:
    assert read_logprobs(result, new_context(logprobs=True)) == []
