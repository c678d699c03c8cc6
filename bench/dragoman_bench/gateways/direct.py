"""No gateway: the delays of the load client and the upstream alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman_bench.gateways.gateway import SAME, Direction, Kind, Started


@dataclass(frozen=True, slots=True)
class Direct:
    """Connects the client to the upstream."""

    name: str = "direct"
    kind: Kind = "none"
    directions: frozenset[Direction] = SAME
    about: str = "no gateway: the client talks to the upstream"
    note: str = ""
    without: Mapping[str, str] = field(default_factory=dict)

    def missing(self) -> str | None:
        """Return None: it can always run."""
        return None

    def version(self) -> str:
        """Return an empty string: it is part of the rig."""
        return ""

    async def start(self, upstream_url: str, direction: Direction, core: int | None) -> Started:
        """Return the upstream's address."""
        return Started(upstream_url, 0, _nothing)


async def _nothing() -> None:
    return
