"""The documented programs pass `mypy --strict`, as a reader's own project may run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
WRONG = """\
from aiohttp import web
from dragoman import direction
from dragoman_server import Config, Dialect, Principal, Target, setup

way: int = direction("chat", "messages")


async def authorize(request: web.Request) -> Principal[str] | None:
    return None


async def choose(request: web.Request, model: str, dialect: Dialect, principal: Principal[int] | None) -> Target | None:
    return None


setup(web.Application(), Config(), authorize=authorize, choose=choose)
"""
"""A program with two mistakes: a type, and hooks that disagree about the type of a user."""
CACHE = ROOT / ".mypy_cache" / "examples"


def programs() -> dict[str, str]:
    """The Python programs of the pages by page and number. A block without imports is an excerpt, and none."""
    found: dict[str, str] = {}
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        whole = [block for block in blocks if re.match(r"(import|from) ", block)]
        name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        found |= {f"{name}_{number}": block for number, block in enumerate(whole, 1)}
    return found


def errors(folder: Path, sources: dict[str, str]) -> list[str]:
    """Return what mypy reports of these modules, with the project's own settings switched off."""
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    options = ["--strict", "--python-version=3.11", f"--config-file={os.devnull}", f"--cache-dir={CACHE}"]
    files = [f"{name}.py" for name in sources]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    return [line for line in run.stdout.splitlines() if ": error:" in line]


@pytest.mark.whole
def test_the_documented_programs_are_typed(tmp_path: Path) -> None:
    """A program with a mistake is among them, so that a run which checks nothing does not pass."""
    found = programs()
    assert len(found) >= 12
    reported = errors(tmp_path, found | {"wrong": WRONG})
    assert [line for line in reported if not line.startswith("wrong.py:")] == []
    assert [int(line.split(":")[1]) for line in reported] == [5, 16]
