"""docs/changelog.md can be read on two screens, and has the version of the project."""

from __future__ import annotations

import re
import tomllib

from support.paths import ROOT

TEXT = (ROOT / "docs/changelog.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (\S+).*?\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))


def entries(section: str) -> list[str]:
    """The lines of a section's list. A line that is not one belongs to no entry."""
    lines = re.sub(r"<!--.*?-->", "", SECTIONS[section], flags=re.DOTALL).splitlines()
    return [line for line in lines if line and not re.match(r"#|\*\*[^*]+\*\*$", line)]


def test_what_is_not_released_is_a_line_each() -> None:
    found = entries("Unreleased")
    assert [line for line in found if not line.startswith("- ") or len(line) > 200] == []
    assert len(found) == len(set(found)), "an entry is there twice"


def test_the_release_fits_on_two_screens() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert list(SECTIONS)[1] == version
    text = SECTIONS[version]
    assert re.findall(r"^### (.*)", text, re.MULTILINE) == ["Added", "Changed", "When you upgrade"]
    found = [line for line in entries(version) if line.startswith("- ")]
    assert 40 < len(found) <= 80
    assert max(map(len, found)) <= 200
    assert text.count("\n") <= 110
    assert not re.search(r"instructions|µs|×|%", text), "figures belong to bench/results"
