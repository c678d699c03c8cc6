"""Every command, program and number of the README is one that holds."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import tomllib
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from dragoman_bench.report import charts
from dragoman_bench.results import load
from dragoman_server import Dialect, Server, parse_config
from dragoman_server.cli.commands import command_line
from dragoman_server.cli.demo.terminal import cells
from dragoman_server.routing.router import Router
from generators import demo_picture
from support.paths import ROOT

README = (ROOT / "README.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def _commands() -> list[list[str]]:
    return [shlex.split(line, comments=True) for block in _blocks("sh") for line in block.splitlines()]


def test_it_can_be_read_in_a_minute() -> None:
    assert README.count("\n") <= 120


def test_the_program_prints_what_the_page_states() -> None:
    (code,), (expected,) = _blocks("python"), _blocks("text")
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(code, "README.md", "exec"), names)
    assert shown.getvalue() == expected
    assert b"event: error" in names["machine"].finish()


def test_the_commands_are_ones_that_there_are() -> None:
    """The commands of Dragoman itself parse; all others are those of the tests below."""
    others = []
    for words in _commands():
        at = [index for index, word in enumerate(words) if word.rpartition("/")[2] == "dragoman"]
        if at:
            command_line().parse_args(words[at[0] + 1 :])
        else:
            others.append(words)
    tools = {words[-3] if "pytest" in words else words[0] for words in others}
    assert tools == {"ANTHROPIC_BASE_URL=http://127.0.0.1:8080", "pipx", "pytest"}


def test_the_agent_uses_the_gateway_s_default_port() -> None:
    (words,) = (words for words in _commands() if "claude" in words and "run" not in words)
    assert words[0] == f"ANTHROPIC_BASE_URL=http://127.0.0.1:{Server().port}"


def test_the_commands_for_a_wheel_are_those_of_the_release_check() -> None:
    """tests/release/check.py runs them with a wheel that was built."""
    wheel = f"dragoman-{PROJECT['version']}-py3-none-any.whl"
    shown = [words for words in _commands() if wheel in words]
    check = runpy.run_path(str(ROOT / "tests/release/check.py"))
    steps = [[str(word) for word in step] for step in check["tool_steps"](Path(wheel), Path())]
    run = [[Path(tool).name, *arguments] for tool, *arguments in steps]
    assert [words[0] for words in shown] == ["uvx", "pipx"]
    assert [words for words in shown if not any(step[: len(words)] == words for step in run)] == []


def test_the_configuration_is_five_lines_and_takes_every_model() -> None:
    (text,) = _blocks("toml")
    assert len(text.splitlines()) == 5
    router = Router(parse_config(tomllib.loads(text), {}))
    for model in ("claude-sonnet-5", "claude-haiku-5", "gpt-x"):
        assert router.resolve(model, Dialect.MESSAGES).upstream_model == "qwen3"


def test_both_lines_that_begin_with_nothing_install_alike() -> None:
    begin = re.findall(r"^(python3 -m venv .*? run) ", README, re.MULTILINE)
    assert len(begin) == 2
    assert len(set(begin)) == 1
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or later" in README


def test_the_numbers_are_those_of_the_pages_and_of_the_run() -> None:
    """The number of recorded exchanges is in a test of its own (tests/recorded)."""
    failures = (ROOT / "docs/reference/peer-failures.md").read_text("utf-8")
    (entries,) = re.findall(r"^(\d+) entries under", failures, re.MULTILINE)
    assert f"[{entries} failures]" in README
    section = README.partition("## What it costs\n")[2].partition("\n## ")[0]
    (picture,) = re.findall(r"\]\((bench/results/\S+\.svg)\)", section)
    results = load((ROOT / picture).parent / "results.json")
    assert (ROOT / picture).read_text("utf-8") == charts(results)[Path(picture).name]
    stated = re.findall(r"(\w[\w-]*)(?: [\d.]+)?,? (?:takes )?([\d.]+) times", section)
    ratios = {row.gateway: row.ratio("cpu_us_per_turn") for row in results.rows}
    assert [name.lower() for name, _ in stated] == ["dragoman", "llm-rosetta", "litellm"]
    for name, number in stated:
        assert float(number) == round(ratios[name.lower()] or 0, 1 if "." in number else 0), name
    assert f"{results.made[:10]}" in section


def _sides(lines: list[str]) -> list[list[str]]:
    """The texts of the client's and of the upstream's side, each in its order, and the summary.

    When a line of the other side comes in between is not the same in each run, and the stream may have ended for the
    client before the upstream's last line is shown.
    """
    end = lines.index("")
    split = [re.split("[│▶◀]", line, maxsplit=1) for line in lines[1:end]]
    sides = [
        [text.strip() for text in side if text.strip() not in ("", "data: [DONE]")] for side in zip(*split, strict=True)
    ]
    return [*sides, [line.strip() for line in lines[end:]]]


def _lines_of(picture: str) -> list[str]:
    """The lines of a drawing: its texts, put at their columns."""
    rows: dict[int, str] = {}
    for x, y, text in re.findall(r'<text x="([\d.]+)" y="(\d+)"[^>]*>([^<]*)</text>', picture):
        row, column = demo_picture.place(float(x), int(y))
        before = rows.get(row, "")
        rows[row] = before + " " * (column - cells(before)) + unescape(text)
    return [rows.get(row, "") for row in range(max(rows) + 1)]


@pytest.mark.whole
def test_the_picture_shows_what_the_demo_prints() -> None:
    lines = demo_picture.scene()
    plain = [demo_picture.plain(line) for line in lines]
    assert _lines_of(demo_picture.draw(lines)) == plain
    assert _sides(_lines_of(demo_picture.PICTURE.read_text("utf-8"))) == _sides(plain)


@pytest.mark.parametrize(("page", "least"), [("README.md", 11), ("CONTRIBUTING.md", 3)])
def test_its_links_lead_somewhere(page: str, least: int) -> None:
    text = (ROOT / page).read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if not link.startswith("http")]
    assert len(links) >= least
    assert [link for link in links if not (ROOT / link).exists()] == []
