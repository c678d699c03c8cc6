"""A clock for what is given one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds that pass when they are reported to."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now
