"""The table `[server.resume]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

_LEAST = {"bytes": 1024, "total_bytes": 256 * 1024, "streams": 1, "streams_per_client": 1}


def _option(default: Any, doc: str) -> Any:
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class ResumeOptions:
    """Streams that clients may resume after their connection broke (`proxy.resumable`)."""

    seconds: float = _option(0.0, "seconds for which such a stream goes on without its client; 0 = none can be resumed")
    kept: float = _option(60.0, "seconds after its end for which a stream can be resumed")
    bytes: int = _option(2 * 1024 * 1024, "bytes of its newest events that are kept, in memory")
    total_bytes: int = _option(
        256 * 1024 * 1024,
        "the same for all streams together, of which one client (its key) may have a fourth. Above it, the stream that "
        "ended first is dropped, then the oldest events of those that run, and new ones are streamed as usual",
    )
    streams: int = _option(256, "streams that can be resumed at once, open and ended; others are streamed as usual")
    streams_per_client: int = _option(32, "the same for one client (its key)")

    def problems(self, workers: int) -> Iterator[tuple[str, str]]:
        """Yield the problems as (path, message), for a gateway of so many processes."""
        for name in ("seconds", "kept"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                yield f"server.resume.{name}", f"expected 0 seconds or more; got {value:g}"
        for name, least in _LEAST.items():
            if (number := getattr(self, name)) < least:
                yield f"server.resume.{name}", f"expected {least} or more; got {number}"
        if self.seconds and workers != 1:
            yield (
                "server.resume.seconds",
                "needs workers = 1: a stream is kept in the process that began it, which several do not share",
            )
