"""Hooks of MkDocs: the navigation of the site, and links to files that are not below docs/.

The navigation is that of docs/README.md: its headings are sections, its links pages. A page that it does not name is
at the end of its folder's section. CONTRIBUTING.md and bench/README.md, which are elsewhere in the repository, become
pages of the site; a link to any other file of the repository becomes its text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
ELSEWHERE = {"CONTRIBUTING.md": "contributing/README.md", "bench/README.md": "contributing/benchmarks.md"}
"""Pages outside docs/, by their place in the repository, and their place on the site."""
SECTIONS = {
    "tutorial": "Learn",
    "howto": "Do",
    "examples": "Do",
    "reference": "Look up",
    "explanation": "Understand",
    "contributing": "Work on Dragoman",
}
"""The sections of pages that the index does not name, by folder."""
_ENTRY = re.compile(r"^(#{2,3}) (.+)$|\[([^\]]+)\]\(([^)#]+\.md)\)", re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)

Nav = list[dict[str, Any]]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation."""
    pages = sorted((str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")), key=_natural)
    config.nav = navigation((DOCS / "README.md").read_text("utf-8"), [*pages, *ELSEWHERE.values()])
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not below docs/."""
    for source, uri in ELSEWHERE.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: object) -> str:
    """Change links between places of the repository to links between pages of the site."""
    uri = page.file.src_uri
    source = next((place for place, other in ELSEWHERE.items() if other == uri), f"docs/{uri}")
    return outside_fences(markdown, lambda text: _LINK.sub(lambda link: _link(link, source, uri, files), text))


def outside_fences(markdown: str, change: Any) -> str:
    """Return the text with all but its blocks of code changed."""
    parts, at = [], 0
    for fence in _FENCED.finditer(markdown):
        parts += [change(markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, change(markdown[at:])])


def _link(link: re.Match[str], source: str, uri: str, files: Files) -> str:
    image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
    if not target or ":" in target:
        return link[0]
    place = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    there = ELSEWHERE.get(place) or place.removeprefix("docs/")
    if files.get_file_from_path(there) is not None and (place in ELSEWHERE or place.startswith("docs/")):
        return f"{image}[{text}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{anchor})"
    if (ROOT / place).exists():
        return "" if image else text
    return link[0]  # MkDocs warns of it


def navigation(index: str, pages: list[str]) -> Nav:
    """Return the navigation by the headings and links of the index, and the other pages by their folders."""
    rest = [page for page in pages if page != "README.md"]
    nav: Nav = [{"Start": ["README.md"]}]
    section: list[Any] | None = None  # the links of the introduction are no entries
    for heading, name, title, target in _ENTRY.findall(index):
        if heading == "##":
            section = _section(nav, name)
        elif heading:
            section = _section(_section(nav, next(iter(nav[-1]))), name)
        elif section is not None and (page := _page(target)) in rest:
            section += _with_folder(title, page, rest)
    for page in list(rest):
        if page in rest:
            section = _section(nav, SECTIONS.get(page.partition("/")[0], "Look up"))
            section += _with_folder("", page, rest)
    return nav


def _natural(name: str) -> list[int | str]:
    """A key that sorts numbers in names by their value."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _page(target: str) -> str:
    """The page on the site that the index links to."""
    place = posixpath.normpath(posixpath.join("docs", target))
    return ELSEWHERE.get(place) or place.removeprefix("docs/")


def _with_folder(title: str, page: str, rest: list[str]) -> list[Any]:
    """The entry of a page, or the section of a folder if the page is its README. What is in it leaves `rest`."""
    rest.remove(page)
    folder = page.removesuffix("README.md")
    if folder in (page, "contributing/"):
        return [{title: page} if title else page]
    below = [other for other in rest if other.startswith(folder)]
    rest[:] = [other for other in rest if other not in below]
    return [{title or folder.rstrip("/").capitalize(): [page, *below]}]


def _section(nav: list[Any], name: str) -> list[Any]:
    """The section of this name, which is added if it is not there."""
    for entry in nav:
        if isinstance(entry, dict) and isinstance(entry.get(name), list):
            found: list[Any] = entry[name]
            return found
    nav.append({name: []})
    made: list[Any] = nav[-1][name]
    return made
