"""`dragoman usage`: sums of what was booked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.wire import Json, json_dumps
from dragoman_server.cli.main import main
from dragoman_server.cli.text_table import text_width


def written(folder: Path, table: str) -> str:
    path = folder / "dragoman.toml"
    path.write_text(
        f'{table}\n[providers.up]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "${{NONE}}"'
    )
    return str(path)


def write_rows(path: Path, *rows: Json) -> None:
    path.write_bytes(b"".join(json_dumps(row) + b"\n" for row in rows))


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A configuration whose file has five rows."""
    rows: list[Json] = []
    for number in range(4):
        row: dict[str, Any] = {"time": f"2026-11-2{number}T00:00:00Z", "key": ("ada", "bob")[number % 2]}
        row |= {
            "upstream_model": "m",
            "input": 1000,
            "output": 10,
            "cost": 0.5,
            "estimated": ["output"] * (number == 3),
        }
        rows.append(row)
    rows.append({"time": "2026-11-23T00:00:00Z", "key": None, "input": None, "cost": None})
    write_rows(tmp_path / "u", *rows)
    return written(tmp_path, f'[usage]\nkind = "jsonl"\npath = "{tmp_path}/u"')


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["usage", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_table_by_key(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "-c", config) == (
        0,
        "key     exchanges  input  cache_read  cache_write  output  reasoning    cost\n"
        "(none)          1      0           0            0       0          0  0.0000\n"
        "ada             2  2,000           0            0      20          0  1.0000\n"
        "bob             2  2,000           0            0      20          0  1.0000\n"
        "total           5  4,000           0            0      40          0  2.0000\n",
        "of these exchanges: 1 with estimated counts\n",
    )


def test_the_table_shows_an_hours_cache_where_one_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"input": 90, "cache_write": 60, "cache_write_1h": 20}
    write_rows(tmp_path / "u", {"time": "2026-11-23T00:00:00Z", "key": "ada", **counts})
    config = written(tmp_path, f'[usage]\nkind = "jsonl"\npath = "{tmp_path}/u"')
    assert run(capsys, "-c", config)[1] == (
        "key  exchanges  input  cache_write  cache_write_1h  output    cost\n"
        "ada          1     90           60              20       0  0.0000\n"
    )


def test_json_by_day_since_a_date(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "-c", config, "--by", "day", "--since", "2026-11-22", "--json")
    data = json.loads(out)["data"]
    assert (status, err) == (0, "")
    assert [(row["day"], row["exchanges"], row["cost"]) for row in data] == [
        ("2026-11-22", 1, 0.5),
        ("2026-11-23", 2, 0.5),
    ]


def test_several_dimensions_until_a_date(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "-c", config, "--by", "key,day", "--since", "2026-11-21", "--until", "2026-11-23")[1] == (
        "key    day         exchanges  input  output    cost\n"
        "ada    2026-11-22          1  1,000      10  0.5000\n"
        "bob    2026-11-21          1  1,000      10  0.5000\n"
        "total                      2  2,000      20  1.0000\n"
    )


def test_csv_has_all_columns(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "-c", config, "--by", "model,key", "--until", "2026-11-21", "--csv")
    assert (status, err) == (0, "")
    assert out == (
        "model,key,exchanges,input,cache_read,cache_write,cache_write_1h,output,reasoning,searches,cost,unpriced,"
        "estimated,partial,lost,running\nm,ada,1,1000,0,0,0,10,0,0,0.500000000,0,0,0,0,0\n"
    )


def test_the_table_shows_searches_and_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"time": "2026-11-23T00:00:00Z", "model": "m\x1b[2J\n", "service_tier": "flex", "searches": 3}
    write_rows(tmp_path / "u", row)
    config = written(tmp_path, f'[usage]\nkind = "jsonl"\npath = "{tmp_path}/u"')
    out = run(capsys, "-c", config, "--by", "tier,model")[1]
    assert out == (
        "tier  model       exchanges  input  output  searches    cost\n"
        "flex  m\\x1b[2J\\n          1      0       0         3  0.0000\n"
    )


@pytest.mark.parametrize("by", ["key", "key,model,provider", "key,tag,model,provider,route,tier,speed,client,day"])
def test_the_table_fits_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str) -> None:
    counts = dict.fromkeys(("input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning"), 10**10)
    names = {"tag": "t" * 64, "upstream_model": "日本語" * 40, "provider": "p" * 90, "route": "r" * 90}
    rows = [{"time": "2026-11-23T00:00:00Z", "key": f"{n}" * 60, **names, **counts, "searches": 5} for n in (1, 2)]
    write_rows(tmp_path / "u", *rows)
    config = written(tmp_path, f'[usage]\nkind = "jsonl"\npath = "{tmp_path}/u"')
    status, out, _ = run(capsys, "-c", config, "--by", by)
    assert status == 0
    assert max(map(text_width, out.splitlines())) <= 80
    assert "10G" in out
    assert "20G" in out, "the sum"


@pytest.mark.parametrize(("by", "why"), [("key,colour", "expected one of key, tag"), ("key,key", "twice")])
def test_dimensions_that_are_not_known(config: str, capsys: pytest.CaptureFixture[str], by: str, why: str) -> None:
    with pytest.raises(SystemExit):
        run(capsys, "-c", config, "--by", by)
    assert why in capsys.readouterr().err


def test_a_duration_is_counted_back_from_now(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(run(capsys, "-c", config, "--since", "9999w", "--json")[1])["data"]
    assert run(capsys, "-c", config, "--since", "soon")[0] == 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "is off"),
        ('[usage]\nkind = "jsonl"\npath = "-"', "standard output"),
        ('[usage]\nkind = "sqlite"\npath = "missing.db"', "there is no {folder}/missing.db yet"),
        ('[usage]\nkind = "jsonl"\npath = "missing"', "there is no {folder}/missing yet"),
        ('[usage]\nkind = "xml"', "xml"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, table: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "-c", written(tmp_path, table))
    assert (status, out) == (2, "")
    assert message.format(folder=tmp_path) in err
    assert os.listdir(tmp_path) == ["dragoman.toml"]


def test_only_lost_exchanges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"time": "2026-11-23T00:00:00Z", "key": "ada", "input": 5, "cost": 0.5}
    write_rows(tmp_path / "u", {**row, "ended": "lost", "estimated": ["input"]}, {**row, "ended": "completed"})
    config = written(tmp_path, f'[usage]\nkind = "jsonl"\npath = "{tmp_path}/u"')
    for words, count in (((), 2), (("--ended", "lost"), 1), (("--ended", "lost,completed"), 2)):
        status, out, err = run(capsys, "-c", config, "--json", *words)
        [found] = json.loads(out)["data"]
        assert (status, err, found["exchanges"], found["lost"]) == (0, "", count, 1)
    assert "1 lost with a process that was killed" in run(capsys, "-c", config)[2]
    with pytest.raises(SystemExit):
        run(capsys, "-c", config, "--ended", "gone")
    assert "expected one of completed" in capsys.readouterr().err
