"""`dragoman status`: the hosts of a running gateway, their stores and providers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from dragoman.gateway import quote
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.cli.running_gateway import KEY_VARIABLE, add_gateway, fetch, gateway_of
from dragoman_server.cli.text_table import blocks, line_width, short_number, table, wrapped

HOSTS = ("host", "state", "version", "configuration", "workers", "open", "streams", "requests")
PROVIDERS = ("provider", "state", "requests", "errors", "queued")
MARK = "*"
"""Follows the name of a host with notes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_gateway(parser)
    parser.add_argument("--json", action="store_true", help="print JSON on one line")
    parser.description = f"Print the status of all hosts. It needs an admin's key: {KEY_VARIABLE}, else server.keys."
    parser.set_defaults(run=show)


def show(args: argparse.Namespace) -> int:
    """Print the status. Raises CommandError, and ConnectionError if the gateway does not return it."""
    status = json_loads(fetch(gateway_of(args), "status", {}))
    if args.json:
        sys.stdout.write(json_dumps(status).decode() + "\n")
    else:
        print("\n".join(status_lines(status, line_width())))
    return 0


def status_lines(status: Json, width: int) -> list[str]:
    """Return the status as lines that are at most `width` wide."""
    hosts, notes = status["hosts"], [*_notes(status)]
    marked = {host["host"] for host in hosts if [*_notes_of(host)]}
    rows = [
        (
            quote(host["host"]) + f" {MARK}" * (host["host"] in marked),
            host["state"],
            quote(host["version"]),
            quote(host["configuration"]),
            str(host["workers"]),
            *(short_number(host[name]) for name in ("open_requests", "open_streams", "requests")),
        )
        for host in hosts
    ]
    lines = _fitted(HOSTS, rows, 4, width)
    lines += [line for note in notes for line in wrapped(f"{MARK} {note}", width)]
    if status["providers"]:
        numbers = ("requests", "errors", "queued")
        found = [
            (quote(each["name"]), each["state"], *(short_number(int(each[name])) for name in numbers))
            for each in status["providers"]
        ]
        lines += ["", *_fitted(PROVIDERS, found, 2, width)]
    stores = _stores(hosts)
    if stores:
        lines += ["", *wrapped(f"stores: {', '.join(stores)}", width)]
    return lines


def _fitted(titles: Sequence[str], rows: Sequence[Sequence[str]], texts: int, width: int) -> list[str]:
    lines = table(titles, rows, texts, width)
    return blocks(titles, rows, width) if lines is None else lines


def _notes(status: Json) -> Iterator[str]:
    if status["problem"]:
        yield quote(status["problem"], 300)
    for host in status["hosts"]:
        yield from (f"{quote(host['host'])} {note}" for note in _notes_of(host))


def _notes_of(host: Json) -> Iterator[str]:
    """Yield the notes on a host."""
    if host["state"] == "lost":
        yield f"is lost: it was seen {host['seen']:.0f} s ago"
        return
    if host["differs"]:
        facts = ", ".join(f"{name} {quote(str(host[name]))}" for name in host["differs"])
        yield f"differs from the other hosts: {facts}"
    if host["lost_workers"]:
        yield f"has lost workers: {host['lost_workers']}"
    if words := [*host["reasons"], *host["warnings"]]:
        yield f"reports {', '.join(map(quote, words))}"


def _stores(hosts: Sequence[Json]) -> list[str]:
    """Return each store with its state, which is the worst of all hosts."""
    found: dict[str, Json] = {}
    for host in hosts:
        for name, store in host["stores"].items():
            if name not in found or store["state"] != "ok":
                found[name] = store
    return [f"{name} {quote(store['kind'])} {store['state']}" for name, store in found.items()]
