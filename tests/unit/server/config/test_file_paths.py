"""Paths of files in a configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman_server.config.file_paths import NOT_FILES, directory_of, located


def test_a_relative_path_is_in_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    given = ("a.db", "./a.db", "~/a.db", "/a.db")
    assert [located(path, "/etc") for path in given] == ["/etc/a.db", "/etc/a.db", "/home/ada/a.db", "/a.db"]
    assert {located(name, "/etc") for name in NOT_FILES} == NOT_FILES


def test_the_directory_of_a_pipe_is_the_working_directory(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.touch()
    os.mkfifo(tmp_path / "pipe")
    assert directory_of(file) == str(tmp_path)
    assert directory_of(tmp_path / "pipe") == os.getcwd()
