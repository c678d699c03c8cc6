"""A request's claim on the limits of its key, the outcome of the check, and the settlement at the request's end.

All amounts are integers, and so are times (milliseconds): the three stores compute with different number types, and
must come to the same result.
"""

from __future__ import annotations

from typing import NamedTuple

REQUESTS, TOKENS, CONCURRENCY = "requests", "tokens", "concurrent"
"""Names of the limits per minute and of the limit of open requests."""

LEASE_MS = 60_000
"""Time after which an open request that is no longer renewed does not count: its process has ended without a word."""
KEPT_MS = 3_600_000
"""Time for which a lease that has expired can still be settled, and for which a repeated settlement is recognised."""


BucketClaim = tuple[str, int, int]
"""`name, limit, amount`: a claim of `amount` on a bucket that holds `limit` and is filled by `limit` in each minute."""
BudgetClaim = tuple[str, str, int, int]
"""`name, period, limit, amount`: a claim on a budget for a calendar period, such as `2026-11` or `2026-11-22`."""


class Claim(NamedTuple):
    """All claims of one request, which are granted together or not at all.

    `key` is the id of the key, `lease` that of the request. `concurrent` is the number of requests that may be open
    with this one included; 0 for no limit.
    """

    key: str
    lease: str
    concurrent: int = 0
    buckets: tuple[BucketClaim, ...] = ()
    budgets: tuple[BudgetClaim, ...] = ()


class Outcome(NamedTuple):
    """The result of a claim: the names of the limits that reject it (none: it is granted), and the state after it.

    `levels` and `spent` follow the order of the claim's buckets and budgets. A level is in `SCALE` units.
    """

    rejected: tuple[str, ...]
    open: int
    levels: tuple[int, ...]
    spent: tuple[int, ...]


class Settlement(NamedTuple):
    """The end of a request: `amount` of each claim is now the difference to what was claimed, and may be negative.

    `granted` is False if no store granted the claim, because none answered. It is applied once, however often it is
    sent: a granted one by its lease, another one by a mark that the store keeps for `KEPT_MS`.
    """

    key: str
    lease: str
    granted: bool
    buckets: tuple[BucketClaim, ...] = ()
    budgets: tuple[BudgetClaim, ...] = ()
