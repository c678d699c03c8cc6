"""The reference pages agree with the code: generated ones literally, configuration.md in every table row."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dragoman.aio.timeouts import PoolOptions, Timeouts
from dragoman.canonical.request import EFFORTS
from dragoman.knobs import KNOBS, Knobs
from dragoman.limits import Limits
from dragoman.profiles.profile import BUILTIN_PROFILES, PROFILE_FIELDS, Profile
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.cli.commands import command_line
from dragoman_server.cli.parser import CommandParser
from dragoman_server.config.field_texts import field_texts
from dragoman_server.config.overload import Overload
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.config.routing_options import RetryOptions
from dragoman_server.config.telemetry import Telemetry
from dragoman_server.config.websocket import WebSocketOptions
from dragoman_server.simulator import SCRIPTS
from dragoman_server.simulator.modifiers import BUSY, LOST, MODIFIERS
from generate import PAGES, main
from support.paths import ROOT

REFERENCE = ROOT / "docs/reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_made_page_is_up_to_date(name: str) -> None:
    committed = (REFERENCE / name).read_text("utf-8")
    assert committed == PAGES[name](), "run: python docs/generate.py"


def test_main_writes_the_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*")) == sorted(PAGES)
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "not a folder" in capsys.readouterr().err


def _rows(heading: str) -> dict[str, list[str]]:
    """The rows of a section's table in configuration.md by key, without backticks."""
    page = (REFERENCE / "configuration.md").read_text("utf-8")
    section = re.split(r"\n#+ ", page.partition(f"# {heading}\n")[2])[0]
    cells = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip(" `"): [_plain(cell.strip()) for cell in row[1:]] for row in cells}


def _meanings(kind: type) -> dict[str, str]:
    """The docstring of each field, as a row has it."""
    return {name: _part(_plain(text)) for name, text in field_texts(kind).items()}


def _part(sentence: str) -> str:
    """A sentence as a part of one. The case of the first letter does not count: it may begin a name."""
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


def _options(table: str) -> dict[str, list[str]]:
    """The rows of a table of two columns next to the key."""
    return {name: [value, _part(meaning)] for name, (value, meaning) in _rows(f"`[{table}]`").items()}


def test_knobs_are_documented() -> None:
    """Values with the default first, what else may be given, and the meaning."""
    expected, meanings = {}, _meanings(Knobs)
    for name, knob in KNOBS.items():
        forms = [knob.metadata["form"]] if "form" in knob.metadata else []
        if knob.default == ():
            forms = [f"array of {form}" for form in forms]
        expected[name] = [", ".join([*knob.metadata["values"], *forms]), meanings[name]]
    assert _options("knobs") == expected


def _described(kind: type) -> dict[str, list[str]]:
    """The default and the meaning of each field."""
    meanings = _meanings(kind)
    return {spec.name: [_toml(spec.default), meanings[spec.name]] for spec in fields(kind)}


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.10g}"


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("server.limits", Limits),
        ("server.timeouts", Timeouts),
        ("server.connections", PoolOptions),
        ("server.overload", Overload),
        ("server.resume", ResumeOptions),
        ("server.websocket", WebSocketOptions),
        ("retries", RetryOptions),
    ],
)
def test_the_options_of_a_table_are_documented(table: str, kind: type) -> None:
    assert _options(table) == _described(kind)


def test_profile_flags_are_documented() -> None:
    profiles = [BUILTIN_PROFILES["chat", "openai"], BUILTIN_PROFILES["chat", "compatible"]]
    profiles += [BUILTIN_PROFILES["messages", "anthropic"], BUILTIN_PROFILES["messages", "compatible"]]
    profiles += [BUILTIN_PROFILES["responses", "openai"], BUILTIN_PROFILES["responses", "compatible"]]
    profiles += [BUILTIN_PROFILES["generate", "gemini"], BUILTIN_PROFILES["generate", "compatible"]]
    rows, meanings = _rows("`[providers.NAME.profile_flags]`"), _meanings(Profile)
    assert list(rows) == list(PROFILE_FIELDS)
    for name, flag in PROFILE_FIELDS.items():
        values, meaning, shipped = rows[name]
        assert _part(meaning) == meanings[name], name
        if flag.metadata["values"]:
            assert values == ", ".join(map(str, flag.metadata["values"])), name
        assert shipped.split(" · ") == [_shown(getattr(profile, name)) for profile in profiles], name


def _shown(value: Any) -> str:
    if value == EFFORTS:
        return "all"
    if isinstance(value, tuple):
        return ", ".join(value) or "–"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value) or "–"


def _plain(text: str) -> str:
    return text.replace("`", "")


def test_limits_of_keys_are_documented() -> None:
    rows = _rows("`[keys.NAME]`")
    assert list(rows) == [
        "hash",
        "models",
        *(spec.name for spec in fields(KeyLimits)),
        "expires",
        "admin",
        "capture",
        "tag",
    ]
    for spec in fields(KeyLimits):
        kind = "number" if spec.name.endswith("_cost") else "integer"
        assert rows[spec.name][:2] == [kind, f"{spec.default:g}"]


def test_settings_of_telemetry_are_documented() -> None:
    rows = _rows("`[telemetry]`")
    assert list(rows) == [spec.name for spec in fields(Telemetry)]
    for spec in fields(Telemetry):
        if spec.name not in ("endpoint", "headers"):
            default = str(spec.default).lower().removesuffix(".0")
            assert rows[spec.name][1].strip('"') == default


def test_settings_of_the_store_are_documented() -> None:
    rows = _rows("`[store]`")
    assert list(rows) == [spec.name for spec in fields(StoreOptions)]
    for spec in fields(StoreOptions):
        if not spec.name.endswith("url"):
            default = str(spec.default).lower() if isinstance(spec.default, bool) else f"{spec.default}"
            assert rows[spec.name][1].strip('"') == default.removesuffix(".0")


def _commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, argparse.Action]]:
    """The options of all commands, with the path of their command."""
    if isinstance(parser, CommandParser):
        parser.declare()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from _commands(command, (*path, name))
        else:
            yield " ".join(path), action


def test_the_commands_and_their_options_are_documented() -> None:
    page = (REFERENCE / "command-line.md").read_text("utf-8")
    options = list(_commands(command_line()))
    for name in {path.split()[0] for path, _ in options if path}:
        assert f"| `{name}` |" in page, name
    limits = [f"--{spec.name.replace('_', '-')}" for spec in fields(KeyLimits)]
    for path, action in options:
        for option in action.option_strings:
            if option.startswith("--") and option != "--help" and option not in limits:
                assert re.search(rf"(`|\s){option}\b", page), f"{path} {option}"


def test_the_simulated_models_are_documented() -> None:
    page = (ROOT / "docs/reference/simulated-models.md").read_text("utf-8")
    models, words = (set(re.findall(r"`([^`]+)`", cell)) for cell in _first_cells(page))
    assert {name for name in models if not re.search("[A-Z]", name)} == set(SCRIPTS)
    assert words == {*MODIFIERS, BUSY, LOST}


def _first_cells(page: str) -> list[str]:
    """The first cells of each table, joined."""
    tables = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    return [" ".join(row.split("|")[1] for row in table.splitlines()[2:]) for table in tables]
