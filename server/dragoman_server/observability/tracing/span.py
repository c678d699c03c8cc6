"""One span as it is recorded, without any part of a request or reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dragoman_server.observability.tracing.trace_context import TraceContext

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Span:
    """A span that has ended. Times are in Unix nanoseconds.

    `server` is True for the exchange and False for a request to an upstream. `remote` is True if the parent is the
    client's.
    """

    name: str
    context: TraceContext
    parent: str | None
    remote: bool
    server: bool
    start: int
    end: int
    attributes: Mapping[str, Value]
    failed: bool


class SpanSink(Protocol):
    """Takes spans, and sends them somewhere."""

    def put(self, span: Span) -> None:
        """Take one span. Must not block."""
        ...
