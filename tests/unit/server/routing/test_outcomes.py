"""Failures that are tried again, where, and to whom they are counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import Failure, FailureKind, LimitExceeded, StreamTruncated, UpstreamTimeout, UpstreamUnreachable
from dragoman_server.routing.backoff import RetryHints
from dragoman_server.routing.outcomes import Blame, Scope, outcome_of_error, outcome_of_failure, outcome_of_status

RETRYABLE = {408, 409, 425, 429, *range(500, 600)}


@given(st.integers(300, 599))
def test_the_retryable_statuses(status: int) -> None:
    found = outcome_of_status(status)
    assert (found.scope is Scope.ANYWHERE) == (status in RETRYABLE)
    assert (found.scope is Scope.ELSEWHERE) == (status in {401, 402, 403})
    assert (found.blame is Blame.PROVIDER) == (status >= 500)
    assert (found.blame is Blame.KEY) == (status in {401, 402, 403, 429})
    assert found.status == status


@given(st.integers(300, 599))
def test_x_should_retry_decides_for_the_same_provider(status: int) -> None:
    usual = outcome_of_status(status)
    assert outcome_of_status(status, RetryHints(again=False)).scope is not Scope.ANYWHERE
    assert (outcome_of_status(status, RetryHints(again=False)).scope is Scope.NOWHERE) == (usual.scope is Scope.NOWHERE)
    asked = outcome_of_status(status, RetryHints(again=True)).scope
    assert asked is (Scope.ELSEWHERE if usual.scope is Scope.ELSEWHERE else Scope.ANYWHERE)


@pytest.mark.parametrize("status", [401, 402, 403])
def test_the_clients_own_key_is_not_replaced(status: int) -> None:
    assert outcome_of_status(status, own_key=False).scope is Scope.NOWHERE


@pytest.mark.parametrize(
    ("failure", "word"),
    [
        (UpstreamUnreachable("refused").failure, "unreachable"),
        (UpstreamTimeout("connect", 1).failure, "unreachable"),
        (UpstreamTimeout("first_byte", 1).failure, "timeout"),
        (StreamTruncated().failure, "cut"),
    ],
)
def test_failures_of_the_connection_are_the_providers(failure: Failure, word: str) -> None:
    assert outcome_of_failure(failure)[:3] == (word, Scope.ANYWHERE, Blame.PROVIDER)


def test_an_error_event_counts_by_its_status() -> None:
    overloaded = Failure(FailureKind.OVERLOADED, "too much", 529)
    assert outcome_of_failure(overloaded) == outcome_of_status(529)


def test_a_reply_that_is_too_large_is_not_requested_again() -> None:
    failure = LimitExceeded("reply_body", 1, upstream=True).failure
    assert outcome_of_failure(failure).scope is Scope.NOWHERE


@pytest.mark.parametrize("status", [400, 402, 403, 429])
def test_an_empty_account_is_the_keys_and_no_pause_fills_it(status: int) -> None:
    empty = Failure(FailureKind.BILLING, "no credit", status)
    outcome = outcome_of_error(empty)
    assert outcome[:3] == ("no_credit", Scope.ELSEWHERE, Blame.KEY)
    assert not outcome.by_content
    assert outcome_of_error(empty, own_key=False) == outcome_of_status(status, own_key=False)


def test_a_request_that_is_too_long_needs_a_larger_provider() -> None:
    outcome = outcome_of_error(Failure(FailureKind.CONTEXT_LENGTH, "too long", 400), unserved=True)
    assert outcome[:3] == ("too_long", Scope.LARGER, Blame.NONE)


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_what_one_does_not_serve_another_may(status: int) -> None:
    failure = Failure(FailureKind.INVALID_REQUEST, "no", status)
    assert outcome_of_error(failure).scope is Scope.NOWHERE
    assert (outcome_of_error(failure, unserved=True).scope is Scope.ELSEWHERE) == (status in (404, 413))
