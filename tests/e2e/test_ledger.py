"""A day of mixed exchanges is booked to the token as the simulated upstream's own ledger has it, or as an estimate.

What is estimated is within a tenth of what the simulator generated. The limits of a key count what its rows have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dragoman import Dialect
from dragoman.dialects import CLIENT_DIALECTS
from dragoman_proof.soak.calls import COUNTS, Call, day, differences
from dragoman_server import ExchangeRecord, Hooks
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.price import Price
from dragoman_server.accounts.usage.report import read_rows, sums
from dragoman_server.simulator.app import make_simulator
from dragoman_server.simulator.ledger import Entry, Ledger
from dragoman_server.simulator.tokens import TokenCounts
from support.day import FACTORS, PRICES, SEARCH, configured, play_all
from support.gateways import gate, served
from support.named_keys import made, spent
from support.waiting import until

AT_ONCE = 24


@dataclass(slots=True)
class Day:
    """The rows of a day, the simulator's ledger of it, and what the limits of its key have counted."""

    rows: list[dict[str, Any]]
    ledger: Ledger
    spent: dict[str, int]

    def wrong(self) -> list[str]:
        """Return all differences between the rows and the ledger."""
        entries = self.ledger.by_model()
        return [
            f"{row['client']}→{row['model']} ({'streamed' if row['stream'] else 'whole'}, {row['ended']}): {each}"
            for row in self.rows
            for each in differences(row, entries.get(row["model"].partition("/")[2]))
        ]


async def played(usage: UsageOptions, calls: list[Call]) -> Day:
    """Play the calls of a day."""
    ledger, ended = Ledger(), Counter[str]()
    key, record = made(daily_tokens=10**10, daily_cost=1e6)

    def on_end(ended_exchange: ExchangeRecord[Any]) -> None:
        ended[ended_exchange.model or ""] += 1

    async with (
        served(make_simulator(ledger=ledger, retry_after=0.0)) as (url, _),
        gate(configured(url, usage, record), hooks=Hooks(on_end=on_end)) as entrance,
    ):
        await play_all(entrance, calls, AT_ONCE, {"authorization": f"Bearer {key}"})
        await until(lambda: ended.total() >= len(calls))
        counted = await spent(entrance, record)
    assert ended == Counter(call.name for call in calls)
    return Day([*read_rows(usage)], ledger, counted)


def check(booked: Day, calls: list[Call]) -> None:
    """Compare a day with its ledger: each row, the sums by model and tier, and what limits have counted."""
    assert len({row["id"] for row in booked.rows}) == len(booked.rows) == len(calls)
    assert booked.wrong() == []
    # By model, of the replies whose counts were all reported: an advisor's tokens are its own.
    entries = {model: entry for model, entry in booked.ledger.by_model().items() if "output" in entry.reported}
    exact = [row for row in booked.rows if row["upstream_model"] in entries]
    found = {
        groups: {own: each.counts[name] for name, own in COUNTS.items()}
        for groups, each in sums(exact, ("model", "tier")).items()
    }
    expected: dict[tuple[str, str], dict[str, int]] = {}
    for (model, tier), counts in Ledger([*entries.values()]).sums().items():
        expected[model, tier or ""] = {own: getattr(counts, own) for own in COUNTS.values()}
    assert found == dict(sorted(expected.items()))
    assert sum(each.searches for each in sums(exact, ("provider",)).values()) == sum(
        entry.searches or 0 for entry in entries.values()
    )
    assert [row["cost"] for row in exact] == pytest.approx([bill(entries[row["upstream_model"]]) for row in exact])
    # Limits round the cost of each exchange up.
    assert booked.spent["daily_tokens"] == sum((row["input"] or 0) + (row["output"] or 0) for row in booked.rows)
    cost = sum(row["cost"] or 0.0 for row in booked.rows) * UNITS
    assert cost - len(calls) <= booked.spent["daily_cost"] <= cost + len(calls)


def bill(entry: Entry) -> float:
    """Return the cost of a reply by the ledger."""
    own, cost = entry.generated, SEARCH * (entry.searches or 0)
    for model, counts in entry.others:
        own -= counts
        cost += _cost(counts, PRICES[model])
    return cost + _cost(own, PRICES["*"]) * FACTORS.get(entry.tier or "", 1.0)


def _cost(counts: TokenCounts, price: Price) -> float:
    read, written = price.cache_read, price.cache_write
    hour = price.cache_write_1h if price.cache_write_1h is not None else written
    fresh = counts.input - counts.cached - counts.cache_write
    return (
        fresh * price.input
        + counts.cached * (price.input if read is None else read)
        + (counts.cache_write - counts.cache_write_1h) * (price.input if written is None else written)
        + counts.cache_write_1h * (price.input if hour is None else hour)
        + counts.output * price.output
    ) / 1e6


def variety(rows: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    """Return how exchanges ended in each direction, with `estimated` and `counted`."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        place = found[row["client"], row["upstream"]]
        place |= {row["ended"], "estimated" if row["estimated"] else "counted"}
    return dict(found)


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
async def test_some_hundred_exchanges(tmp_path: Path, kind: str) -> None:
    calls = [*day(1, 360)]
    booked = await played(UsageOptions(kind, str(tmp_path / "usage")), calls)
    check(booked, calls)
    every = {"completed", "failed", "refused", "abandoned", "estimated", "counted"}
    assert variety(booked.rows) == {(client, upstream): every for client in CLIENT_DIALECTS for upstream in Dialect}


@pytest.mark.whole
async def test_ten_thousand_exchanges(tmp_path: Path) -> None:
    calls = [*day(2, 10_000)]
    check(await played(UsageOptions("sqlite", str(tmp_path / "usage")), calls), calls)
