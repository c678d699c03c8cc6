"""Tables of all pages: each is one block, with a delimiter row and as many cells in each row (GFM, "Tables")."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from support.paths import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_CODE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2`* *$", re.MULTILINE | re.DOTALL)
_DELIMITERS = re.compile(r"\|(?: *:?-+:? *\|)+")


def broken(text: str) -> list[str]:
    """The first lines of the tables that would not be shown as such."""
    found = []
    for is_row, lines in groupby(_CODE.sub("", text).splitlines(), lambda line: line.lstrip().startswith("|")):
        rows = [line.strip() for line in lines] if is_row else []
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
        if rows and (len(rows) < 2 or not _DELIMITERS.fullmatch(rows[1]) or len(cells) > 1):
            found.append(rows[0])
    return found


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_each_table_is_whole(page: Path) -> None:
    assert not broken(page.read_text("utf-8"))


def test_what_breaks_a_table() -> None:
    head = "| a | b |\n| --- | :-: |\n"
    assert not broken(head + "| 1 | `x\\|y` |\n")
    assert not broken("```\n| a |\n```\n")
    assert broken(head + "| 1 | 2 |\n\n| 3 | 4 |\n") == ["| 3 | 4 |"]
    assert broken(head + "| 1 | 2 | 3 |\n") == ["| a | b |"]
