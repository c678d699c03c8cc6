"""The documentation as a site: it builds without a warning, without a network, and has every page in its navigation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT
from website import hooks

DOCS = ROOT / "docs"
PAGES = [str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))]
CONFIGURATION = "docs/website/mkdocs.yml"
NO_NETWORK = """\
import socket, sys
def refuse(*_):
    raise OSError("the site needs the network")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from mkdocs.__main__ import cli
cli(sys.argv[1:])
"""


def named(entries: list[Any]) -> Iterator[str]:
    """The pages of a navigation, in its order."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        for below in entry.values():
            yield from named(below if isinstance(below, list) else [below])


def test_the_navigation_has_each_page_once() -> None:
    pages = [*PAGES, *hooks.ELSEWHERE.values()]
    nav = hooks.navigation((DOCS / "README.md").read_text("utf-8"), pages)
    assert sorted(named(nav)) == sorted(pages)
    assert [next(iter(each)) for each in nav] == ["Start", "Learn", "Do", "Look up", "Understand", "Work on Dragoman"]


def test_a_page_that_the_index_does_not_name_is_in_the_section_of_its_folder() -> None:
    index = "## Do\n\n### Run it\n\n- [One](howto/one.md)\n- [Many](howto/many/README.md)\n"
    pages = ["README.md", "howto/one.md", "howto/many/README.md", "howto/many/a.md", "howto/other.md", "reference/x.md"]
    assert hooks.navigation(index, pages) == [
        {"Start": ["README.md"]},
        {
            "Do": [
                {"Run it": [{"One": "howto/one.md"}, {"Many": ["howto/many/README.md", "howto/many/a.md"]}]},
                "howto/other.md",
            ]
        },
        {"Look up": ["reference/x.md"]},
    ]


def links(page: str) -> set[str]:
    """The pages below docs/ that a page links to."""
    text = (DOCS / page).read_text("utf-8")
    found = re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", text)
    return {os.path.relpath((DOCS / page).parent / target, DOCS) for target in found}


def test_every_page_is_within_three_pages_of_the_first_one() -> None:
    reached, last = {"README.md"}, {"README.md"}
    for _ in range(2):
        last = {target for page in last for target in links(page) if target in PAGES} - reached
        reached |= last
    assert sorted(set(PAGES) - reached) == []


@pytest.mark.parametrize("page", PAGES)
def test_lists_follow_an_empty_line(page: str) -> None:
    """Without it, the site shows a list as text."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2", "", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^(?! *[-*] | *\d+\. | |\||<|$).+\n(?:[-*]|1\.) .*", text, re.MULTILINE) == []


@pytest.mark.whole
def test_the_site_builds_without_a_warning_or_a_network(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NO_NETWORK, "build", "--strict", "-f", CONFIGURATION, "-d", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")}
    expected = {page.removesuffix(".md") for page in [*PAGES, *hooks.ELSEWHERE.values()]}
    assert made == {"404.html", *(re.sub(r"README$", "index", page) + ".html" for page in expected)}
    assert (tmp_path / "search/search_index.json").stat().st_size > 100_000
    html = (tmp_path / "index.html").read_text("utf-8")
    assert not re.search(r"<(?:link|script)[^>]*https?://", html), "the site loads nothing from other hosts"


@pytest.mark.whole
def test_a_wrong_link_fails_the_build(tmp_path: Path) -> None:
    """The strict build is one that can fail: on a page, and on an anchor, that do not exist."""
    for name in ("README.md", "howto/install.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "docs/README.md").write_text("# Docs\n\n- [Install](howto/install.md#nowhere)\n")
    (tmp_path / "docs/howto/install.md").write_text("# Install\n\n[Gone](gone.md)\n")
    text = (ROOT / CONFIGURATION).read_text("utf-8").replace("docs_dir: ..", "docs_dir: docs")
    (tmp_path / "mkdocs.yml").write_text(text.replace("hooks: [hooks.py]", ""))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert "nowhere" in done.stderr
    assert "gone.md" in done.stderr
