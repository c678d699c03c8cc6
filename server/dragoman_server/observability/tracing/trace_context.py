"""The headers `traceparent` and `tracestate` (W3C Trace Context), by which systems share a trace."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

PARENT, STATE = "traceparent", "tracestate"
_STATE_MAX = 512
"""Longest `tracestate` that is passed on: what the specification requires at least."""
_HEADER = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z")
_STATE = re.compile(r"[\x20-\x7e]*\Z")


class TraceContext(NamedTuple):
    """One span in its trace. The ids are lower-case hexadecimal digits, `state` is the vendors' own."""

    trace_id: str
    span_id: str
    sampled: bool
    state: str = ""

    def headers(self) -> dict[str, str]:
        """Return the headers for a request that is made in this span."""
        headers = {PARENT: f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"}
        if self.state:
            headers[STATE] = self.state
        return headers


def read_context(headers: Mapping[str, str]) -> TraceContext | None:
    """Return the context of a request, or None if it has none or one that is not valid."""
    given = headers.get(PARENT)
    if given is None or (found := _HEADER.match(given.strip())) is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    # Version 0 has four parts; later ones may have more. Ids of zeros only are not valid.
    if version == "ff" or (version == "00" and more) or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    state = headers.get(STATE, "")
    if len(state) > _STATE_MAX or not _STATE.match(state):
        state = ""
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & 1), state)


def new_trace_id() -> str:
    """Return a new id of a trace."""
    return os.urandom(16).hex()


def new_span_id() -> str:
    """Return a new id of a span."""
    return os.urandom(8).hex()
