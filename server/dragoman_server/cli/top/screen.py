"""The screen of `dragoman top`, made with rich: the sums, the hosts, the providers, and the open requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dragoman.gateway import quote
from dragoman.wire import Json
from dragoman_server.cli.text_table import short_number
from dragoman_server.cli.top.rates import HostRates, Rates

_COLOURS: Final = {
    "up": "green",
    "working": "green",
    "leaving": "yellow",
    "cooling": "yellow",
    "lost": "red",
    "paused": "red",
    "down": "red",
}
_RATIOS: Final = {"host": 3, "model": 3, "provider": 2, "key": 2, "at host": 2}
"""Shares of the width of columns with names."""


def screen(status: Json, rates: HostRates, rows: list[Json] | None, problem: str = "") -> RenderableType:
    """Return the screen. `rows` are the open requests, None if they are not known.

    `problem` is the reason for which the numbers are old.
    """
    total = Rates()
    for host in status["hosts"]:
        total = total.plus(rates.of(host))
    head = (
        f"hosts {len(status['hosts'])}  open {status['open_requests']:,}  streams {status['open_streams']:,}"
        f"  requests/s {_rate(total.requests)}  tokens/s {_rate(total.tokens)}  errors/s {_rate(total.errors)}"
    )
    parts: list[RenderableType] = [Text(head, style="bold", no_wrap=True, overflow="ellipsis")]
    parts += [Text(quote(text, 300), style="red") for text in (problem, status["problem"]) if text]
    parts += [_hosts(status["hosts"], rates), _providers(status["providers"])]
    if not status["console"]:
        parts.append(Text("Open requests are shown only with server.ui = true at the gateway."))
    elif rows is not None:
        parts.append(_requests(rows))
    return Group(*parts)


def _table(*columns: str, numbers: Iterable[str]) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, header_style="dim", show_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=_RATIOS.get(name))
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _state(word: str) -> Text:
    return Text(word, style=_COLOURS.get(word, ""))


def _name(text: str | None) -> Text:
    return Text(quote(text or "", 100))


def _hosts(hosts: Iterable[Json], rates: HostRates) -> Table:
    table = _table("host", "state", "differs", numbers=("workers", "open", "streams", "req/s", "tok/s"))
    for host in hosts:
        own = rates.of(host)
        table.add_row(
            _name(host["host"]),
            _state(host["state"]),
            Text(",".join(host["differs"]), style="yellow"),
            str(host["workers"]),
            short_number(host["open_requests"]),
            short_number(host["open_streams"]),
            _rate(own.requests),
            _rate(own.tokens),
        )
    return table


def _providers(providers: Iterable[Json]) -> Table:
    table = _table("provider", "state", numbers=("requests", "errors", "queued"))
    for provider in providers:
        numbers = (short_number(int(provider[name])) for name in ("requests", "errors", "queued"))
        table.add_row(_name(provider["name"]), _state(provider["state"]), *numbers)
    return table


def _requests(rows: Iterable[Json]) -> Table:
    table = _table("model", "provider", "key", "at host", numbers=("seconds", "first", "characters"))
    for row in rows:
        first = "" if row["first"] is None else f"{row['first']:.1f}"
        characters = "" if row["characters"] is None else short_number(row["characters"])
        seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
        names = (_name(row[name]) for name in ("model", "provider", "key"))
        table.add_row(*names, _name(row.get("host")), seconds, first, characters)
    return table


def _rate(value: float) -> str:
    return f"{value:.1f}" if value < 100 else short_number(round(value))
