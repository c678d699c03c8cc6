"""Timestamps of Chat and Responses replies."""

from __future__ import annotations

from typing import Any


def read_timestamp(value: Any) -> int | None:
    """A reply's time in whole seconds, or None for what is no time. Some servers give fractions."""
    if type(value) is not int and type(value) is not float:
        return None
    return int(value) if 0 <= value < 2**53 else None
