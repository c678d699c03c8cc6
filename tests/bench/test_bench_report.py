"""Results as data, tables, charts and a page: their content, marks and omissions."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman_bench.charts import Bar, Dots, Panel, bars, dots, over_time
from dragoman_bench.gateways import GATEWAYS
from dragoman_bench.machine import Machine
from dragoman_bench.report import charts, report, terminal_summary
from dragoman_bench.results import Command, Results, Row, Subject, load
from dragoman_bench.runner import Run
from dragoman_bench.save_run import gather, save
from dragoman_bench.scenarios import SCENARIOS
from dragoman_bench.tables import Table, added_ratio, number, overview, scenario_table, times

MACHINE = Machine("A Processor", 2, 8 << 30, "Linux 6", "CPython 3.11", {"aiohttp": "3.14.5"}, "abc1234567+")
SVG = "{http://www.w3.org/2000/svg}"


def shares(p50: float, p99: float, worst: float) -> dict[str, float]:
    """Return percentiles as in the load client's result."""
    return {"p50": p50, "p90": p50 * 1.5, "p99": p99, "p99.9": worst}


def row(gateway: str, client: str, upstream: str, cost: float, **more: Any) -> Row:
    """One of `stream-100`, at 20 µs of the baseline."""
    figures = {
        "cpu_us_per_chunk": cost,
        "chunks_per_s": 4000.0,
        "offered_per_s": 4000.0,
        "delay_ms": shares(0.3, 1.5, 3.0),
        "added_delay_ms": shares(0.2, 1.0, 2.5),
        "ratio": {"cpu_us_per_chunk": cost / 20},
        "errors": {},
        **more,
    }
    return Row(gateway, client, upstream, "stream-100", figures, [figures])


def subject(name: str, kind: str, missing: str = "") -> Subject:
    """A gateway of the run."""
    commands = [] if missing else [Command("chat", "chat", f"{name} --serve", "# file\nport = 1")]
    return Subject(name, kind, f"what {name} is", "mind this" if name == "peer" else "", "1.2", missing, commands)


@pytest.fixture
def results() -> Results:
    """A run of five gateways, one of them overloaded, one with errors, one missing."""
    broken = {"no-reply": {"count": 3, "example": "closed"}}
    rows = [
        Row("direct", "chat", "chat", "stream-100", {"delay_ms": shares(0.1, 0.5, 0.9), "errors": {}}),
        row("aiohttp-pass", "chat", "chat", 20.0),
        row("dragoman", "messages", "chat", 12.0, added_delay_ms=shares(0.1, 0.5, 1.0)),
        row("dragoman", "responses", "chat", 14.0, errors=broken),
        row("peer", "messages", "chat", 400.0, chunks_per_s=1000.0),
        Row("peer", "responses", "chat", "stream-100", {}, [], "it ended with status 1\nand a trace"),
        Row("dragoman", "messages", "chat", "open-1000", {"bytes_per_stream": 9000.0, "errors": {}}),
    ]
    gateways = [
        subject("direct", "none"),
        subject("aiohttp-pass", "pass"),
        subject("dragoman", "translate"),
        subject("peer", "translate"),
        subject("absent", "pass", "absent is not installed: `install it`"),
    ]
    expected = [{"name": "stream-100", "about": "100 streams"}, {"name": "open-1000", "about": "open streams"}]
    return Results("2026-11-21T10:00:00Z", "rig --x", False, 3, "aiohttp-pass", MACHINE, expected, gateways, rows)


# --- tables ---------------------------------------------------------------------------------------------------------


def test_the_overview_has_ratios_and_marks(results: Results) -> None:
    table = overview(results)
    lines = {(line[0], line[1]): line[2:] for line in table.rows}
    assert table.head[2:] == ["chunk, 100 streams", "memory per stream", "added p99 delay"]
    assert lines["dragoman", "messages→chat"] == ["0.60×", "–", "0.50×"]
    assert lines["dragoman", "responses→chat"][0] == "0.70× ‡"
    assert lines["peer", "messages→chat"][0] == "20× †"
    assert ("direct", "chat→chat") not in lines


def test_the_overview_has_two_columns_of_ten_thousand_streams(results: Results) -> None:
    rated = row("dragoman", "messages", "chat", 15.0, ratio={"cpu_us_per_chunk": 0.75, "bytes_per_stream": 0.3})
    many = replace(rated, scenario="open-10000")
    table = overview(replace(results, rows=[many]))
    assert table.head[2:] == ["chunk, 10,000 streams", "memory, 10,000 streams"]
    assert table.rows == [["dragoman", "messages→chat", "0.75×", "0.30×"]]


