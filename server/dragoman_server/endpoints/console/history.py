"""The numbers of the last minutes, from the receipts that are kept, for the beginning of the page's charts.

They have the form of the differences between two answers of `health.py`: counts, and times as histograms with the
buckets of the metrics. What no receipt has (memory, processor, lag) has no history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dragoman.wire import Json
from dragoman_server.endpoints.console.rows import SCAN_MAX, losses_of
from dragoman_server.observability.metric_families import SECONDS, SHORT, observe
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.receipt import Receipt

WIDTH = 10.0
"""Seconds of one bin."""
BINS = 60
"""The number of bins."""


async def history(gateway: Gateway) -> Json:
    """Return the bins of all workers. Raises DragomanError (503) if the other workers cannot be asked."""
    siblings = gateway.siblings
    others = [] if siblings is None else await siblings.console({"kind": "history"})
    return merged(own_history(gateway), others)


def own_history(gateway: Gateway) -> Json:
    """Return the bins of this worker, the oldest first, and the seconds that its receipts cover."""
    kept = list(gateway.receipts.newest())[:SCAN_MAX]
    seconds = gateway.metrics.seconds
    covered = gateway.metrics.uptime
    if kept and len(kept) >= min(gateway.config.server.receipts, SCAN_MAX):
        covered = min(covered, seconds(kept[-1]))
    return {"width": WIDTH, "covered": round(covered, 1), "bins": bins_of(kept, seconds)}


def bins_of(receipts: Iterable[Receipt], seconds_of: Callable[[Receipt], float]) -> list[Json]:
    """Return the bins of receipts, of which `seconds_of` returns the seconds since the request arrived."""
    bins: list[dict[str, Any]] = [_empty() for _ in range(BINS)]
    for receipt in receipts:
        arrived = seconds_of(receipt)
        left = 0.0 if receipt.ended == "open" else max(0.0, arrived - receipt.duration)
        # Open at the ends of these bins: those between its arrival and its end.
        for place in range(max(0, _place(arrived)), _place(left) + (receipt.ended == "open")):
            bins[place]["open"] += 1
        if receipt.ended != "open" and (place := _place(left)) >= 0:
            _add(bins[place], receipt)
    return bins


def merged(own: Json, others: Iterable[Json]) -> Json:
    """Return the sums of the bins of several workers. Answers of another version are left out."""
    found: dict[str, Any] = dict(own)
    for other in others:
        if other.get("width") == found["width"] and len(other.get("bins", ())) == len(found["bins"]):
            found["covered"] = min(found["covered"], other["covered"])
            found["bins"] = [_sum(one, two) for one, two in zip(found["bins"], other["bins"], strict=True)]
    return found


def _place(seconds: float) -> int:
    """Return the bin of a moment so many seconds ago; the newest is the last. It is negative before the first."""
    return BINS - 1 - int(seconds // WIDTH)


def _empty() -> dict[str, Any]:
    return {
        "open": 0,
        "requests": {},
        "losses": 0,
        "tokens_in": 0,
        "tokens_out": 0,
        "first_event": [0] * (len(SECONDS) + 2),
        "token_time": [0] * (len(SHORT) + 2),
    }


def _add(found: dict[str, Any], receipt: Receipt) -> None:
    """Count a request that has ended."""
    found["requests"][receipt.ended] = found["requests"].get(receipt.ended, 0) + 1
    found["losses"] += losses_of(receipt)
    first = None
    if receipt.begun_at is not None:
        first = receipt.begun_at - receipt.opened_at
        observe(found["first_event"], first)
    if (usage := receipt.usage) is None:
        return
    found["tokens_in"] += usage.input_total or 0
    found["tokens_out"] += usage.output_total or 0
    if first is not None and receipt.ended == "completed" and (usage.output_total or 0) > 1:
        assert usage.output_total is not None
        observe(found["token_time"], (receipt.duration - first) / (usage.output_total - 1), SHORT)


def _sum(one: Json, two: Json) -> Json:
    """Return the sums of two bins."""
    found: dict[str, Any] = {}
    for name, value in one.items():
        other = two[name]
        if isinstance(value, dict):
            found[name] = {each: value.get(each, 0) + other.get(each, 0) for each in {**value, **other}}
        elif isinstance(value, list):
            found[name] = [sum(pair) for pair in zip(value, other, strict=True)]
        else:
            found[name] = value + other
    return found
