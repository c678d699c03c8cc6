"""The files of docs/deploy."""

from __future__ import annotations

import re

from support.paths import ROOT

DEPLOY = ROOT / "docs/deploy"


def instructions(stage: int = -1) -> list[tuple[str, str]]:
    """The instructions of a stage of the Dockerfile, and their arguments."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE))
    stages = re.split(r"^(?=FROM )", text, flags=re.MULTILINE)[1:]
    lines = [line.partition(" ") for line in stages[stage].splitlines() if line]
    return [(word, rest.strip()) for word, _, rest in lines]
