"""The table of directions: (client dialect, upstream dialect) → what carries a request there and its reply back.

Three readers and three writers make nine directions; three of them are passthrough. A direction is a visible,
selectable state machine: its stages are the upstream's reader and the client's writer around the canonical events.
"""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.dialects import Dialect
from dragoman.dialects.codec import CODECS, Codec


@dataclass(frozen=True, slots=True)
class Direction:
    """One row of the table."""

    client: Codec
    upstream: Codec

    @property
    def passthrough(self) -> bool:
        """Is it the same dialect on both sides."""
        return self.client.dialect is self.upstream.dialect

    def __str__(self) -> str:
        return f"{self.client.dialect}→{self.upstream.dialect}"


DIRECTIONS: dict[tuple[Dialect, Dialect], Direction] = {
    (client, upstream): Direction(CODECS[client], CODECS[upstream]) for client in CODECS for upstream in CODECS
}


def direction(client: Dialect | str, upstream: Dialect | str) -> Direction:
    """The direction from a client's dialect to an upstream's. Raises ValueError for a dialect that does not exist."""
    for dialect in (client, upstream):
        if dialect not in CODECS:
            raise ValueError(f"no dialect {str(dialect)!r}; there are {', '.join(CODECS)}")
    return DIRECTIONS[Dialect(client), Dialect(upstream)]