def test_an_overview_without_a_column_has_no_rows_and_no_place_on_the_page(results: Results) -> None:
    few = replace(results, rows=[replace(row("dragoman", "messages", "chat", 12.0), scenario="stream-20")])
    assert overview(few).rows == []
    assert "## Ratios" not in report(few, {})
    assert "## Ratios" in report(results, {})


def test_a_scenarios_table_has_no_empty_columns(results: Results) -> None:
    table = scenario_table(results, "stream-100")
    assert "kB/stream" not in table.head
    assert "delay ms p50 / p99 / p99.9" in table.head
    cells = dict(zip(table.head, table.rows[3], strict=True))
    assert cells["errors"] == "no-reply ×3"
    assert cells["delay ms p50 / p99 / p99.9"] == "0.30 / 1.50 / 3.00"
    assert dict(zip(table.head, table.rows[-1], strict=True))["kept up"] == "25%"
    assert list(scenario_table(results, "open-1000").head) == ["gateway", "direction", "kB/stream"]


def test_added_delays_are_held_against_the_baseline_of_the_same_upstream(results: Results) -> None:
    rows = results.of("stream-100")
    assert added_ratio(results, rows[2]) == 0.5
    assert added_ratio(results, rows[0]) is None
    assert added_ratio(results, replace(rows[2], upstream="messages")) is None
    quick = replace(rows[2], figures={**rows[2].figures, "added_delay_ms": shares(0, -1.0, 0)})
    assert added_ratio(results, quick) == 0


def test_tables_line_up_and_escape() -> None:
    table = Table(["a", "b", "c"], [["x|y", "zz", "1,000"], ["x", "z", "2"]])
    assert table.markdown().splitlines()[1:] == ["| --- | --- | ---: |", "| x\\|y | zz | 1,000 |", "| x | z | 2 |"]
    assert table.plain() == "a    b       c\nx|y  zz  1,000\nx    z       2\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "–"), (0.0, "0.00"), (0.0123, "0.012"), (1.234, "1.23"), (12.34, "12.3"), (5431.2, "5,431")],
)
def test_figures_have_three_digits(value: float | None, expected: str) -> None:
    assert number(value) == expected


def test_ratios_are_times() -> None:
    assert (times(None), times(0.654), times(21.4)) == ("–", "0.65×", "21×")


# --- charts ---------------------------------------------------------------------------------------------------------


def drawing(svg: str) -> ET.Element:
    """Parsed: it is well-formed."""
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return root


def test_bars_are_to_scale_and_long_ones_are_cut() -> None:
    rows = [
        Bar("a", 1.0, 1.0, 1.0, "1", "other"),
        Bar("b <own>", 0.5, 0.4, 0.6, "½ & more", "own"),
        Bar("c", 50.0, 50.0, 50.0, "50", "other"),
    ]
    root = drawing(bars("Title", "Below", rows, mark=(1.0, "one")))
    widths = [float(rect.get("width", "")) for rect in root.iter(f"{SVG}rect")]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.11)
    assert widths[2] > widths[0]
    assert len([path for path in root.iter(f"{SVG}path") if path.get("class") == "gap"]) == 1
    assert len([path for path in root.iter(f"{SVG}path") if path.get("class") == "range"]) == 1
    assert "b <own>" in [text.text for text in root.iter(f"{SVG}text")]


def test_bars_of_nothing_are_drawn() -> None:
    drawing(bars("Title", "Below", [Bar("a", 0.0, 0.0, 0.0, "0", "bare")]))


def test_dots_grow_with_the_percentile_and_stay_inside() -> None:
    root = drawing(dots("Title", "Below", [Dots("a", {"p50": 0.0, "p99": 1.0, "p99.9": 90.0}, "own")], "ms"))
    circles = list(root.iter(f"{SVG}circle"))
    places = [float(circle.get("cx", "")) for circle in circles]
    assert places == sorted(places)
    assert places[0] > 0
    assert places[-1] < float(root.get("width", ""))
    assert [circle.get("r") for circle in circles] == ["4.0", "5.5", "7.0"]


def test_lines_over_time_are_to_scale() -> None:
    line = [(0.0, 0.0), (60.0, 10.0), (120.0, 5.0)]
    panels = [Panel("delay & more", {"p99": line}, {"p99": "own"}), Panel("memory", {"a": line[:2]}, {"a": "other"})]
    root = drawing(over_time("Title", "Below", panels))
    drawn = [polyline.get("points", "").split() for polyline in root.iter(f"{SVG}polyline")]
    first = [tuple(map(float, point.split(","))) for point in drawn[0]]
    assert [len(points) for points in drawn] == [3, 2]
    assert first[1][0] - first[0][0] == pytest.approx(first[2][0] - first[1][0], abs=0.11)
    assert first[0][1] - first[1][1] == pytest.approx(2 * (first[0][1] - first[2][1]), abs=0.21)
    assert max(x for x, _ in first) < float(root.get("width", ""))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"delay & more", "2 min", "10", "p99"} <= set(texts)


