"""Log probabilities with every key that the schema of Responses requires."""

from __future__ import annotations

from typing import Any

from dragoman.dialects.responses.logprobs import write_logprobs


def test_missing_keys_are_added_and_what_is_no_token_is_left_out() -> None:
    tokens: list[Any] = [
        {"token": "a", "logprob": -1.0, "bytes": None, "top_logprobs": [{"token": "b", "logprob": -2.0}, 3], "x": 1},
        {"token": "c", "logprob": -3.0, "bytes": [99]},
        None,
    ]
    assert write_logprobs(tokens) == [
        {
            "token": "a",
            "bytes": [],
            "logprob": -1.0,
            "top_logprobs": [{"token": "b", "bytes": [], "logprob": -2.0}],
        },
        {"token": "c", "bytes": [99], "logprob": -3.0, "top_logprobs": []},
    ]
