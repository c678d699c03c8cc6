"""Tier, price and paid searches, in the words of each vendor."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects.shared.service_report import note_billing, note_tier, record_stated
from dragoman.losses import Losses
from dragoman.reply_context import ReplyContext


@pytest.mark.parametrize(
    ("word", "tier"),
    [("default", "default"), ("standard", "default"), ("on_demand", "default"), ("priority", "priority")],
)
def test_tiers_are_read_in_openais_words(word: str, tier: str) -> None:
    context = ReplyContext("m")
    note_tier(context, word)
    assert context.service is not None
    assert context.service.tier == tier


@pytest.mark.parametrize("word", ["auto", "", None, 3, "two words", "x" * 60, "é"])
def test_what_is_no_tier_is_ignored(word: Any) -> None:
    context = ReplyContext("m")
    note_tier(context, word)
    assert context.service is None


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"cost": 0.0125}, 0.0125),
        ({"cost": {"total_cost": 0.006, "input_tokens_cost": 0.001}}, 0.006),
        ({"cost_in_usd_ticks": 37_756_000}, 0.0037756),
        ({"cost": -1}, None),
        ({"cost": "0.1"}, None),
        ({"cost": True}, None),
        ({"cost": float("inf")}, None),
        ({"cost_in_usd_ticks": 10**400}, None),
    ],
)
def test_the_price_is_in_dollars(usage: dict[str, Any], cost: float | None) -> None:
    context = ReplyContext("m")
    note_billing(context, usage)
    assert (context.service.cost if context.service else None) == cost


@pytest.mark.parametrize(
    "usage",
    [
        {"server_tool_use": {"web_search_requests": 2}},
        {"tool_usage": {"web_search": {"num_requests": 2}}},
        {"num_search_queries": 2},
        {"num_sources_used": 2},
    ],
)
def test_paid_searches_are_counted(usage: dict[str, Any]) -> None:
    context = ReplyContext("m")
    note_billing(context, usage)
    assert context.service is not None
    assert context.service.searches == 2


XAI = {"web_search_calls": 0, "x_search_calls": 3, "file_search_calls": 1, "mcp_calls": 0, "novel_calls": 9}


@pytest.mark.parametrize(
    ("usage", "searches", "calls"),
    [
        ({"server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 4}}, 2, {"web_fetch": 4}),
        ({"server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0}}, 0, None),
        ({"server_side_tool_usage_details": XAI}, 0, {"x_search": 3, "file_search": 1}),
        # The sources of a live search, which xAI counted before its tools.
        ({"server_side_tool_usage_details": XAI, "num_sources_used": 5}, 5, {"x_search": 3, "file_search": 1}),
        ({"server_tool_use": {"web_fetch_requests": -1, "web_search_requests": "x"}}, None, None),
        ({"server_tool_use": [1], "server_side_tool_usage_details": 7}, None, None),
    ],
)
def test_calls_of_the_upstreams_tools_are_counted(
    usage: dict[str, Any], searches: int | None, calls: dict[str, int] | None
) -> None:
    context = ReplyContext("m")
    note_billing(context, usage)
    report = context.service or ServiceReport()
    assert (report.searches, report.calls) == (searches, calls)


def test_what_only_the_receipt_shows_is_a_row_once() -> None:
    losses = Losses()
    for _ in range(2):
        record_stated({"cost": 1, "other": 2}, frozenset({"cost"}), ("usage",), losses)
    assert [str(row) for row in losses.rows] == ["unknown_field at usage.cost: only in the receipt"]
