"""Configurations of the scenarios."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dragoman_proof.chaos.scenario import holds

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


async def added_key(config: Path, name: str, *limits: str) -> dict[str, str]:
    """Add a key to the store of a configuration, and return its header."""
    arguments = (sys.executable, "-m", "dragoman_server", "keys", "add", name, "-c", str(config), *limits)
    done = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, timeout=60)
    holds(done.returncode == 0, "a key is added", done.stderr)
    return {"authorization": f"Bearer {done.stdout.strip()}"}


async def booked(config: Path) -> tuple[int, int]:
    """The numbers of exchanges, and of those that were lost, that `dragoman usage` reports."""
    arguments = ("-m", "dragoman_server", "usage", "-c", str(config), "--by", "ended", "--json")
    done = await asyncio.to_thread(subprocess.run, [sys.executable, *arguments], capture_output=True, timeout=60)
    rows: list[Any] = json.loads(done.stdout or '{"data": []}')["data"]
    counts = {row["ended"]: int(row["exchanges"]) for row in rows}
    return sum(counts.values()), counts.get("lost", 0)
