"""Tables of a run's figures: an overview of ratios, and one table for each scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dragoman_bench.results import Results, Row

KEEPS_UP = 0.95
"""A gateway that delivered less than this share was overloaded: its delays are those of a growing queue."""

SHARES = ("p50", "p99", "p99.9")
"""The percentiles in tables; the results have more."""

_NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text; the first `names` columns are aligned left, the others right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 2

    def markdown(self) -> str:
        """Return the table in Markdown."""
        rule = ["---" if at < self.names else "---:" for at in range(len(self.head))]
        lines = (self.head, rule, *self.rows)
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"

    def plain(self) -> str:
        """Return the table as plain text."""
        widths = [max(len(line[at]) for line in (self.head, *self.rows)) for at in range(len(self.head))]
        return "".join(
            "  ".join(
                cell.ljust(width) if at < self.names else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            + "\n"
            for line in (self.head, *self.rows)
        )


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cell: Callable[[Row], str]


def number(value: float | None, scale: float = 1.0) -> str:
    """Return a figure with three significant digits; a dash for None."""
    if value is None:
        return _NOTHING
    value *= scale
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 or size == 0 else 3
    return f"{value:,.{digits}f}"


def times(value: float | None) -> str:
    """Return a ratio as text; a dash for None."""
    return _NOTHING if value is None else f"{value:.2f}×" if value < 10 else f"{value:.0f}×"


def _figure(head: str, name: str, scale: float = 1.0) -> _Column:
    return _Column(head, lambda row: number(row.figures.get(name), scale))


def _ratio(name: str) -> _Column:
    return _Column("× baseline", lambda row: times(row.ratio(name)))


def _shares(head: str, name: str) -> _Column:
    def cell(row: Row) -> str:
        shares = row.figures.get(name)
        return " / ".join(number(shares[share]) for share in SHARES) if shares else _NOTHING

    return _Column(f"{head} {' / '.join(SHARES)}", cell)


def _kept_up(row: Row) -> str:
    return _NOTHING if row.kept_up >= KEEPS_UP else f"{row.kept_up:.0%}"


def _errors(row: Row) -> str:
    errors = row.figures.get("errors") or {}
    return ", ".join(f"{kind} ×{found['count']:.0f}" for kind, found in errors.items()) or _NOTHING


_COLUMNS = (
    _figure("CPU µs/chunk", "cpu_us_per_chunk"),
    _ratio("cpu_us_per_chunk"),
    _figure("chunks/s/core", "chunks_per_s_per_core"),
    _shares("delay ms", "delay_ms"),
    _shares("added ms", "added_delay_ms"),
    _figure("CPU µs/stream", "cpu_us_per_stream"),
    _ratio("cpu_us_per_stream"),
    _figure("streams/s", "streams_per_s"),
    _shares("first token ms", "ttft_ms"),
    _shares("added ms", "added_ttft_ms"),
    _figure("CPU µs/reply", "cpu_us_per_reply"),
    _ratio("cpu_us_per_reply"),
    _figure("replies/s", "replies_per_s"),
    _figure("CPU ms/turn", "cpu_us_per_turn", 1e-3),
    _ratio("cpu_us_per_turn"),
    _shares("turn ms", "turn_ms"),
    _shares("added ms", "added_turn_ms"),
    _shares("alone ms", "alone_ms"),
    _shares("× alone", "times_alone"),
    _shares("loop lag ms", "lag_ms"),
    _shares("alone", "alone_lag_ms"),
    _figure("kB/stream", "bytes_per_stream", 1e-3),
    _ratio("bytes_per_stream"),
    _figure("MB in all", "pss_bytes", 1e-6),
    _figure("start s", "startup_s"),
    _figure("idle MB", "idle_bytes", 1e-6),
    _figure("hung up", "hung_up"),
    _figure("cancelled upstream", "cancelled_upstream"),
    _figure("left open", "left_open"),
    _figure("grew MB", "grown_bytes", 1e-6),
    _figure("upstream µs/chunk", "upstream_us_per_chunk"),
    _figure("client µs/chunk", "client_us_per_chunk"),
    _Column("kept up", _kept_up),
    _Column("errors", _errors),
)


def scenario_table(results: Results, scenario: str) -> Table:
    """Return the figures of a scenario, without empty columns."""
    rows = results.of(scenario)
    cells = [[row.gateway, row.direction, *(column.cell(row) for column in _COLUMNS)] for row in rows]
    head = ["gateway", "direction", *(column.head for column in _COLUMNS)]
    kept = [at for at in range(len(head)) if at < 2 or any(line[at] != _NOTHING for line in cells)]
    # A ratio without its figure is useless: both columns are kept, or neither.
    return Table([head[at] for at in kept], [[line[at] for at in kept] for line in cells])


def added_ratio(results: Results, row: Row, share: str = "p99", figure: str = "added_delay_ms") -> float | None:
    """Return the delay that a gateway adds, as a multiple of the delay that the baseline adds; None if unknown."""
    for other in results.of(row.scenario):
        if other.gateway == results.baseline and other.upstream == row.upstream:
            mine, theirs = row.figures.get(figure), other.figures.get(figure)
            return max(0.0, mine[share] / theirs[share]) if mine and theirs and theirs[share] > 0 else None
    return None


_OVERVIEW = (
    ("stream-100", "cpu_us_per_chunk", "chunk, 100 streams"),
    ("stream-400", "cpu_us_per_chunk", "chunk, 400 streams"),
    ("burst-100", "cpu_us_per_chunk", "chunk, burst"),
    ("start", "cpu_us_per_stream", "stream start"),
    ("agent", "cpu_us_per_stream", "agent's request"),
    ("agent-turn", "cpu_us_per_turn", "agent turn"),
    ("whole", "cpu_us_per_reply", "whole reply"),
    ("open-1000", "bytes_per_stream", "memory per stream"),
    ("open-10000", "cpu_us_per_chunk", "chunk, 10,000 streams"),
    ("open-10000", "bytes_per_stream", "memory, 10,000 streams"),
)
_DELAYED = "stream-100"


def overview(results: Results) -> Table:
    """Return ratios to the baseline: a row for each gateway and direction, a column for each scenario.

    The table is empty if no scenario of the run has ratios.
    """
    shown = {scenario for scenario, _, _ in _OVERVIEW}
    rows = {
        (row.gateway, row.client, row.upstream, row.scenario): row
        for row in results.rows
        if not row.missing and row.scenario in shown
    }
    keys = dict.fromkeys(key[:3] for key in rows if _rated(rows.values(), key[:3]))
    present = {row.scenario for row in rows.values()}
    columns = [column for column in _OVERVIEW if column[0] in present]
    head = ["gateway", "direction", *(label for _, _, label in columns)]
    if _DELAYED in present:
        head.append("added p99 delay")
    lines = []
    for key in keys:
        line = [key[0], f"{key[1]}→{key[2]}"]
        for scenario, figure, _ in columns:
            row = rows.get((*key, scenario))
            line.append(_NOTHING if row is None else times(row.ratio(figure)) + marks(row))
        if _DELAYED in present:
            row = rows.get((*key, _DELAYED))
            line.append(_NOTHING if row is None else _delayed(results, row))
        lines.append(line)
    return Table(head, lines)


def _rated(rows: Iterable[Row], key: tuple[str, ...]) -> bool:
    return any(row.figures.get("ratio") for row in rows if (row.gateway, row.client, row.upstream) == key)


def _delayed(results: Results, row: Row) -> str:
    # The delays of a growing queue only depend on the duration of the run.
    ratio = added_ratio(results, row) if row.kept_up >= KEEPS_UP else None
    return times(ratio) + marks(row)


def marks(row: Row) -> str:
    """Return † for a row that was overloaded, ‡ for one with errors (`FOOTNOTES`)."""
    return ("" if row.kept_up >= KEEPS_UP else " †") + (" ‡" if row.figures.get("errors") else "")


FOOTNOTES = {
    "†": "overloaded: less than 95 % of what the upstream sent came through while it was measured",
    "‡": "with errors: see the scenario's table",
}
