"""The configuration to start from."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

import pytest

from dragoman_server.cli.starter_config import STARTER, main
from dragoman_server.config.json_schema import SCHEMA_FILE, schema_text
from dragoman_server.config.load import parse_config


def test_it_is_a_valid_configuration() -> None:
    config = parse_config(tomllib.loads(STARTER), {})
    assert [(route.model, route.provider) for route in config.routes] == [("*", "local")]


def test_a_file_is_overwritten_only_by_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("mine")
    assert main(argparse.Namespace(file=str(path), force=False)) == 1
    assert path.read_text() == "mine"
    assert not (tmp_path / SCHEMA_FILE).exists()
    assert "--force overwrites it" in capsys.readouterr().err
    assert main(argparse.Namespace(file=str(path), force=True)) == 0
    assert path.read_text() == STARTER
    # Its first line refers to the schema next to it.
    assert (tmp_path / SCHEMA_FILE).read_text() == schema_text()


def test_it_can_be_written_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argparse.Namespace(file="-", force=False)) == 0
    assert capsys.readouterr().out == STARTER
