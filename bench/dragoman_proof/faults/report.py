"""The totals of the matrix, and their table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Totals:
    """The cases by fault, and each violation with its case."""

    by_kind: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    """Of each fault, the replies that ended with an error, before or within the stream."""
    violations: list[str] = field(default_factory=list)

    @property
    def cases(self) -> int:
        """The number of all cases."""
        return self.by_kind.total()


def table(totals: Totals) -> str:
    """Return the totals as a table of Markdown."""
    rows = ["| fault | cases | ended with an error |", "| --- | ---: | ---: |"]
    rows += [f"| {kind} | {count:,} | {totals.failed[kind]:,} |" for kind, count in sorted(totals.by_kind.items())]
    rows.append(f"| all | {totals.cases:,} | {totals.failed.total():,} |")
    return "\n".join((*rows, "", f"violations: {len(totals.violations)}"))
