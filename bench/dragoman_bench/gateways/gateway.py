"""Interface of a gateway: its properties, and its start for a direction."""

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
    """Return the model name unchanged, for gateways that need no prefix."""
    return model


@dataclass(slots=True)
class Started:
    """A gateway that listens on `url` (no path). `pid` is the root of its process tree, or 0.

    `model` converts a model name of the rig to the form that this gateway expects. `command` and `config` were used to
    start it, for the results.
    """

    url: str
    pid: int
    stop: Callable[[], Awaitable[None]]
    headers: Mapping[str, str] = field(default_factory=dict)
    model: Callable[[str], str] = same_model
    command: str = ""
    config: str = ""


class Gateway(Protocol):
    """A gateway between client and upstream. `about` describes it in a line; `note` is a remark on its figures."""

    @property
    def name(self) -> str:
        """Its name on the command line and in results."""
        ...

    @property
    def kind(self) -> Kind:
        """Its kind: it relays bytes, passes requests on, or translates."""
        ...

    @property
    def directions(self) -> frozenset[Direction]:
        """The directions that it can be started for."""
        ...

    @property
    def about(self) -> str:
        """A description in one line."""
        ...

    @property
    def note(self) -> str:
        """A remark on its figures, or an empty string."""
        ...

    @property
    def without(self) -> Mapping[str, str]:
        """Scenarios in which it is not measured → reason."""
        ...

    def missing(self) -> str | None:
        """Return a reason with advice if it cannot run here, else None."""
        ...

    def version(self) -> str:
        """Return the version of the software, or an empty string for the rig's own."""
        ...

    async def start(self, upstream_url: str, direction: Direction, core: int | None) -> Started:
        """Start it for one direction, pinned to `core` if one is given. Raises StartError with the end of its log."""
        ...


def measured_direction(gateway: Gateway, direction: Direction) -> Direction | None:
    """Return the direction in which a gateway is measured for `direction`, or None if it cannot serve it.

    A gateway that does not translate is measured with a client of the upstream's dialect.
    """
    if direction in gateway.directions:
        return direction
    same = (direction[1], direction[1])
    return same if gateway.kind != "translate" and same in gateway.directions else None
