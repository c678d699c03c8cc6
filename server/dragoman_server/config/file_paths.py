"""Paths of files that a configuration names."""

from __future__ import annotations

import os

NOT_FILES = frozenset(("", "-", ":memory:"))
"""Values of a key for a file that are no paths: standard output, and SQLite's database in memory."""


def directory_of(path: str | os.PathLike[str]) -> str:
    """Return the directory to which a file's paths are relative: its own. For a pipe, it is the working directory."""
    return os.path.dirname(os.path.abspath(path)) if os.path.isfile(path) else os.getcwd()


def located(path: str, directory: str) -> str:
    """Return a path of the configuration with `~` expanded, and in `directory` if it is relative."""
    return path if path in NOT_FILES else os.path.join(directory, os.path.expanduser(path).removeprefix("./"))
