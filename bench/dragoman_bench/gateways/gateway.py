"""What the rig knows of a gateway: what it can do here, and how one is started for a direction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from dragoman_bench.wire import DIALECTS

Direction = tuple[str, str]
"""Client dialect, upstream dialect."""

ALL = frozenset((client, upstream) for client in DIALECTS for upstream in DIALECTS)
SAME = frozenset((dialect, dialect) for dialect in DIALECTS)
CROSS = ALL - SAME

Kind = Literal["none", "relay", "pass", "translate"]


def same_model(model: str) -> str:
    """The model name as it is, for gateways that ask for no spelling of their own."""
    return model


@dataclass(slots=True)
class Started:
    """A gateway that listens on `url` (no path). `pid` is the root of its process tree, 0 if there is none.

    `model` spells the rig's model name as this gateway wants it. `command` and `config` are what was run, for the
    results.
    """

    url: str
    pid: int
    stop: Callable[[], Awaitable[None]]
    headers: Mapping[str, str] = field(default_factory=dict)
    model: Callable[[str], str] = same_model
    command: str = ""
    config: str = ""


class Gateway(Protocol):
    """One way from client to upstream. `about` says in a line what it is and does; `note` what to know of its rows."""

    @property
    def name(self) -> str:
        """As on the command line and in results."""
        ...

    @property
    def kind(self) -> Kind:
        """Whether it passes bytes on, requests on, or translates."""
        ...

    @property
    def directions(self) -> frozenset[Direction]:
        """Those it can be started for."""
        ...

    @property
    def about(self) -> str:
        """One line."""
        ...

    @property
    def note(self) -> str:
        """What a reader of its figures has to know; mostly empty."""
        ...

    @property
    def without(self) -> Mapping[str, str]:
        """Scenarios it is not measured in, and why not."""
        ...

    def missing(self) -> str | None:
        """Why it cannot run here and what to do about it; None if it can."""
        ...

    def version(self) -> str:
        """Of the software measured; empty if that is the rig's own."""
        ...

    async def start(self, upstream_url: str, direction: Direction, core: int | None) -> Started:
        """Start it for one direction, pinned to `core` if one is given. Raises StartError with the end of its log."""
        ...


def ridden(gateway: Gateway, direction: Direction) -> Direction | None:
    """The direction a gateway is measured in for `direction`: that one, else its upstream's own dialect; or None.

    What cannot translate is held against the same upstream stream, passed on as it is.
    """
    if direction in gateway.directions:
        return direction
    same = (direction[1], direction[1])
    return same if gateway.kind != "translate" and same in gateway.directions else None
