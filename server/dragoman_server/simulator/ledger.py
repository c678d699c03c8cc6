"""The simulator's own ledger: what each reply generated, and which counts of it were sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dragoman_server.simulator.booking import SEARCHES, TIER, Booking
from dragoman_server.simulator.renderers import RENDERERS
from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.steps import Scenario
from dragoman_server.simulator.tokens import TokenCounts


@dataclass(slots=True)
class Entry:
    """One reply. `generated` are all its tokens, `others` the parts of them that other models used.

    `reported` has the names of the counts that were sent. `tier`, in OpenAI's words, and `searches` have no value until
    they were.
    """

    model: str
    dialect: str
    generated: TokenCounts
    others: tuple[tuple[str, TokenCounts], ...]
    reported: frozenset[str] = frozenset()
    tier: str | None = None
    searches: int | None = None
    _tier: str = ""
    _searches: int = 0

    @classmethod
    def of(cls, dialect: str, scenario: Scenario, reply: SimulatedReply) -> Entry:
        """Return the entry of a reply of which nothing was sent yet."""
        booked: Booking = RENDERERS[dialect].book(scenario, reply)
        entry = cls(reply.model, dialect, booked.generated, booked.others)
        entry._tier, entry._searches = booked.tier, scenario.searches
        return entry

    def sent(self, data: bytes) -> None:
        """Record what a frame of the stream, or a whole reply, reports."""
        found: frozenset[str] = RENDERERS[self.dialect].reported(data)
        self.reported |= found - {TIER, SEARCHES}
        if TIER in found:
            self.tier = self._tier
        if SEARCHES in found:
            self.searches = self._searches


@dataclass(slots=True)
class Ledger:
    """The replies of a simulator, in the order of their requests."""

    entries: list[Entry] = field(default_factory=list)

    def begin(self, dialect: str, scenario: Scenario, reply: SimulatedReply) -> Entry:
        """Enter a reply that is about to be sent."""
        entry = Entry.of(dialect, scenario, reply)
        self.entries.append(entry)
        return entry

    def replies(self) -> dict[str, list[Entry]]:
        """Return the replies of each requested model."""
        found: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            found[entry.model].append(entry)
        return dict(found)

    def by_model(self) -> dict[str, Entry]:
        """Return the last reply of each requested model, with what all replies of the model generated."""
        return {model: joined(replies) for model, replies in self.replies().items()}

    def sums(self) -> dict[tuple[str, str | None], TokenCounts]:
        """Return the generated tokens by the model that used them and the tier."""
        found: defaultdict[tuple[str, str | None], TokenCounts] = defaultdict(TokenCounts)
        for entry in self.entries:
            own = entry.generated
            for model, counts in entry.others:
                found[model, entry.tier] += counts
                own -= counts
            found[entry.model, entry.tier] += own
        return dict(found)


def joined(replies: Sequence[Entry]) -> Entry:
    """Return the last of these replies, with what all of them generated."""
    *before, last = replies
    return replace(last, generated=sum((each.generated for each in before), TokenCounts()) + last.generated)
