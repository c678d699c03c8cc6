"""Sentences of empty accounts and spend limits."""

from __future__ import annotations

import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.errors.empty_account import is_empty_account
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.errors import FailureKind
from support.samples import dump

SENTENCES = (
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
    "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
    "You have reached your specified workspace API usage limits.",
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_bad_request_that_is_an_empty_account_is_one_of_billing(sentence: str) -> None:
    assert is_empty_account(sentence)
    payload = {"type": "error", "error": {"type": "invalid_request_error", "message": sentence}}
    by_status = [read_error_response(status, dump(payload), {}, Dialect.MESSAGES) for status in (400, 200)]
    in_band = read_error_payload(payload, Dialect.MESSAGES)
    found = [(failure.kind, failure.status) for failure in (*by_status, in_band)]
    assert found == [(FailureKind.BILLING, 400), (FailureKind.BILLING, 402), (FailureKind.BILLING, 402)]


@pytest.mark.parametrize("sentence", ["max_tokens: too low", "rate limit reached", "messages: at least one is needed"])
def test_other_bad_requests_stay_what_they_are(sentence: str) -> None:
    assert not is_empty_account(sentence)
