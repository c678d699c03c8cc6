"""Hosts, added up from the states of their processes."""

from __future__ import annotations

from typing import Any

from dragoman_server.endpoints.hosts.host_rows import host_rows, providers_of
from dragoman_server.proxy.hosts.interface import LEASE


def provider(name: str, state: str, requests: int = 1) -> dict[str, Any]:
    return {"name": name, "state": state, "requests": requests, "errors": 0, "queued": 0}


def state(host: str, gateway: str = "", **changes: Any) -> dict[str, Any]:
    return {
        "host": host,
        "gateway": gateway or f"gw-{host}",
        "version": "1.0.0",
        "revision": "abc",
        "configuration": "c1",
        "started": 100,
        "leaving": False,
        "open_requests": 1,
        "open_streams": 1,
        "requests": 10,
        "errors": 0,
        "tokens": 5,
        "reasons": [],
        "warnings": [],
        "stores": {"limits": {"kind": "redis", "state": "ok"}},
        "providers": [provider("up", "working")],
        **changes,
    }


def test_the_workers_of_a_host_are_one_row() -> None:
    broken = {"limits": {"kind": "redis", "state": "unavailable"}}
    (row,) = host_rows(
        [
            (0.0, state("a")),
            (3.0, state("a", started=50, warnings=["x"], stores=broken, providers=[provider("up", "down", 2)])),
            (LEASE + 1, state("a", open_requests=7)),
        ]
    )
    assert (row["state"], row["workers"], row["lost_workers"], row["seen"]) == ("up", 2, 1, 0.0)
    assert (row["open_requests"], row["requests"], row["started"]) == (2, 20, 50)
    assert (row["warnings"], row["stores"]) == (["x"], broken)
    assert row["providers"] == [provider("up", "down", 3)]


def test_two_gateways_with_one_name_are_two_rows() -> None:
    assert len(host_rows([(0.0, state("a", "one")), (0.0, state("a", "two"))])) == 2


def test_a_host_that_differs_from_most_is_marked() -> None:
    rows = host_rows([(0.0, state("a")), (0.0, state("b")), (0.0, state("c", configuration="c2", version="0.9"))])
    assert [row["differs"] for row in rows] == [[], [], ["version", "configuration"]]


def test_of_two_hosts_that_differ_both_are_marked() -> None:
    rows = host_rows([(0.0, state("a")), (0.0, state("b", configuration="c2"))])
    assert [row["differs"] for row in rows] == [["configuration"], ["configuration"]]


def test_a_lost_host_is_shown_and_not_compared() -> None:
    rows = host_rows([(0.0, state("a")), (LEASE + 5, state("b", configuration="c2"))])
    assert [(row["state"], row["differs"], row["workers"]) for row in rows] == [("up", [], 1), ("lost", [], 0)]
    assert rows[1]["open_requests"] == 0


def test_a_reload_shows_the_newest_configuration() -> None:
    (row,) = host_rows([(0.0, state("a", started=100)), (0.0, state("a", started=200, configuration="c2"))])
    assert row["configuration"] == "c2"
    (row,) = host_rows([(0.0, state("a", leaving=True))])
    assert row["state"] == "leaving"


def test_providers_of_several_hosts() -> None:
    states = [
        {"providers": [provider("up", "unused"), provider("b", "paused")]},
        {"providers": [provider("up", "down")]},
    ]
    assert [(each["name"], each["state"]) for each in providers_of(states)] == [("up", "down"), ("b", "paused")]
