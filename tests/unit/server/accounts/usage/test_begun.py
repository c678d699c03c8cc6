"""The entry of an exchange that has begun, and the row that it becomes."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal

import pytest

from dragoman import Dialect, Usage, translate
from dragoman.gateway import DIRECTIONS
from dragoman.wire import json_dumps, json_loads
from dragoman_server.accounts.usage.begun import begun_entry, lost_row
from dragoman_server.accounts.usage.price import Price
from dragoman_server.accounts.usage.price_table import PriceTable
from dragoman_server.accounts.usage.row import COST_MAX, TEXT_MAX, UsageRow
from dragoman_server.receipt import AttemptRow, Receipt
from support.named_keys import made

PRICES = PriceTable({"claude": Price(input=2.0, output=9.0)})


def receipt(model: str = "m") -> Receipt:
    found = Receipt("req_1", Dialect.CHAT, 1_790_000_000, model=model, provider="p", route="*", tag="team-7")
    body = json_dumps({"model": model, "messages": [{"role": "user", "content": "a secret"}], "stream": True})
    found.translation = translate(DIRECTIONS[Dialect.CHAT, Dialect.MESSAGES], body, upstream_model="claude")
    found.translation.context.input_estimate = 1000
    found.key = made("alice")[1]
    return found


def test_a_lost_exchange_has_what_was_known_and_an_estimate() -> None:
    entry = json_loads(json_dumps(begun_entry(receipt())))
    row = lost_row(entry, PRICES.cost)
    assert (row.time, row.id, row.key, row.tag) == ("2026-09-21T14:13:20Z", "req_1", "alice", "team-7")
    assert (row.client, row.upstream, row.model, row.upstream_model) == ("chat", "messages", "m", "claude")
    assert (row.provider, row.route, row.stream, row.attempts) == ("p", "*", True, 1)
    assert (row.ended, row.status, row.partial) == ("lost", 0, True)
    assert (row.input, row.output, row.estimated) == (1000, None, ["input"])
    assert row.cost == pytest.approx(float(Decimal("0.002")))
    assert b"secret" not in json_dumps(row)


def test_the_entry_of_a_further_attempt_has_its_number() -> None:
    found = receipt()
    found.attempts = (AttemptRow("p", "claude", 0, "unreachable", None, 0.1, 0.0),)
    assert begun_entry(found)["attempts"] == 2


def test_without_an_estimate_nothing_is_estimated() -> None:
    found = receipt()
    assert found.translation is not None
    found.translation.context.input_estimate = 0
    row = lost_row(begun_entry(found), PRICES.cost)
    assert (row.input, row.estimated, row.partial, row.cost) == (None, [], False, None)


def test_long_names_are_cut_and_costs_are_bounded() -> None:
    row = lost_row(begun_entry(receipt("m" * 1000)), lambda *_: Decimal(10) ** 30)
    assert row.model == "m" * TEXT_MAX
    assert row.cost == COST_MAX


def test_entries_of_other_versions_become_rows() -> None:
    entry = {**begun_entry(receipt()), "of_a_later_version": 1}
    assert lost_row(entry, PRICES.cost).id == "req_1"
    least = {"time": "2026-11-21T00:00:00Z", "id": "req_1", "client": "chat", "route": ""}
    row = lost_row(least, PRICES.cost)
    assert {spec.name for spec in fields(UsageRow)} == vars(row).keys()
    assert PRICES.cost(Usage(input_total=1), "other") is None
