"""The table `[server.resume]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman_server.config.setting import Range, checked, setting_problems

_SECONDS = Range(unit="seconds")


@dataclass(frozen=True)
class ResumeOptions:
    """Streams that clients may resume after their connection broke (`proxy.resumable`)."""

    seconds: float = checked(0.0, _SECONDS)
    """Seconds for which such a stream goes on without its client; 0 = none can be resumed."""
    kept: float = checked(60.0, _SECONDS)
    """Seconds after its end for which a stream can be resumed."""
    bytes: int = checked(2 * 1024 * 1024, Range(1024))
    """Bytes of its newest events that are kept, in memory and in a store that processes share."""
    total_bytes: int = checked(256 * 1024 * 1024, Range(256 * 1024))
    """Bytes of all streams together, of which one client (its key) may have a fourth. Above it, the stream that
    ended first is dropped, then the oldest events of those that run, and new ones are streamed as usual."""
    streams: int = checked(256, Range(1))
    """Streams that can be resumed at once, open and ended; others are streamed as usual."""
    streams_per_client: int = checked(32, Range(1))
    """Streams of one client (its key) that can be resumed at once."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the problems as (path, message)."""
        yield from setting_problems("server.resume", self)
