"""Report of a run in Markdown: machine, charts, an overview of ratios, all figures, and the setup of each gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from dragoman_bench.charts import Bar, Dots, Panel, Tone, bars, dots, over_time
from dragoman_bench.results import Results, Row, Subject
from dragoman_bench.tables import FOOTNOTES, KEEPS_UP, SHARES, Table, marks, number, overview, scenario_table, times

_OWN = "dragoman"


def report(results: Results, drawn: Mapping[str, str]) -> str:
    """Return the page in Markdown; `drawn` maps file names to charts in the same folder."""
    parts = [_head(results)]
    parts += [f"![{_title(svg)}]({name})\n" for name, svg in drawn.items()]
    parts.append(_ratios(results))
    parts += [_scenario(results, scenario) for scenario in results.scenarios]
    parts.append(_missing(results))
    parts.append("## Gateways\n\n" + "\n".join(_subject(subject) for subject in results.gateways))
    return "\n".join(part for part in parts if part)


def charts(results: Results) -> dict[str, str]:
    """Return the charts that there are figures for, by file name."""
    drawn = {}
    turns = _bars(results, "agent-turn", lambda row: row.ratio("cpu_us_per_turn"), _turn_label)
    if turns:
        drawn["cpu-per-turn.svg"] = bars(
            "CPU per turn of a coding agent",
            "218 messages in, 300 deltas out; multiples of an aiohttp proxy that does not translate" + _marked(turns),
            turns,
            mark=(1.0, "the aiohttp proxy"),
        )
    costs = _bars(results, "stream-100", lambda row: row.ratio("cpu_us_per_chunk"), _cost_label)
    if costs:
        drawn["cpu-per-chunk.svg"] = bars(
            "CPU per streamed chunk",
            "100 streams of 40 deltas a second, one by one; multiples of an aiohttp proxy that does not translate"
            + _marked(costs),
            costs,
            mark=(1.0, "the aiohttp proxy"),
        )
    delays = _delays(results, "stream-100")
    if delays:
        drawn["delay.svg"] = dots(
            "Delay per chunk: median, p99, p99.9",
            "from the upstream's write to the client's read, 100 streams of 40 deltas a second" + _marked(delays),
            delays,
            "ms",
        )
    sizes = _bars(results, "open-1000", _kilobytes, lambda kilobytes, rows: f"{number(kilobytes)} kB")
    if sizes:
        drawn["memory.svg"] = bars(
            "Memory per open stream",
            "kB of the gateway's process for each of 1,000 open streams" + _marked(sizes),
            sizes,
        )
    for row in results.of("mixed-day"):
        if row.figures.get("series"):
            drawn[f"mixed-day-{row.gateway}-{row.client}-{row.upstream}.svg"] = _day(row)
    return drawn


_DAY = (
    ("delay per chunk, ms", {"p99": "delay_p99", "p50": "delay_p50"}),
    ("loop lag, ms", {"p99": "lag_p99"}),
    ("memory, MB", {"resident": "memory_mb"}),
    ("CPU, share of a core", {"gateway": "cpu_share"}),
    ("open replies", {"open": "open"}),
)
_DAY_TONES: dict[str, Tone] = {"p50": "other"}


def _day(row: Row) -> str:
    """Return the chart of a mixed day: a panel for each figure that there are values for."""
    series = row.figures["series"]
    panels = []
    for label, names in _DAY:
        lines = {
            name: [(point["at_s"], point[key]) for point in series if point[key] is not None]
            for name, key in names.items()
        }
        if any(lines.values()):
            panels.append(Panel(label, lines, {name: _DAY_TONES.get(name, "own") for name in lines}))
    return over_time(
        f"A mixed day: {row.gateway} {row.direction}",
        f"{number(series[-1]['at_s'] / 60)} min of short and long streams, whole replies, leaving clients and retries",
        panels,
    )


def _marked(drawn: Sequence[Bar | Dots]) -> str:
    labels = "".join(row.label for row in drawn)
    return "".join(
        f"; {mark} {meaning}" for mark, meaning in (("†", "overloaded"), ("‡", "with errors")) if mark in labels
    )


def _gateways(results: Results, scenario: str) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for row in results.of(scenario):
        out.setdefault(row.gateway, []).append(row)
    return out


def _bars(
    results: Results,
    scenario: str,
    value: Callable[[Row], float | None],
    label: Callable[[float, list[Row]], str],
) -> list[Bar]:
    """Return a bar for each gateway: the median of its directions, and their range."""
    out = []
    for name, rows in _gateways(results, scenario).items():
        values = [found for row in rows if (found := value(row)) is not None]
        if values:
            middle = median(values)
            tone = _tone(results, name)
            out.append(Bar(_label(name, rows), middle, min(values), max(values), label(middle, rows), tone))
    return out


def _cost_label(ratio: float, rows: list[Row]) -> str:
    cost = median(row.figures["cpu_us_per_chunk"] for row in rows if row.figures.get("cpu_us_per_chunk"))
    return f"{times(ratio)}  ({number(cost)} µs)"


def _turn_label(ratio: float, rows: list[Row]) -> str:
    cost = median(row.figures["cpu_us_per_turn"] for row in rows if row.figures.get("cpu_us_per_turn"))
    return f"{times(ratio)}  ({number(cost, 1e-3)} ms)"


def _kilobytes(row: Row) -> float | None:
    size: float | None = row.figures.get("bytes_per_stream")
    return None if size is None else size / 1e3


def _delays(results: Results, scenario: str) -> list[Dots]:
    """Return a row for each gateway: each percentile is the median of its directions."""
    out = []
    for name, rows in _gateways(results, scenario).items():
        shares = [row.figures["delay_ms"] for row in rows if row.figures.get("delay_ms")]
        if shares:
            middle = {share: median(each[share] for each in shares) for share in SHARES}
            out.append(Dots(_label(name, rows), middle, _tone(results, name)))
    return out


def _label(name: str, rows: list[Row]) -> str:
    where = rows[0].direction if len(rows) == 1 else f"({len(rows)} directions)"
    return f"{name} {where}{max((marks(row) for row in rows), key=len)}"


def _tone(results: Results, name: str) -> Tone:
    if name.startswith(_OWN):
        return "own"
    return "bare" if results.subject(name).kind in ("none", "relay") or name == "floor" else "other"


def _title(svg: str) -> str:
    return svg.partition('aria-label="')[2].partition('"')[0]


def _head(results: Results) -> str:
    machine = results.machine
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    lines = [
        f"# Benchmark of {results.made[:10]}",
        "",
        f"`{results.command}`",
        "",
        f"- made: {results.made}, {_rounds(results)}",
        f"- machine: {machine}",
        f"- software: {packages}" + (f"; commit {machine.commit}" if machine.commit else ""),
        "- what the figures mean and what they do not: the README of `bench/`; all of them: `results.json`",
    ]
    if results.quick:
        lines.append("- **a short run**: good for a look, not for publication")
    return "\n".join(lines) + "\n"


def _rounds(results: Results) -> str:
    return "one round" if results.rounds == 1 else f"medians of {results.rounds} rounds that went through all gateways"


def _ratios(results: Results) -> str:
    table = overview(results)
    if not table.rows:
        return ""
    about = (
        f"Multiples of the CPU time or memory that `{results.baseline}` takes to pass on the same upstream stream, "
        "in the same run. Below 1 is less."
    )
    return f"## Ratios\n\n{about}\n\n{table.markdown()}{_footnotes(table)}"


def _footnotes(table: Table) -> str:
    text = "".join("".join(row) for row in table.rows)
    return "".join(f"\n{mark} {meaning}.\n" for mark, meaning in FOOTNOTES.items() if mark in text)


def _scenario(results: Results, scenario: Mapping[str, object]) -> str:
    name = str(scenario["name"])
    table = scenario_table(results, name)
    if not table.rows:
        return ""
    out = f"## {name}\n\n{str(scenario['about'])[0].upper()}{str(scenario['about'])[1:]}.\n\n{table.markdown()}"
    if "kept up" in table.head:
        out += (
            "\n*Kept up*: the share of what the upstream sent that came through in the measured window, where it was "
            f"below {KEEPS_UP:.0%}. That gateway was overloaded: its delays are those of a growing queue.\n"
        )
    return out


def _reasons(results: Results) -> list[str]:
    """Return the reasons for missing figures, as list items."""
    reasons: dict[str, list[str]] = {}
    for row in results.rows:
        if row.missing:
            first = row.missing.strip().splitlines()[0]
            reasons.setdefault(f"{row.gateway}: {first}", []).append(f"{row.scenario} {row.direction}")
    return [f"- {subject.name}: {subject.missing}" for subject in results.gateways if subject.missing] + [
        f"- {reason} ({', '.join(dict.fromkeys(where))})" for reason, where in reasons.items()
    ]


def _missing(results: Results) -> str:
    lines = _reasons(results)
    return "## Not measured\n\n" + "\n".join(lines) + "\n" if lines else ""


def _subject(subject: Subject) -> str:
    version = f" {subject.version}" if subject.version else ""
    lines = [f"**{subject.name}{version}**: {subject.about}." + (f" Note: {subject.note}." if subject.note else ""), ""]
    if subject.commands and subject.commands[0].command:
        shown = subject.commands[0]
        config = f"\n\n{shown.config}" if shown.config else ""
        lines += [
            f"<details><summary>as started for {shown.client}→{shown.upstream}</summary>",
            "",
            f"```\n{shown.command}{config}\n```",
            "",
            "</details>",
            "",
        ]
    return "\n".join(lines)


def terminal_summary(results: Results) -> str:
    """Return the overview for a terminal, and the reasons for missing figures."""
    table = overview(results)
    shown = (
        f"× {results.baseline}, same run; below 1 is less\n\n{table.plain()}{_footnotes(table)}\n" if table.rows else ""
    )
    return shown + "".join(f"{line[2:]}\n" for line in _reasons(results))
