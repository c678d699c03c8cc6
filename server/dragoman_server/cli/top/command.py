"""`dragoman top`: asks a running gateway once per second, and draws what it returns."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.wire import Json, json_loads
from dragoman_server.cli.running_gateway import KEY_VARIABLE, RunningGateway, add_gateway, fetch, gateway_of
from dragoman_server.cli.top.rates import HostRates

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

INTERVAL = 1.0
"""Seconds between two screens, by default."""
CONSOLE = "/ui/api/"
"""The path of the console's data."""
_OTHER_LINES = 12
"""Lines of the screen that no request uses, besides those of hosts and providers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_gateway(parser)
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=INTERVAL,
        metavar="SECONDS",
        help=f"time between two screens (default {INTERVAL:g})",
    )
    parser.add_argument("--once", action="store_true", help="print one screen and exit")
    parser.description = (
        f"Watch all hosts of a gateway; Ctrl-C ends it. It needs an admin's key: {KEY_VARIABLE}, else server.keys."
    )
    parser.set_defaults(run=watch)


def _seconds(text: str) -> float:
    """Return a number of seconds. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"expected a number from 0.1 to 3600; got {text!r}")
    return seconds


def watch(args: argparse.Namespace) -> int:
    """Draw until it is interrupted. Return 1 without the package rich.

    Raises CommandError, and ConnectionError if the gateway does not answer at the beginning.
    """
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        print("top needs the package rich: install Dragoman with the extra top", file=sys.stderr)
        return 1
    console = Console(highlight=False)
    view = TopView(gateway_of(args), console)
    first = view.next(strict=True)
    if args.once or not console.is_terminal:
        console.print(first)
        return 0
    with Live(first, console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(args.interval)
            live.update(view.next(), refresh=True)


class TopView:
    """The screens of one gateway. `clock` returns seconds."""

    def __init__(self, gateway: RunningGateway, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._console = console
        self._clock = clock
        self._rates = HostRates()
        self._status: Json = {}
        self._rows: list[Json] | None = None

    def next(self, *, strict: bool = False) -> RenderableType:
        """Return the next screen. With `strict`, ConnectionError is raised; else it is shown above the last numbers."""
        from dragoman_server.cli.top.screen import screen

        problem = ""
        try:
            self._status = json_loads(fetch(self._gateway, "status", {}))
            self._rates.add(self._clock(), self._status)
            self._rows = self._open_requests() if self._status["console"] else None
        except ConnectionError as error:
            if strict:
                raise
            problem = str(error)
        return screen(self._status, self._rates, self._rows, problem)

    def _open_requests(self) -> list[Json]:
        """Return as many open requests as the screen has room for."""
        room = self._console.height - _OTHER_LINES - len(self._status["hosts"]) - len(self._status["providers"])
        query = {"state": "open", "rows": str(max(5, min(200, room)))}
        rows: list[Json] = json_loads(fetch(self._gateway, "exchanges", query, below=CONSOLE))["rows"]
        return rows
