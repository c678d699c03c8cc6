"""The hosts of a gateway, added up from the states of their processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from dragoman.wire import Json
from dragoman_server.proxy.hosts.interface import LEASE

COMPARED: Final = ("version", "revision", "configuration")
"""Facts that all hosts should have in common."""
_ADDED: Final = ("open_requests", "open_streams", "requests", "errors", "tokens")
_UNHEALTHY: Final = ("paused", "down", "cooling", "working", "unused")
"""The states of providers, the worst first."""
UP, LEAVING, LOST = "up", "leaving", "lost"


def host_rows(states: Iterable[tuple[float, Json]]) -> list[Json]:
    """Return a row for each host, by name, of the states of processes and the seconds since each was written.

    A process that has not written for a lease is lost. A host differs in a fact unless more than half of the hosts that
    are up have it too.
    """
    gateways: dict[tuple[str, str], list[tuple[float, Json]]] = {}
    for age, state in states:
        gateways.setdefault((state["host"], state["gateway"]), []).append((age, state))
    rows = [_row(processes) for processes in gateways.values()]
    rows.sort(key=lambda row: (row["host"], row["started"]))
    up = [row for row in rows if row["state"] != LOST]
    for name in COMPARED:
        counts = Counter(row[name] for row in up)
        for row in up:
            if 2 * counts[row[name]] <= len(up):
                row["differs"].append(name)
    return rows


def _row(processes: Sequence[tuple[float, Json]]) -> Json:
    live = [state for age, state in processes if age <= LEASE]
    shown = live or [state for _, state in processes]
    newest = max(shown, key=lambda state: state["started"])  # during a reload, some have the configuration before
    leaving = all(state["leaving"] for state in shown)
    row: dict[str, Any] = {
        "host": newest["host"],
        "state": LOST if not live else LEAVING if leaving else UP,
        "seen": round(min(age for age, _ in processes), 1),
        **{name: newest[name] for name in COMPARED},
        "differs": [],
        "started": min(state["started"] for state in shown),
        "workers": len(live),
        "lost_workers": len(processes) - len(live),
        **{name: sum(state[name] for state in live) for name in _ADDED},
        "reasons": _union(live, "reasons"),
        "warnings": _union(live, "warnings"),
        "stores": _stores(live),
        "providers": providers_of(live),
    }
    return row


def _union(states: Iterable[Json], name: str) -> list[str]:
    return sorted({word for state in states for word in state[name]})


def _stores(states: Iterable[Json]) -> Json:
    """Return the stores; one that fails for any process fails."""
    found: dict[str, Json] = {}
    for state in states:
        for name, store in state["stores"].items():
            if name not in found or store["state"] != "ok":
                found[name] = store
    return found


def providers_of(states: Iterable[Json]) -> list[Json]:
    """Return the providers of several states, each in the worst state that it has anywhere, with sums of its counts."""
    found: dict[str, dict[str, Any]] = {}
    for state in states:
        for provider in state["providers"]:
            known = found.get(provider["name"])
            if known is None:
                found[provider["name"]] = dict(provider)
                continue
            known["state"] = min(known["state"], provider["state"], key=_UNHEALTHY.index)
            for name in ("requests", "errors", "queued"):
                known[name] += provider[name]
    return list(found.values())
