"""The interface of the stores of shared routing. One test-suite runs against all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from dragoman.threads import StoreError as StoreError
from dragoman_server.routing.shared_slots import Grant, PlaceClaim

LEASE: Final = 6.0
"""Seconds after the last call of a process at which its places are those of others: it was killed, or hangs."""
ISSUERS_MAX: Final = 50_000
"""Most issuers that are kept for one client. The one that was unused for longest is dropped first."""
ISSUER_SECONDS: Final = 30 * 86_400
"""Seconds for which an issuer is kept after its last use: as long as OpenAI keeps a response."""


RUNS_MAX: Final = 10_000
"""Most records of running responses that are kept for one client. The oldest is dropped first."""
RUN_SECONDS: Final = 86_400
"""Seconds for which the record of a running response is kept. The stores of limits recognise a second settlement for
an hour more (`claim.KEPT_MS`)."""
TAKEN_SECONDS: Final = 60
"""Seconds for which the record that a process has taken is not another's."""


class RetryClaim(NamedTuple):
    """The fields of a process's `RetryCounts`, and the `share` and `least` of its `RetryBudget`."""

    requests: int
    made: int
    wanted: int
    share: float
    least: int


class Answer(NamedTuple):
    """The answer to an exchange: a grant for each claim, and the number of retries that are granted.

    `processes` have called within a lease, with this one.
    """

    processes: int
    retries: int
    grants: Sequence[Grant]


class RoutingStore(Protocol):
    """Bounds, retries, issuers and running responses that processes share. Each method raises StoreError."""

    async def open(self) -> None:
        """Make the store usable. A store on another machine need not be reachable yet."""
        ...

    async def close(self) -> None:
        """Close the store."""
        ...

    async def exchange(self, process: str, claims: Sequence[PlaceClaim], retries: RetryClaim) -> Answer:
        """Record what a process uses and needs, and grant what is free, in one atomic step.

        Each claim replaces the last one of this process and provider. A claim is void after `LEASE` seconds.
        """
        ...

    async def keep_issuer(self, owner: str, response: str, issuer: str) -> None:
        """Keep the issuer of a response of a client for `ISSUER_SECONDS`."""
        ...

    async def find_issuer(self, owner: str, response: str) -> str | None:
        """Return the issuer of a response, which is kept for `ISSUER_SECONDS` more; None if it is not known."""
        ...

    async def keep_run(self, owner: str, response: str, record: str) -> None:
        """Keep the record of a running response of a client for `RUN_SECONDS`."""
        ...

    async def take_run(self, owner: str, response: str) -> str | None:
        """Return the record of a running response; None without one, and for `TAKEN_SECONDS` after it was taken."""
        ...

    async def end_run(self, owner: str, response: str) -> None:
        """Remove the record of a running response."""
        ...
