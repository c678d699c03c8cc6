"""Headers of replies: those of event streams, and the one with the losses."""

from __future__ import annotations

from collections.abc import MutableMapping

from multidict import istr

from dragoman import Losses
from dragoman.aio import EventStream

LOSS_HEADER = "x-dragoman-loss"
# The response's multidict would convert plain strings into this type for each response.
_CONTENT_TYPE, _CACHE_CONTROL, _ACCEL = istr("Content-Type"), istr("Cache-Control"), istr("X-Accel-Buffering")


def add_loss_header(headers: MutableMapping[str, str], losses: Losses | None) -> None:
    """Add the codes and counts of the losses so far."""
    if losses:
        headers[LOSS_HEADER] = losses.header()


def add_event_stream(headers: MutableMapping[str, str]) -> None:
    """Add the headers of an event stream that no proxy must hold back."""
    headers[_CONTENT_TYPE] = "text/event-stream; charset=utf-8"
    headers[_CACHE_CONTROL] = "no-cache"
    headers[_ACCEL] = "no"  # nginx would otherwise buffer the stream


def event_stream(headers: dict[str, str]) -> EventStream:
    """Return a response that is an event stream. Its headers are added to `headers`."""
    add_event_stream(headers)
    return EventStream(headers=headers)
