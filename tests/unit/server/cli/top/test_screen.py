"""The screen of `dragoman top`."""

from __future__ import annotations

import io
from typing import Any

import pytest

pytest.importorskip("rich", reason="the extra top is not installed")

from rich.console import Console

from dragoman_server.cli.text_table import text_width
from dragoman_server.cli.top.rates import HostRates
from dragoman_server.cli.top.screen import screen

LONG = "日本-" + "n" * 150


def host(name: str, requests: int = 0, **changes: Any) -> dict[str, Any]:
    counts = {"requests": requests, "tokens": 10 * requests, "errors": 0}
    facts = {"state": "up", "differs": [], "started": 1, "workers": 2, "open_requests": 3, "open_streams": 1}
    return {"host": name, **facts, **counts, **changes}


def status(*hosts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    providers = [{"name": "up", "state": "down", "requests": 12345, "errors": 2, "queued": 0.0}]
    sums = {"open_requests": 3, "open_streams": 1, "problem": None, "console": True}
    return {"hosts": list(hosts), "providers": providers, **sums, **changes}


def row(**changes: Any) -> dict[str, Any]:
    names = {"model": "m", "provider": "up", "key": "alice", "host": "gw-1"}
    return {**names, "seconds": 1.25, "first": 0.5, "characters": 12345, **changes}


def drawn(status: dict[str, Any], rates: HostRates, rows: list[dict[str, Any]] | None, problem: str = "") -> str:
    out = io.StringIO()
    Console(file=out, width=80, highlight=False).print(screen(status, rates, rows, problem))
    return out.getvalue()


def test_a_screen() -> None:
    rates = HostRates()
    rates.add(0.0, status(host("gw-1"), host("gw-2")))
    now = status(host("gw-1", 40), host("gw-2", 2, state="leaving", differs=["version"]))
    rates.add(2.0, now)
    lines = [
        line.split() for line in drawn(now, rates, [row(), row(first=None, characters=None, key=None)]).splitlines()
    ]
    assert lines == [
        ["hosts", "2", "open", "3", "streams", "1", "requests/s", "21.0", "tokens/s", "210", "errors/s", "0.0"],
        ["host", "state", "differs", "workers", "open", "streams", "req/s", "tok/s"],
        ["gw-1", "up", "2", "3", "1", "20.0", "200"],
        ["gw-2", "leaving", "version", "2", "3", "1", "1.0", "10.0"],
        ["provider", "state", "requests", "errors", "queued"],
        ["up", "down", "12.3k", "2", "0"],
        ["model", "provider", "key", "at", "host", "seconds", "first", "characters"],
        ["m", "up", "alice", "gw-1", "1.2", "0.5", "12.3k"],
        ["m", "up", "gw-1", "1.2"],
    ]


def test_long_names_fit_and_are_no_markup() -> None:
    shown = status(host(LONG), problem="the other hosts are not known: " + "x" * 100)
    shown["providers"][0]["name"] = LONG
    text = drawn(shown, HostRates(), [row(model=LONG, provider=LONG, key="[red]\x1b[2J", host=LONG)], "it is away")
    assert max(map(text_width, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "[red]" in text
    assert "it is away" in text


def test_without_a_console_the_setting_is_named() -> None:
    assert "server.ui = true" in drawn(status(host("gw-1"), console=False), HostRates(), None)
    assert "characters" not in drawn(status(host("gw-1")), HostRates(), None)
