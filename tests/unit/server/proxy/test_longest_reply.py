"""The longest reply of a request, by its fields, the profile and the options."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.proxy.longest_reply import DEFAULT, MODEL, LongestReply, longest_reply

PROFILE = builtin_profile(Dialect.CHAT)


@pytest.mark.parametrize(
    ("payload", "tokens", "source"),
    [
        ({"max_tokens": 7}, 7, "max_tokens"),
        ({"max_completion_tokens": 8, "max_tokens": 7}, 8, "max_completion_tokens"),
        ({"max_output_tokens": 9}, 9, "max_output_tokens"),
        ({"max_tokens": 7, "n": 3}, 21, "max_tokens"),
        ({"max_tokens": 7, "n": 2, "best_of": 5}, 35, "max_tokens"),
        ({"n": 3}, 3000, DEFAULT),
        ({}, 1000, DEFAULT),
        ({"max_tokens": 0}, 1000, DEFAULT),
        ({"max_tokens": None}, 1000, DEFAULT),
        ({"max_tokens": True}, 1000, DEFAULT),
        ({"max_tokens": "7"}, 1000, DEFAULT),
        ({"max_tokens": -1, "n": -1}, 1000, DEFAULT),
        ({"max_tokens": 10**30}, 10**10, "max_tokens"),
    ],
)
def test_the_limit_is_that_of_the_request_or_the_default(payload: dict[str, Any], tokens: int, source: str) -> None:
    assert longest_reply(payload, PROFILE, "m", StoreOptions(reserve_tokens=1000)) == LongestReply(tokens, source)


def test_no_reply_is_longer_than_the_models_largest() -> None:
    profile = PROFILE.replace({"max_output_tokens": 500})
    options = StoreOptions(reserve_tokens=1000)
    assert longest_reply({"max_tokens": 900}, profile, "m", options).tokens == 500
    assert longest_reply({}, profile, "m", options) == LongestReply(500, DEFAULT)


def test_the_default_may_be_the_models_largest() -> None:
    profile = PROFILE.replace({"max_output_tokens": 500})
    found = longest_reply({}, profile, "m", StoreOptions(reserve_tokens=0))
    assert found == LongestReply(500, MODEL)
    assert found.is_bound
    assert longest_reply({}, PROFILE, "unknown", StoreOptions(reserve_tokens=0)).tokens == PROFILE.default_output("m")


def test_a_forwarded_endpoint_has_no_default() -> None:
    options = StoreOptions(reserve_tokens=1000)
    assert longest_reply({}, PROFILE, "m", options, "embeddings").tokens == 0
    assert longest_reply({"max_tokens": 5}, PROFILE, "m", options, "completions").tokens == 5
