"""The totals of recorded traffic by vendor, and the page that publishes them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from recorded.extract import Exchange, exchanges
from recorded.judge import Verdict, judge

PAGE = Path(__file__).parents[2] / "docs/reference/recorded-traffic.md"
_HEAD = """\
# Recorded traffic

<!-- Made by `python -m recorded --write` in `tests/`: do not edit. -->

Public projects keep recordings of what real servers answered. {exchanges} of them, of {vendors} vendors, are judged
here. The recordings themselves are not part of this repository.

- A **whole** reply or a **stream** goes to clients of all three dialects, a stream cut in three ways. The vendors' SDKs
  put it together. It must say what the recording says, once, and must be accepted as history in the next turn.
- An **error** must keep its message. A recorded **request** is translated for the other dialects, Gemini's too, and
  must satisfy the rules of their APIs.

*Refused* is what ended in an error with its reason: a recording that is cut, a request that cannot be translated (see
[mapping](mapping/README.md)), or a call of a tool that clients of the other dialect cannot declare. *Wrong* is
everything else that is not right. *Silent* counts the replies with keys, at any level, that their vendor's SDK does not
know and that are neither carried nor recorded as a [loss](losses.md).

"""
_TAIL = """
The projects: {projects}.

`DRAGOMAN_RECORDED` names checkouts, separated as in `PATH`; then `python -m recorded` in `tests/` judges them, prints
this table, and lists what is wrong. `pytest tests/recorded` does the same as a test.
"""


@dataclass(slots=True)
class Totals:
    """The exchanges that were judged. The counters' keys are vendors."""

    projects: list[str] = field(default_factory=list)
    exchanges: Counter[str] = field(default_factory=Counter)
    judged: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By vendor and kind of verdict."""
    refused: dict[str, list[tuple[Exchange, Verdict]]] = field(default_factory=lambda: defaultdict(list))
    wrong: dict[str, list[tuple[Exchange, Verdict]]] = field(default_factory=lambda: defaultdict(list))
    silent: dict[str, list[tuple[Exchange, Verdict]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, exchange: Exchange, verdicts: Iterable[Verdict]) -> None:
        """Count the verdicts on an exchange."""
        self.exchanges[exchange.vendor] += 1
        for verdict in verdicts:
            self.judged[exchange.vendor, verdict.kind] += 1
            for found, into in ((verdict.refused, self.refused), (verdict.wrong, self.wrong)):
                if found:
                    into[exchange.vendor].append((exchange, verdict))
            if verdict.silent:
                self.silent[exchange.vendor].append((exchange, verdict))

    def lines(self) -> list[str]:
        """A line for each verdict that is wrong or refused, and for each one with silent keys."""
        kinds = (("refused", self.refused), ("silent", self.silent), ("wrong", self.wrong))
        return [
            f"{name}: {verdict.kind} {verdict.client} over {verdict.upstream}, {vendor}, {exchange.source}: "
            f"{' '.join(verdict.silent) if name == 'silent' else verdict.wrong or verdict.refused}"
            for name, found in kinds
            for vendor, rows in found.items()
            for exchange, verdict in rows
        ]


def run(folders: list[Path], *, every: int = 1) -> Totals:
    """Judge every exchange of the checkouts, or each `every`th only."""
    totals = Totals()
    for folder in folders:
        totals.projects.append((folder.parent if folder.name in ("repo", ".git") else folder).name.replace("+", "/"))
        for number, exchange in enumerate(exchanges(folder)):
            if number % every == 0:
                totals.add(exchange, judge(exchange))
    return totals


def page(totals: Totals) -> str:
    """The page as Markdown."""
    kinds = ("whole", "stream", "error", "request")
    rows = [["vendor", "recordings", *(f"{kind} verdicts" for kind in kinds), "refused", "wrong", "silent"]]
    rows.append(["---"] * len(rows[0]))
    for vendor, count in sorted(totals.exchanges.items(), key=lambda item: (-item[1], item[0])):
        found = [len(found.get(vendor, ())) for found in (totals.refused, totals.wrong, totals.silent)]
        rows.append([vendor, str(count), *(str(totals.judged[vendor, kind]) for kind in kinds), *map(str, found)])
    sums = [sum(int(row[column]) for row in rows[2:]) for column in range(1, len(rows[0]))]
    rows.append(["**all**", *(f"**{total}**" for total in sums)])
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    head = _HEAD.format(exchanges=sum(totals.exchanges.values()), vendors=len(totals.exchanges))
    return head + table + _TAIL.format(projects=", ".join(sorted(totals.projects)))
