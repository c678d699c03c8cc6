"""The version that the package reports, and the revision that it was built from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from dragoman_server.observability import installed_version as module
from dragoman_server.observability.installed_version import installed_version, revision, revision_of


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    revision.cache_clear()
    yield
    revision.cache_clear()


def git(folder: Path, *arguments: str) -> str:
    """The output of a git command that reads no configuration of the user."""
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    names = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **settings, **names},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert installed_version() == version("dragoman")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing"), ""])
    monkeypatch.chdir(tmp_path)
    assert installed_version() == "?"
    (tmp_path / "dragoman-1.2.3.dist-info").mkdir()
    assert installed_version() == "1.2.3"


def test_a_checkout_has_the_revision_of_its_last_commit(tmp_path: Path) -> None:
    assert revision_of(tmp_path) == ""
    git(tmp_path, "init", "-q")
    assert revision_of(tmp_path) == "", "no commit"
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "One")
    git(tmp_path, "tag", "v1")
    assert revision_of(tmp_path) == git(tmp_path, "rev-parse", "HEAD")[:12]
    (tmp_path / "file").write_text("2")
    assert revision_of(tmp_path) == f"{git(tmp_path, 'rev-parse', 'HEAD')[:12]}-dirty"


def test_without_git_the_revision_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert revision_of(tmp_path) == ""


def test_a_built_package_has_its_revision_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_HERE", tmp_path)
    monkeypatch.setattr(module, "_CHECKOUT", tmp_path)
    assert revision() == "unknown"
    revision.cache_clear()
    (tmp_path / "revision.txt").write_text("0123456789ab\n")
    assert revision() == "0123456789ab"
