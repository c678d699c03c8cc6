"""The directions: each pair of a client's dialect and an upstream's.

A reader and a writer make a direction: three of each make nine. If both dialects are the same, it is a passthrough. A
request is read by the client's codec and written by the upstream's; a reply is read by the upstream's codec and written
by the client's. In between are the canonical types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.lazy_mapping import LazyMapping
from dragoman.short_repr import short_repr

if TYPE_CHECKING:
    from dragoman.dialects.codec import Codec


@dataclass(frozen=True, slots=True)
class Direction:
    """A client's dialect and an upstream's. `str()` of it is, for example, `messages→chat`."""

    client: Codec
    """The codec of the client's dialect."""
    upstream: Codec
    """The codec of the upstream's dialect."""
    passthrough: bool = field(init=False)
    """True if both dialects are the same."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "passthrough", self.client.dialect is self.upstream.dialect)

    def __str__(self) -> str:
        return self.client.dialect + "→" + self.upstream.dialect

    def __repr__(self) -> str:
        return short_repr(self, self)


def _make(dialects: tuple[Dialect, Dialect]) -> Direction:
    client, upstream = dialects
    return Direction(CODECS[client], CODECS[upstream])


DIRECTIONS: Final[Mapping[tuple[Dialect, Dialect], Direction]] = LazyMapping(
    ((client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect), _make
)
"""Every direction, by client and upstream dialect. It is made, and their packages are imported, at its first use."""


def direction(client: Dialect | str, upstream: Dialect | str) -> Direction:
    """Return the direction from a client's dialect to an upstream's, each a `Dialect` or its value.

    Raises ValueError for an unknown dialect.
    """
    for dialect, known in ((client, CLIENT_DIALECTS), (upstream, tuple(Dialect))):
        if dialect not in known:
            raise ValueError(f"no dialect {str(dialect)!r}; there are {', '.join(known)}")
    return DIRECTIONS[Dialect(client), Dialect(upstream)]
