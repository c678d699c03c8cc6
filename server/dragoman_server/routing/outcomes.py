"""The outcomes of attempts: whether a request may be sent again after a failure, where, and what pauses."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from dragoman import Failure
from dragoman.errors import FailureKind
from dragoman_server.credentials.credential import REASON
from dragoman_server.routing.backoff import NO_HINTS, RetryHints

_RETRYABLE = frozenset((408, 409, 425, 429))
"""Statuses below 500 after which the same request may succeed."""
_KEY_STATUSES = frozenset((401, 402, 403))
"""Statuses that concern the key that was sent: another key may be accepted."""
_UNSERVED = frozenset((404, 413))
"""Statuses of a model, or of a size, that another provider may serve (`retries.unserved`)."""


class Scope(StrEnum):
    """Where a request may be sent next."""

    NOWHERE = "nowhere"
    ELSEWHERE = "elsewhere"
    """To another provider, or with another key."""
    LARGER = "larger"
    """To a provider of the route that takes longer requests."""
    ANYWHERE = "anywhere"


class Blame(StrEnum):
    """The side that failed."""

    NONE = "none"
    KEY = "key"
    """The provider refuses this key, for now: its other keys may work."""
    PROVIDER = "provider"


class AttemptOutcome(NamedTuple):
    """The outcome of an attempt: a word for metrics and receipts, and what follows from it."""

    word: str
    scope: Scope = Scope.NOWHERE
    blame: Blame = Blame.NONE
    status: int | None = None
    after: float | None = None
    """The seconds that the upstream asks to wait."""
    by_content: bool = True
    """True if it may depend on what was sent. Else it would have been the same for other clients."""


ANSWERED = AttemptOutcome("answered")
ABANDONED = AttemptOutcome("abandoned")
"""The client disconnected, or the gateway stops."""
UNTRANSLATABLE = AttemptOutcome("untranslatable", Scope.ELSEWHERE)
"""The request cannot be expressed in the provider's dialect. Nothing was sent."""
QUEUED_OUT = AttemptOutcome("queue", Scope.ELSEWHERE)
"""No place became free in time. Nothing was sent."""


def outcome_of_status(status: int, hints: RetryHints = NO_HINTS, *, own_key: bool = True) -> AttemptOutcome:
    """Return the outcome of an error status. `own_key` is False if the key was the client's own."""
    by_content = True
    if status == 429:
        word, scope, blame = "rate_limited", Scope.ANYWHERE, Blame.KEY if own_key else Blame.NONE
        by_content = hints.after is None  # such as a request that is larger than the limit
    elif status in _RETRYABLE:
        word, scope, blame = "unavailable", Scope.ANYWHERE, Blame.NONE
    elif status >= 500:
        word, scope, blame = "unavailable", Scope.ANYWHERE, Blame.PROVIDER
    elif status in _KEY_STATUSES and own_key:
        word, scope, blame = "unauthorized", Scope.ELSEWHERE, Blame.KEY
        by_content = status == 403  # moderation returns it, too
    else:
        word, scope, blame = "refused", Scope.NOWHERE, Blame.NONE
    if hints.again is False and scope is Scope.ANYWHERE:
        scope = Scope.ELSEWHERE  # the header concerns this upstream only
    elif hints.again and scope is Scope.NOWHERE:
        word, scope = "unavailable", Scope.ANYWHERE
    return AttemptOutcome(word, scope, blame, status, hints.after, by_content)


def outcome_of_error(
    failure: Failure, hints: RetryHints = NO_HINTS, *, own_key: bool = True, unserved: bool = False
) -> AttemptOutcome:
    """Return the outcome of an error that the upstream reports: by its meaning, else by its status.

    An empty account and a spend limit are reported with 400, 402, 403 or 429, and concern all requests with the key.
    With `unserved`, another provider may serve what this one does not have.
    """
    status, kind = failure.status, failure.kind
    if kind is FailureKind.BILLING and own_key:
        return AttemptOutcome("no_credit", Scope.ELSEWHERE, Blame.KEY, status, hints.after, by_content=False)
    if kind is FailureKind.CONTEXT_LENGTH:
        return AttemptOutcome("too_long", Scope.LARGER, status=status)
    outcome = outcome_of_status(status, hints, own_key=own_key)
    if outcome.scope is Scope.NOWHERE and unserved and status in _UNSERVED:
        return outcome._replace(scope=Scope.ELSEWHERE)
    return outcome


_BY_REASON = {
    "unreachable": "unreachable",
    REASON: "no_credential",
    "connect": "unreachable",
    "first_byte": "timeout",
    "idle": "timeout",
    "truncated": "cut",
    "protocol": "malformed",
}

_WITHOUT_CONTENT = frozenset(("unreachable", "no_credential"))
"""Words of failures before anything was sent."""


def outcome_of_failure(
    failure: Failure, hints: RetryHints = NO_HINTS, *, own_key: bool = True, unserved: bool = False
) -> AttemptOutcome:
    """Return the outcome of a failure before the first event: of the connection, or an error in place of an event."""
    if failure.reason is None:
        return outcome_of_error(failure, hints, own_key=own_key, unserved=unserved)
    word = _BY_REASON.get(failure.reason)
    if word is None:
        return AttemptOutcome("refused", status=failure.status)
    # A reply that is complete and cannot be read is not requested again: each answer is charged.
    scope = Scope.NOWHERE if hints.again is False else Scope.ANYWHERE
    return AttemptOutcome(word, scope, Blame.PROVIDER, by_content=word not in _WITHOUT_CONTENT)
