"""Results of `bench/micro/requests.py`: rows, a table, and a folder with both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dragoman_bench.machine import Machine
from dragoman_bench.results import fresh_folder
from dragoman_bench.tables import Table, number, times

SCHEMA = 2
"""Version of results.json."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer's conversion of a body: microseconds, or None if it failed; `note` has the reason or the losses."""

    us: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A body in a direction, in microseconds of CPU.

    `parse_us` is one `orjson.loads` of it, `translate_us` the translation from bytes to bytes, `given_us` that from a
    parsed body to bytes, and `dump_us` one `orjson.dumps` of the result, with texts that were not encoded before.
    """

    client: str
    upstream: str
    kind: str
    messages: int
    bytes: int
    parse_us: float
    dump_us: float
    translate_us: float
    given_us: float
    peers: Mapping[str, Peer] = field(default_factory=dict)

    @property
    def direction(self) -> str:
        """The direction, for display."""
        return f"{self.client}→{self.upstream}"

    @property
    def conversion_us(self) -> float | None:
        """Microseconds from a parsed body to a body to send, as peers publish it; None for passthrough."""
        return None if self.client == self.upstream else self.given_us - self.dump_us

    def ratio(self, peer: str) -> float | None:
        """Return our time as a multiple of the peer's."""
        theirs = self.peers[peer].us if peer in self.peers else None
        return self.conversion_us / theirs if theirs and self.conversion_us is not None else None

    def notes(self) -> Iterator[str]:
        """Notes on the peers' figures."""
        for name, peer in self.peers.items():
            if peer.note:
                yield f"{self.direction}, {self.kind}, {self.messages} messages: {name}: {peer.note}"


@dataclass(frozen=True, slots=True)
class Conversions:
    """A run: minimum times of `rounds` rounds. `peers` maps the timed peers to their versions."""

    made: str
    command: str
    rounds: int
    machine: Machine
    peers: Mapping[str, str]
    rows: Sequence[Row]
    schema: int = SCHEMA


def head(peers: Sequence[str]) -> list[str]:
    """Return the heads of the columns that `cells` fills."""
    columns = ["client→upstream", "kind", "messages", "kB", "whole µs", "× loads", "conversion µs"]
    return columns + [column for name in peers for column in (f"{name} µs", f"× {name}")]


def cells(row: Row, peers: Sequence[str]) -> list[str]:
    """Return a row as text."""
    out = [row.direction, row.kind, str(row.messages), number(row.bytes, 1e-3), number(row.translate_us)]
    out += [times(row.translate_us / row.parse_us), number(row.conversion_us)]
    for name in peers:
        peer = row.peers.get(name)
        out += [number(peer.us if peer else None) + ("*" if peer and peer.note else ""), times(row.ratio(name))]
    return out


def page(run: Conversions) -> str:
    """Return the table in Markdown."""
    machine, peers = run.machine, tuple(run.peers)
    packages = ", ".join(f"{name} {version}" for name, version in {**machine.packages, **run.peers}.items())
    lines = [
        f"# Translating requests, {run.made[:10]}",
        "",
        f"`{run.command}`",
        "",
        f"- made: {run.made}, the fastest of {run.rounds} rounds that went through all of a row in turn",
        f"- machine: {machine}",
        f"- software: {packages}" + (f"; commit {machine.commit}" if machine.commit else ""),
        "",
        "CPU time. *Whole* is from the client's bytes to the upstream's, *× loads* the same as a multiple of one",
        "`orjson.loads` of the body. *Conversion* is from a parsed body to a body, without the time to parse it; each",
        "conversion has a newly parsed one, also those of the peers. *× peer* is ours as a multiple of theirs: below 1",
        "is less.",
        "",
        Table(head(peers), [cells(row, peers) for row in run.rows]).markdown(),
    ]
    notes = [f"- {note}" for row in run.rows for note in row.notes()]
    return "\n".join(lines + (["\\* of these is to be known:", "", *notes, ""] if notes else []))


def save(run: Conversions, folder: Path) -> Path:
    """Write results.json and README.md into a new folder below `folder`. Returns its path. Raises OSError."""
    place = fresh_folder(folder, run.made, run.machine)
    (place / "results.json").write_text(json.dumps(asdict(run), indent=1, ensure_ascii=False) + "\n")
    (place / "README.md").write_text(page(run))
    return place
