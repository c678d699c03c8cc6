"""The row of an exchange."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from dragoman import FailureKind
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.row import COST_MAX, TEXT_MAX, cost_units, row_of
from dragoman_server.observability.exchange_record import Principal


def test_a_row_has_the_facts_of_its_exchange(record: Callable[..., Any]) -> None:
    assert row_of(record()) == {
        "time": "2026-09-21T14:13:21Z",
        "id": "req_1",
        "key": "team",
        "client": "chat",
        "client_profile": None,
        "model": "m",
        "route": "*",
        "provider": "p",
        "upstream": "messages",
        "upstream_model": "claude",
        "ended": "completed",
        "error": None,
        "principal": None,
        "status": 200,
        "stream": True,
        "attempts": 1,
        "input": 100,
        "cache_read": 10,
        "cache_write": None,
        "cache_write_1h": None,
        "output": 7,
        "reasoning": 3,
        "estimated": [],
        "partial": False,
        "cost": 0.000123,
        "duration": 1.2346,
        "first_event": 0.5,
    }


def test_counts_of_a_reply_that_was_cut_are_partial(record: Callable[..., Any]) -> None:
    assert record(ended="abandoned").partial
    assert not record(ended="completed").partial
    row = row_of(record(ended="abandoned", estimated=("input_total", "output_total"), principal=Principal("u")))
    assert (row["partial"], row["estimated"], row["principal"]) == (True, ["input", "output"], "u")
    assert row_of(record(ended="failed", usage=None, error_kind=FailureKind.OVERLOADED))["partial"] is False


def test_an_exchange_without_usage_has_no_counts(record: Callable[..., Any]) -> None:
    row = row_of(record(usage=None, cost=None))
    assert (row["input"], row["cost"], cost_units(row)) == (None, None, None)
    assert cost_units({"cost": 0.000123}) == 123_000


def test_a_row_holds_what_every_file_can_store(record: Callable[..., Any]) -> None:
    row = row_of(record(model="a\ud800b", cost=Decimal("1e30")))
    assert (row["model"], row["cost"]) == ("a?b", COST_MAX)
    assert cost_units(row) == COST_MAX * UNITS < 2**63


def test_texts_of_clients_are_cut(record: Callable[..., Any]) -> None:
    assert len(row_of(record(model="x" * 10_000))["model"]) == TEXT_MAX


def test_a_forwarded_endpoint_is_named_in_place_of_the_dialect(record: Callable[..., Any]) -> None:
    assert row_of(record(endpoint="audio/speech"))["client"] == "audio/speech"
