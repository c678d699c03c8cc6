"""Statements of upstreams about their service, in every dialect: the tier, the price, paid searches."""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

from dragoman.canonical.request import Json
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects.shared.json_fields import count_of
from dragoman.errors import Path
from dragoman.losses import Losses

_WORD: Final = re.compile(r"[A-Za-z][\w-]{0,31}", re.ASCII)
_READ_TIER: Final = {"standard": "default", "on_demand": "default"}
"""The words of Messages and of Groq (console.groq.com, service tiers) for OpenAI's `default`."""
TIERS: Final = frozenset(("default", "flex", "scale", "priority", "fast"))
"""The tiers that OpenAI's replies name. Any other word is only in the receipt: strict clients reject it."""
_TICKS: Final = 1e10
"""xAI's `cost_in_usd_ticks` in a dollar (docs.x.ai, usage)."""
_COST_MAX: Final = 1e9
_TICKS_MAX: Final = 10**19
# fmt: off
STATED: Final = frozenset((
    "cost", "cost_in_usd_ticks", "num_search_queries", "num_sources_used", "server_side_tool_usage_details",
    "server_tool_use", "tool_usage",
))
# fmt: on
"""Keys of a usage, or of a Response object, that `note_billing` reads."""
ONLY_IN_RECEIPT: Final = "only in the receipt"
"""The remark on the loss of a statement for which the client's dialect has no place."""
WEB_SEARCH: Final = "web_search"
"""The tool whose calls are the searches of a report."""
_COUNTED_CALLS: Final = {
    "server_tool_use": {"web_search_requests": WEB_SEARCH, "web_fetch_requests": "web_fetch"},
    "server_side_tool_usage_details": {
        "web_search_calls": WEB_SEARCH,
        "x_search_calls": "x_search",
        "file_search_calls": "file_search",
        "document_search_calls": "document_search",
        "code_interpreter_calls": "code_interpreter",
        "image_generation_calls": "image_generation",
        "mcp_calls": "mcp",
    },
}
"""Key of a usage → its counts of calls → the tool of each. The second one is xAI's (docs.x.ai, tool usage details)."""
_SEARCH_COUNTS: Final = ("num_search_queries", "num_sources_used")


class ReportHolder(Protocol):
    """A `ReplyContext`, or the observer of a forwarded stream."""

    service: ServiceReport | None


def report_of(holder: ReportHolder) -> ServiceReport:
    """Return the report of the holder. A new one is made if it has no report yet."""
    if holder.service is None:
        holder.service = ServiceReport()
    return holder.service


def tier_of(holder: ReportHolder) -> str | None:
    """Return the service tier that was stated so far, if any."""
    return None if holder.service is None else holder.service.tier


def openai_tier(tier: str | None, losses: Losses) -> str | None:
    """Return a tier for a reply of OpenAI's dialects. One that they lack is recorded, and None is returned."""
    if tier is None or tier in TIERS:
        return tier
    losses.add_unknown(("service_tier",), ONLY_IN_RECEIPT)
    return None


def note_tier(holder: ReportHolder, tier: Any) -> None:
    """Note the service tier that served. `auto` is a request, and any value that is not one word is ignored."""
    if type(tier) is not str or tier == "auto":
        return
    if tier in TIERS:
        if holder.service is None:
            holder.service = ServiceReport(tier)
        else:
            holder.service.tier = tier
    elif _WORD.fullmatch(tier):
        report_of(holder).tier = _READ_TIER.get(tier, tier)


def note_billing(holder: ReportHolder, usage: Json) -> None:
    """Note the price, and the paid calls of the upstream's tools, in a usage or in a Response object.

    The price is `cost` in dollars (OpenRouter, Requesty, Vercel), `cost.total_cost` (Perplexity) or
    `cost_in_usd_ticks` (xAI). Calls are counted by `server_tool_use` (Anthropic, OpenRouter) and
    `server_side_tool_usage_details` (xAI); searches also by `tool_usage` (OpenAI), `num_search_queries` (Perplexity)
    and `num_sources_used` (xAI).
    """
    cost = usage.get("cost")
    if type(cost) is dict:
        cost = cost.get("total_cost")
    if cost is None and type(ticks := usage.get("cost_in_usd_ticks")) is int:
        cost = ticks / _TICKS if 0 <= ticks < _TICKS_MAX else None
    if (type(cost) is float or type(cost) is int) and 0 <= cost < _COST_MAX:
        report_of(holder).cost = float(cost)
    note_calls(holder, _counted_calls(usage))


def _counted_calls(usage: Json) -> dict[str, int]:
    """Return the number of calls by tool, as a usage or a Response object counts them."""
    found: dict[str, int] = {}
    for key, tools in _COUNTED_CALLS.items():
        if type(counts := usage.get(key)) is dict:
            for name, tool in tools.items():
                if (count := count_of(counts.get(name))) is not None:
                    found[tool] = count
    searches = [usage.get(key) for key in _SEARCH_COUNTS]
    if type(tool_usage := usage.get("tool_usage")) is dict and type(own := tool_usage.get(WEB_SEARCH)) is dict:
        searches.append(own.get("num_requests"))
    for value in searches:
        if not found.get(WEB_SEARCH) and (count := count_of(value)) is not None:
            found[WEB_SEARCH] = count
    return found


def note_calls(holder: ReportHolder, counts: dict[str, int]) -> None:
    """Note the number of calls by tool. A later count of a tool replaces an earlier one; 0 is noted for searches."""
    for tool, count in counts.items():
        if tool == WEB_SEARCH:
            report_of(holder).searches = count
        elif count:
            report = report_of(holder)
            report.calls = {**(report.calls or {}), tool: count}


def record_stated(body: Json, keys: frozenset[str], at: Path, losses: Losses) -> None:
    """Record the keys that have a value and that only the receipt of the reply shows."""
    for key in keys.intersection(body):
        if body[key]:
            losses.add_unknown((*at, key), ONLY_IN_RECEIPT)