def test_a_mixed_day_is_drawn_over_time(results: Results) -> None:
    point = {"delay_p50": 1.0, "delay_p99": 2.0, "lag_p99": None, "open": 3, "cpu_share": 0.1, "memory_mb": 50.0}
    series = [{**point, "at_s": at} for at in (1.0, 2.0)]
    day = Row("dragoman", "messages", "chat", "mixed-day", {"series": series, "errors": {}})
    drawn = charts(replace(results, rows=[day, replace(day, gateway="peer", figures={"errors": {}})]))
    assert list(drawn) == ["mixed-day-dragoman-messages-chat.svg"]
    texts = [text.text for text in drawing(drawn["mixed-day-dragoman-messages-chat.svg"]).iter(f"{SVG}text")]
    assert "memory, MB" in texts
    assert "loop lag, ms" not in texts


def test_an_agents_turns_are_drawn(results: Results) -> None:
    figures = {"cpu_us_per_turn": 40_000.0, "ratio": {"cpu_us_per_turn": 1.6}, "errors": {}}
    drawn = charts(replace(results, rows=[Row("dragoman", "messages", "chat", "agent-turn", figures)]))
    assert list(drawn) == ["cpu-per-turn.svg"]
    assert "1.60×  (40.0 ms)" in drawn["cpu-per-turn.svg"]


def test_charts_read_in_light_and_dark(results: Results) -> None:
    drawn = charts(results)
    assert set(drawn) == {"cpu-per-chunk.svg", "delay.svg", "memory.svg"}
    assert all("prefers-color-scheme: dark" in svg for svg in drawn.values())
    assert "dragoman (2 directions) ‡" in drawn["cpu-per-chunk.svg"]
    assert "peer messages→chat †" in drawn["cpu-per-chunk.svg"]


def test_no_figures_no_charts(results: Results) -> None:
    assert charts(replace(results, rows=[])) == {}


# --- the page and the files -----------------------------------------------------------------------------------------


def test_the_page_has_everything(results: Results) -> None:
    page = report(results, charts(results))
    for expected in (
        "`rig --x`",
        "medians of 3 rounds",
        "A Processor, 2 cores, 8 GB",
        "commit abc1234567+",
        "![CPU per streamed chunk](cpu-per-chunk.svg)",
        "† overloaded",
        "‡ with errors",
        "*Kept up*",
        "- absent: absent is not installed: `install it`",
        "- peer: it ended with status 1 (stream-100 responses→chat)",
        "**peer 1.2**: what peer is. Note: mind this.",
        "peer --serve\n\n# file\nport = 1",
    ):
        assert expected in page
    assert "a short run" not in page
    assert "a short run" in report(replace(results, quick=True), {})


def test_the_terminal_gets_the_overview_and_what_is_missing(results: Results) -> None:
    output = terminal_summary(results)
    assert "dragoman      messages→chat" in output
    assert "absent is not installed" in output
    assert terminal_summary(replace(results, rows=[], gateways=[])) == ""


def test_a_run_is_saved_and_read_again(results: Results, tmp_path: Path) -> None:
    first, second = save(results, tmp_path), save(results, tmp_path)
    assert (first.name, second.name) == ("2026-11-21-abc1234567", "2026-11-21-abc1234567-2")
    assert load(first / "results.json") == results
    assert (first / "README.md").read_text() == report(results, charts(results))
    assert {path.name for path in first.iterdir()} == {"results.json", "README.md", *charts(results)}


def test_results_of_another_schema_are_refused(results: Results, tmp_path: Path) -> None:
    path = save(results, tmp_path) / "results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 0}))
    with pytest.raises(ValueError, match="has schema 0; this version reads 1: make the run again"):
        load(path)


def test_a_run_that_has_not_begun_is_gathered() -> None:
    run = Run([GATEWAYS["direct"], GATEWAYS["dragoman"]], [("messages", "chat")], [SCENARIOS["stream-100"]], 1)
    gathered = gather(run, "rig", quick=True)
    assert (gathered.rows, gathered.baseline, gathered.quick) == ([], "aiohttp-pass", True)
    assert gathered.subject("dragoman").version
    assert gathered.scenarios[0]["name"] == "stream-100"
    with pytest.raises(KeyError):
        gathered.subject("nobody")


def test_the_machine_knows_itself() -> None:
    here = Machine.here()
    assert here.cores >= 1
    assert here.memory_bytes > 1 << 28
    assert here.packages["aiohttp"]
    assert here.packages["dragoman"]
    assert here.cpu
