"""Configurations of the scenarios."""

from __future__ import annotations

from pathlib import Path

_BASE = """
[models]
unknown = "pass"
discover = false

[providers.up]
dialect = "chat"
base_url = "{url}"
"""


def written(folder: Path, url: str, more: str = "") -> Path:
    """Write a configuration with the provider `up` at `url`, and return its path."""
    file = folder / "dragoman.toml"
    file.write_text(_BASE.format(url=url) + more)
    return file
