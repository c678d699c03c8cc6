"""The shape of a third party's entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Fact(NamedTuple):
    """A flag's value and its source: a page of the vendor's, a public report, or a section such as `chat §12`."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Vendor:
    """One third party in one dialect: `facts` are the flags that differ from the built-in profile `base`.

    `source` is the page that states that the vendor serves the dialect. `judge` is the Python package of the vendor's
    SDK whose types a request must fit; without one, the flags are known from pages and reports only.
    """

    dialect: str
    name: str
    title: str
    source: str
    facts: Mapping[str, Fact] = field(default_factory=dict)
    base: str = "compatible"
    judge: str = ""

    def flags(self) -> dict[str, Any]:
        """The values alone, for `Profile.with_flags`."""
        return {flag: fact.value for flag, fact in self.facts.items()}
