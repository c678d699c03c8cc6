"""The parts of the renderers for the ledger: the tokens of a reply, and the counts that bytes of it report."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.steps import Scenario
from dragoman_server.simulator.tokens import TokenCounts

INPUT = frozenset(("input", "cached", "cache_write"))
COUNTS = INPUT | {"output", "reasoning"}
"""The names of counts that OpenAI's dialects report."""
TIER, SEARCHES = "tier", "searches"
"""The names of what is reported besides counts."""
_TIER = b'"service_tier":"'
_SEARCHES = (b'"server_tool_use":{', b'"num_search_queries":', b'"tool_usage":{')
_USAGE = b'"usage":{'


class Booking(NamedTuple):
    """The tokens of a reply: all of them, and the parts of them that other models used. `tier` is in OpenAI's words."""

    generated: TokenCounts
    others: tuple[tuple[str, TokenCounts], ...]
    tier: str


def book(scenario: Scenario, reply: SimulatedReply) -> Booking:
    """Return the tokens of a reply of OpenAI's dialects."""
    return Booking(replace(reply.count(scenario), cache_write_1h=0), (), reply.tier_of(scenario))


def reported(data: bytes) -> frozenset[str]:
    """Return the names of what a frame or a whole reply of OpenAI's dialects reports."""
    return (COUNTS if _USAGE in data else frozenset()) | services(data)


def services(data: bytes) -> frozenset[str]:
    """Return the names of what a frame or a whole reply reports besides counts."""
    tier = {TIER} if _TIER in data else set()
    searched = {SEARCHES} if any(mark in data for mark in _SEARCHES) else set()
    return frozenset(tier | searched)
