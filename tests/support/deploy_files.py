"""The files of docs/deploy."""

from __future__ import annotations

import fnmatch
import re
import shutil
from pathlib import Path

from support.paths import ROOT

DEPLOY = ROOT / "docs/deploy"


def instructions(stage: int = -1) -> list[tuple[str, str]]:
    """The instructions of a stage of the Dockerfile, and their arguments."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE))
    stages = re.split(r"^(?=FROM )", text, flags=re.MULTILINE)[1:]
    lines = [line.partition(" ") for line in stages[stage].splitlines() if line]
    return [(word, rest.strip()) for word, _, rest in lines]


def copy_context(target: Path) -> None:
    """Copy what the image is built from, as the Dockerfile's .dockerignore selects it."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    left_out = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    for name in (line.removeprefix("!") for line in lines if line.startswith("!")):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns(*left_out), dirs_exist_ok=True)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    assert not any(fnmatch.fnmatch(path.name, "*.py[co]") for path in target.rglob("*"))


def size(root: Path) -> int:
    """The bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
