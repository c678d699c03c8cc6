"""The numbers of the page's charts: the metrics that exist anyway, and the states of the providers.

The page asks for them every few seconds and compares two answers; no history is kept here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import Decimal
from itertools import islice
from typing import Any

from dragoman.wire import Json
from dragoman_server.endpoints.console.rows import SCAN_MAX
from dragoman_server.observability import metric_families as families
from dragoman_server.observability.ended_exchange import CostOf
from dragoman_server.observability.metric_families import Family, Totals
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.receipt import Receipt

KEYS_MAX = 50
"""Most keys in the table of tokens by key."""


async def health(gateway: Gateway) -> Json:
    """Return the numbers of all workers. Raises DragomanError (503) if the other workers cannot be asked."""
    siblings = gateway.siblings
    totals = gateway.metrics.alone() if siblings is None else await siblings.totals()
    others = [] if siblings is None else await siblings.console({"kind": "keys"})
    keys = own_keys(gateway)["keys"]
    for other in others:
        keys += other.get("keys", ())
    return {**numbers(totals), "providers": provider_states(gateway, totals), "keys": merged_keys(keys)}


def numbers(totals: Totals) -> Json:
    """Return the sums that the charts show."""
    return {
        "open_requests": _sum(totals, families.OPEN_REQUESTS),
        "open_streams": _sum(totals, families.OPEN_STREAMS),
        "requests": _by_label(totals, families.REQUESTS, 3),
        "errors": _by_label(totals, families.UPSTREAM_ERRORS, 0, 1)
        | _by_label(totals, families.GATEWAY_ERRORS, 0, name="gateway"),
        "losses": _by_label(totals, families.LOSSES, 0),
        "tokens": _by_label(totals, families.TOKENS, 1),
        "first_event": _histogram(totals, families.FIRST_EVENT),
        "token_time": _histogram(totals, families.TOKEN_TIME),
        "lag": _histogram(totals, families.LAG),
        "lag_max": totals.read(families.LAG_MAX)[0],
        "cpu": totals.read(families.CPU)[0],
        "memory": totals.read(families.MEMORY)[0],
        "workers": _sum(totals, families.WORKER_UP),
        "buckets": {"seconds": families.SECONDS, "short": families.SHORT},
    }


def provider_states(gateway: Gateway, totals: Totals) -> list[Json]:
    """Return the state of each provider of the configuration.

    It is `paused` while a breaker is open in a process, for a client or for all, `down` if its last requests failed
    because it was not there, `cooling` while keys of it pause in this process, `working` if it got any request, else
    `unused`. Requests that the gateway rejected are no requests to a provider.
    """
    routing = gateway.services.routing
    errors = _by_label(totals, families.UPSTREAM_ERRORS, 0)
    requests: Counter[str] = Counter()
    for (_, name, _, ended, _), value in totals.series(families.REQUESTS).items():
        if ended != "rejected":
            requests[name] += int(value[0])
    found: list[Json] = []
    for name, provider in gateway.config.providers.items():
        state = routing.of(provider)
        now = routing.clock()
        cooling = sum(until > now for until, _ in state.cooled.values())
        if totals.read(families.BREAKERS_OPEN, name)[0]:
            word = "paused"
        elif totals.read(families.PROVIDER_DOWN, name)[0]:
            word = "down"
        elif cooling:
            word = "cooling"
        else:
            word = "working" if name in requests else "unused"
        found.append(
            {
                "name": name,
                "dialect": provider.dialect.value,
                "state": word,
                "again": round(state.breaker.remaining(), 1) or None,
                "cooling": cooling,
                "requests": requests.get(name, 0),
                "errors": errors.get(name, 0),
                "queued": totals.read(families.QUEUED_REQUESTS, name)[0],
            }
        )
    return found


def own_keys(gateway: Gateway) -> Json:
    """Return tokens and cost by key, of the receipts that this worker keeps."""
    return {"keys": keys_of(gateway.receipts.newest(), gateway.services.instruments.usage.cost)}


def keys_of(receipts: Iterable[Receipt], cost_of: CostOf) -> list[Json]:
    """Return a row for each key of the receipts: requests, tokens, and cost where the models have prices."""
    rows: dict[str, dict[str, Any]] = {}
    for receipt in islice(receipts, SCAN_MAX):
        name = receipt.key.name if receipt.key is not None else receipt.principal.id if receipt.principal else ""
        row = rows.setdefault(name[:300], {"name": name[:300], "requests": 0, "input": 0, "output": 0, "cost": None})
        row["requests"] += 1
        facts = receipt.facts
        if facts is None or (usage := facts.usage) is None:
            continue
        row["input"] += usage.input_total or 0
        row["output"] += usage.output_total or 0
        cost = cost_of(usage, facts.upstream_model, receipt.provider, facts.service)
        if cost is not None:
            row["cost"] = str(Decimal(row["cost"] or 0) + cost)
    return list(rows.values())


def merged_keys(rows: Iterable[Json]) -> list[Json]:
    """Return the rows of several workers as one row for each key, the key with the most tokens first."""
    merged: dict[str, dict[str, Any]] = {}
    for row in rows:
        found = merged.get(row["name"])
        if found is None:
            merged[row["name"]] = dict(row)
            continue
        for part in ("requests", "input", "output"):
            found[part] += row[part]
        costs = [Decimal(each["cost"]) for each in (found, row) if each["cost"] is not None]
        found["cost"] = str(sum(costs, Decimal(0))) if costs else None
    return sorted(merged.values(), key=lambda row: row["input"] + row["output"], reverse=True)[:KEYS_MAX]


def _sum(totals: Totals, family: Family) -> float:
    return sum(value[0] for value in totals.series(family).values())


def _by_label(totals: Totals, family: Family, *places: int, name: str = "") -> dict[str, float]:
    """Return the sums by the labels at these places, of those that are not 0."""
    sums: defaultdict[str, float] = defaultdict(float)
    for labels, value in totals.series(family).items():
        words = [name] if name else []
        if value[0]:
            sums[" ".join((*words, *(labels[place] for place in places)))] += value[0]
    return dict(sums)


def _histogram(totals: Totals, family: Family) -> list[float]:
    """Return the sum of all values of a histogram: its buckets, the count above the last one, and the sum."""
    values = list(totals.series(family).values())
    return [sum(column) for column in zip(*values, strict=True)] if values else [0.0] * family.width
