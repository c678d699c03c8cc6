"""The failure of an attempt that another one follows. Attempts are sent in `test_attempts.py`."""

from __future__ import annotations

import pytest

from dragoman import DragomanError, Failure
from dragoman.errors import FailureKind
from dragoman_server.proxy.send_attempt import AttemptResult
from dragoman_server.routing.backoff import RetryHints
from dragoman_server.routing.outcomes import outcome_of_status


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, FailureKind.RATE_LIMIT), (504, FailureKind.TIMEOUT), (500, FailureKind.API), (529, FailureKind.OVERLOADED)],
)
def test_a_body_that_was_not_read_leaves_the_status(status: int, kind: FailureKind) -> None:
    failure = AttemptResult(outcome_of_status(status, RetryHints(None, None), own_key=True)).reported()
    assert (failure.status, failure.kind) == (status, kind)


def test_what_was_read_is_reported() -> None:
    outcome = outcome_of_status(500, RetryHints(None, None), own_key=True)
    read, raised = Failure(FailureKind.BILLING, "no credit", 402), Failure(FailureKind.TIMEOUT, "late", 504)
    assert AttemptResult(outcome, failure=read).reported() is read
    assert AttemptResult(outcome, error=DragomanError(raised), failure=read).reported() is raised
