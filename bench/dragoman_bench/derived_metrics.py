"""Computes figures from the load client's result and the kernel's counts, and their medians over several rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from dragoman_bench.scenarios import Scenario

Figures = dict[str, Any]
"""Figures by name; delays are dicts of percentiles."""

_SHARES = ("p50", "p90", "p99", "p99.9")
COSTS = ("cpu_us_per_chunk", "cpu_us_per_stream", "cpu_us_per_reply", "cpu_us_per_turn", "bytes_per_stream")
"""Figures that are divided by the baseline's."""
DELAYS = {"delay_ms": "added_delay_ms", "ttft_ms": "added_ttft_ms", "turn_ms": "added_turn_ms"}
"""Figures from which those without a gateway are subtracted → name of the difference."""


def per(amount: float, count: float) -> float | None:
    """Return `amount / count`, or None if the count is 0."""
    return amount / count if count else None


def of(scenario: Scenario, result: Mapping[str, Any]) -> Figures:
    """Return the figures of a scenario, from one result of the load client.

    CPU time and counts are those of the window: the cost of a chunk does not include the start and end of streams.
    """
    if scenario.mode is None:
        return {**result["idle"], "errors": {}}
    before, begin, end = (result["samples"].get(name) or {} for name in ("before", "begin", "end"))
    out: Figures = {"streams": scenario.streams, "errors": result["errors"], **result.get("storm", {})}
    if not begin or not end:
        return out
    seconds = (end["at_ns"] - begin["at_ns"]) / 1e9
    took = {name: (end["cpu_ns"][name] - begin["cpu_ns"][name]) / 1e3 for name in end["cpu_ns"]}
    chunks, streams, replies = (end[name] - begin[name] for name in ("chunks", "streams", "replies"))
    out["window_s"] = seconds
    out["cpu_share"] = {name: us / 1e6 / seconds for name, us in took.items()}
    gateway = took.get("gateway")
    if "chunk" in scenario.figures:
        out["chunks_per_s"] = chunks / seconds
        out["offered_per_s"] = (end["sent_events"] - begin["sent_events"]) / seconds
        out["upstream_us_per_chunk"] = per(took["upstream"], chunks)
        out["client_us_per_chunk"] = per(took["client"], chunks)
        out["bytes_per_chunk"] = per(end["received"] - begin["received"], chunks)
        if gateway is not None and (cost := per(gateway, chunks)):
            out["cpu_us_per_chunk"] = cost
            out["chunks_per_s_per_core"] = 1e6 / cost
    if "stream" in scenario.figures:
        out["streams_per_s"] = streams / seconds
        if gateway is not None:
            out["cpu_us_per_stream"] = per(gateway, streams)
    if "reply" in scenario.figures:
        out["replies_per_s"] = replies / seconds
        if gateway is not None:
            out["cpu_us_per_reply"] = per(gateway, replies)
    if "turn" in scenario.figures:
        out["turns"] = streams
        out["turn_ms"] = _percentiles(result["whole_ms"])
        if gateway is not None:
            out["cpu_us_per_turn"] = per(gateway, streams)
    if "neighbours" in scenario.figures:
        out |= _beside_neighbours(result)
    if "series" in scenario.figures:
        out |= {"series": result["series"], "lag_ms": _percentiles(result["lag_ms"] or {})}
        out["replies_per_s"] = (streams + replies) / seconds
    if "delay" in scenario.figures:
        out["delay_ms"] = _percentiles(result["delay_ms"])
    if "first" in scenario.figures:
        out["ttft_ms"] = _percentiles(result["first_ms"])
    if gateway is not None and "memory" in scenario.figures:
        out["bytes_per_stream"] = per(end["pss"]["gateway"] - before["pss"]["gateway"], scenario.streams)
        out["pss_bytes"] = end["pss"]["gateway"]
    if gateway is not None and "growth" in scenario.figures:
        out["grown_bytes"] = end["pss"]["gateway"] - before["pss"]["gateway"]
    return out


def _beside_neighbours(result: Mapping[str, Any]) -> Figures:
    """Return the figures of streams without neighbours, and the ratios of those with neighbours to them."""
    out: Figures = {name: _percentiles(result[name] or {}) for name in ("alone_ms", "alone_lag_ms", "lag_ms")}
    alone, beside = out["alone_ms"], _percentiles(result["delay_ms"])
    if alone and beside:
        out["times_alone"] = {share: beside[share] / alone[share] for share in alone if alone[share]}
    return out


def _percentiles(summary: Mapping[str, Any]) -> dict[str, float] | None:
    return {share: summary[share] for share in _SHARES} if summary.get("count") else None


def middle(rounds: Sequence[Figures]) -> Figures:
    """Return the median of each figure over the rounds; errors are summed, and of series the last one is taken."""
    out: Figures = {}
    for name in dict.fromkeys(name for figures in rounds for name in figures):
        values = [figures[name] for figures in rounds if figures.get(name) is not None]
        if name == "errors":
            out[name] = _added(values)
        elif values and isinstance(values[0], dict):
            out[name] = middle(values)
        elif values and isinstance(values[0], list):
            out[name] = values[-1]
        else:
            out[name] = median(values) if values else None
    return out


def _added(errors: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for kinds in errors:
        for kind, found in kinds.items():
            known = out.setdefault(kind, {"count": 0, "example": found["example"]})
            known["count"] += found["count"]
    return out


def compared(figures: Figures, baseline: Figures | None, direct: Figures | None) -> Figures:
    """Return the figures with ratios to the baseline, and with the delays added to those without a gateway, if
    known."""
    out = dict(figures)
    if baseline is not None:
        ratio = {name: figures[name] / baseline[name] for name in COSTS if figures.get(name) and baseline.get(name)}
        if ratio:
            out["ratio"] = ratio
    if direct is not None:
        for name, added in DELAYS.items():
            mine, theirs = figures.get(name), direct.get(name)
            if mine and theirs:
                out[added] = {share: mine[share] - theirs[share] for share in mine}
    return out
