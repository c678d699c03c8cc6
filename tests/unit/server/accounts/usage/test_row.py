"""The row of an exchange."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from dragoman import Failure, Usage
from dragoman.errors import FailureKind
from dragoman.wire import json_dumps
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.row import COST_MAX, COUNTS, TEXT_MAX, cost_units, row_of
from dragoman_server.observability.exchange_record import Principal


def test_a_row_has_the_facts_of_its_exchange(booked: Callable[..., Any]) -> None:
    assert json.loads(json_dumps(booked())) == {
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
        "service_tier": None,
        "stated_cost": None,
        "searches": None,
        "speed": None,
        "tag": None,
        "other_models": [],
    }


def test_counts_of_a_reply_that_was_cut_are_partial(booked: Callable[..., Any]) -> None:
    row = booked(ended="abandoned", estimated=("input_total", "output_total"), principal=Principal("u"))
    assert (row.partial, row.estimated, row.principal) == (True, ["input", "output"], "u")
    failed = booked(ended="failed", usage=None, failure=Failure(FailureKind.OVERLOADED, "", 529))
    assert (failed.partial, failed.error) == (False, "overloaded")


def test_an_exchange_without_usage_has_no_counts(booked: Callable[..., Any]) -> None:
    row = booked(usage=None, cost=None)
    assert (row.input, row.cost, cost_units(row.cost)) == (None, None, None)
    assert cost_units(0.000123) == 123_000


def test_an_exchange_that_was_not_translated_has_no_upstream(booked: Callable[..., Any]) -> None:
    row = booked(facts=None, usage=None, status=None, attempts=0)
    assert (row.upstream, row.upstream_model, row.stream, row.status, row.attempts) == (None, None, None, 0, 0)


def test_a_row_holds_what_every_file_can_store(booked: Callable[..., Any]) -> None:
    row = booked(model="a\ud800b", cost=Decimal("1e30"))
    assert (row.model, row.cost) == ("a?b", COST_MAX)
    assert cost_units(row.cost) == COST_MAX * UNITS < 2**63


def test_a_row_has_the_parts_of_other_models_and_the_tag(booked: Callable[..., Any]) -> None:
    usage = Usage(
        10, output_total=3, other_models=(("a\ud800", Usage(4, output_total=1)), ("b", Usage()), ("", Usage(9)))
    )
    row = booked(usage=usage, other_costs=(Decimal("1e30"), None), tag="team-7")
    assert row.other_models == [{"model": "a?", "input": 4, "output": 1, "cost": COST_MAX}, {"model": "b"}]
    assert row.tag == "team-7"
    assert [each["model"] for each in booked(usage=usage, cost=None).other_models] == ["a?", "b"]


def test_texts_of_clients_are_cut(booked: Callable[..., Any]) -> None:
    assert len(booked(model="x" * 10_000).model) == TEXT_MAX


def test_a_forwarded_endpoint_is_named_in_place_of_the_dialect(booked: Callable[..., Any]) -> None:
    assert booked(endpoint="audio/speech").client == "audio/speech"


def test_the_record_of_the_hook_has_the_same_facts(exchange: Callable[..., Any]) -> None:
    ended = exchange(ended="abandoned", client_profile="claude-code", endpoint="rerank", route="gpt-*")
    row, record = row_of(ended), ended.record()
    same = ("client_profile", "model", "route", "provider", "ended", "status", "attempts", "partial", "key", "tag")
    assert [getattr(record, name) for name in same] == [getattr(row, name) for name in same]
    assert [getattr(record.usage, attribute) for _, attribute in COUNTS] == [getattr(row, name) for name, _ in COUNTS]
    assert (record.request_id, record.endpoint, record.cost) == (row.id, row.client, Decimal(str(row.cost)))
