"""The version that `dragoman serve` prints is that of the package."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from dragoman_server.cli.installed_version import installed_version


def test_it_is_the_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert installed_version() == version("dragoman")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing"), ""])
    monkeypatch.chdir(tmp_path)
    assert installed_version() == "?"
    (tmp_path / "dragoman-1.2.3.dist-info").mkdir()
    assert installed_version() == "1.2.3"
