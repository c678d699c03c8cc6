"""Compares the rows of usage with what the upstreams received and generated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from dragoman.errors import FailureKind
from dragoman_proof.soak.calls import differences
from dragoman_server.observability.exchange_record import RUNNING
from dragoman_server.simulator.ledger import Entry, Ledger, joined

LOST = "lost"
"""The end of an exchange whose process was killed."""


@dataclass(slots=True)
class Booked:
    """The comparison: rows by how their exchange ended, and each violation."""

    ended: Counter[str] = field(default_factory=Counter)
    received: int = 0
    """Requests that an upstream received."""
    unsent: int = 0
    """Rows `lost` of requests that no upstream received: their process was killed before it sent them."""
    killed: int = 0
    """Rows of runs whose process was killed, which another process has ended: what was generated is not known."""
    unanswered: int = 0
    """Rows of requests that an upstream received and did not answer in time: what was generated is not known."""
    counted: int = 0
    """Rows that were compared with the ledger."""
    tokens: dict[str, int] = field(default_factory=dict)
    """Sums of the compared rows whose counts are the upstream's own, which equal those of the ledger."""
    violations: list[str] = field(default_factory=list)


def compare(
    rows: Iterable[dict[str, Any]],
    ledger: Ledger,
    broken: Mapping[str, int],
    cut: frozenset[str],
    failed: frozenset[str] = frozenset(),
) -> Booked:
    """Compare the rows with the ledger, and with the requests that the broken upstreams received.

    `broken` has the number of requests that each model got there, `cut` the models of the calls that a kill may have
    ended: only these may have a row `lost`. `failed` has the models of calls whose client did not get the end: only
    these and those of `cut` may have a row `running`.
    """
    booked, replies = Booked(), ledger.replies()
    seen: Counter[str] = Counter()
    ids: set[str] = set()
    for row in rows:
        model = row["model"].partition("/")[2]
        seen[model] += 1
        booked.ended[row["ended"]] += 1
        if row["id"] in ids:
            booked.violations.append(f"two rows with the id {row['id']}")
        ids.add(row["id"])
        made = replies.get(model, [])
        if row["ended"] == LOST:
            booked.unsent += not made and model not in broken
            if model not in cut:
                booked.violations.append(f"{model}: its row is lost, but no process was killed meanwhile")
        elif row["ended"] == RUNNING:
            if model in cut | failed:
                continue
            booked.violations.append(f"{model}: its row is that of a running response, whose end its client has read")
        elif model in cut and row["output"] is None:
            booked.killed += 1
        elif made and row["error"] == FailureKind.TIMEOUT and row["input"] is None and row["output"] is None:
            booked.unanswered += 1
        elif model.startswith("sim-"):
            booked.counted += 1
            where = f"{row['client']}→{row['model']} ({row['ended']})"
            booked.violations += [f"{where}: {each}" for each in _differences(row, made)]
            if not row["estimated"] and made and "output" in made[-1].reported:
                for name in ("input", "output"):
                    booked.tokens[name] = booked.tokens.get(name, 0) + (row[name] or 0)
    received = {*replies, *(model for model, count in broken.items() if count)}
    booked.received = len(received)
    booked.violations += [f"{model}: {count} rows" for model, count in seen.items() if count > 1]
    booked.violations += [f"{model}: an upstream received it, and it has no row" for model in received - seen.keys()]
    return booked


def _differences(row: dict[str, Any], replies: list[Entry]) -> list[str]:
    """Return how a row differs from the ledger, which has these replies to the attempts of its exchange.

    An attempt that timed out may have been generated, and its counts reached no one: a row has the last reply with any
    of those before it.
    """
    if len(replies) > row["attempts"]:
        return [f"{row['attempts']} attempts, of which an upstream received {len(replies)}"]
    if len(replies) < 2:
        return differences(row, replies[0] if replies else None)
    *before, last = replies
    for count in range(len(before), -1, -1):
        for some in combinations(before, count):
            if not differences(row, joined([*some, last])):
                return []
    return differences(row, last)
