"""The outcome of a scenario: figures, checks, and the load average of the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """A promise, in words, and whether it held; `found` has the numbers."""

    promise: str
    held: bool
    found: str


@dataclass(slots=True)
class Outcome:
    """The outcome of a scenario. `loads` are the machine's load averages over a minute before and after it."""

    scenario: str
    about: str
    figures: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    loads: list[float] = field(default_factory=lambda: [load_average()])

    def check(self, promise: str, held: bool, found: object) -> None:
        """Add a check."""
        self.checks.append(Check(promise, held, str(found)))

    @property
    def held(self) -> bool:
        """True if every check held."""
        return all(check.held for check in self.checks)

    def ended(self) -> Outcome:
        """Note the load average at the end. Returns itself."""
        self.loads.append(load_average())
        return self


def load_average() -> float:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 2)
