"""Rules that comments and pages cite can be looked up: `mapping §9.6` is a section of a page in docs/reference.

A citation is the name of a page and one or more sections: `chat §7.3`, `mapping §9.1 to §9.4`, `mapping §6.1, §6.2`.
The page is docs/reference/<name>.md or, for the mapping, one of the pages in docs/reference/mapping. Specifications are
cited as `RFC 9112 §9.6`, decisions as `decision 0002`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from support.paths import ROOT

REFERENCE = ROOT / "docs/reference"
PAGES = {
    "mapping": sorted((REFERENCE / "mapping").glob("*.md")),
    "chat": [REFERENCE / "chat.md"],
    "messages": [REFERENCE / "messages.md"],
    "responses": [REFERENCE / "responses.md"],
    "streams": [REFERENCE / "streams.md"],
}
_NUMBER = r"\d+(?:\.\d+)*"
_CITATION = re.compile(
    rf"(?P<page>RFC \d+|WHATWG|[A-Za-z][\w-]*)? ?§(?P<first>{_NUMBER})(?P<more>(?:(?:, | and | to )§{_NUMBER})*)"
)
_ANCHOR = re.compile(rf'^<a id="s([\d-]+)"></a>\n#+ ({_NUMBER}) ', re.MULTILINE)
_SPECIFICATION = re.compile(r"RFC \d+|WHATWG")
_LINE_BREAK = re.compile(r"\s*\n\s*(?:# ?|> )?")
"""Citations may be wrapped, in comments too."""
_SIGN = re.compile("§")
_NO_CITATION = ROOT / "tests/conformance/cases.py"
"""A file with the sign in a stop sequence."""


class Citation(NamedTuple):
    place: str
    page: str
    section: str


def sections(pages: list[Path]) -> list[str]:
    """The numbers of the sections with an anchor."""
    return [number for page in pages for _, number in _ANCHOR.findall(page.read_text("utf-8"))]


@cache
def one_line(path: Path) -> str:
    """The text of a file that has the sign, without its line breaks; empty for another file."""
    text = path.read_text("utf-8")
    return _LINE_BREAK.sub(" ", text) if _SIGN.search(text) else ""


def citations(path: Path) -> list[Citation]:
    """Every citation of the file, a list of sections as one for each; the page is empty where none is named."""
    text = one_line(path)
    place = str(path.relative_to(ROOT))
    return [
        Citation(place, (match["page"] or "").lower(), number)
        for match in _CITATION.finditer(text)
        for number in re.findall(_NUMBER, match["first"] + match["more"])
    ]


@cache
def sources() -> list[Path]:
    """The files that may cite."""
    return sorted(
        path
        for folder, pattern in (
            ("engine", "*.py"),
            ("server", "*.py"),
            ("bench", "*.py"),
            ("tests", "*.py"),
            ("docs", "*.md"),
        )
        for path in (ROOT / folder).rglob(pattern)
        if path != Path(__file__)
    )


@cache
def all_citations() -> list[Citation]:
    """The citations of all files."""
    return [citation for path in sources() for citation in citations(path)]


ANCHORS = {name: frozenset(sections(pages)) for name, pages in PAGES.items()}


def test_every_citation_is_a_section() -> None:
    unknown = [
        citation
        for citation in all_citations()
        if not _SPECIFICATION.fullmatch(citation.page.upper())
        and citation.section not in ANCHORS.get(citation.page, ())
    ]
    assert unknown == []


def test_every_section_sign_is_of_a_citation() -> None:
    signs = [
        str(path) for path in sources() if path != _NO_CITATION and _SIGN.search(_CITATION.sub("", one_line(path)))
    ]
    assert signs == []


def test_citations_are_found() -> None:
    assert len(all_citations()) > 300
    assert {citation.page for citation in all_citations()} > PAGES.keys() - {"streams"}


@pytest.mark.parametrize("name", PAGES)
def test_sections_have_numbers_of_their_own(name: str) -> None:
    pages = PAGES[name]
    numbers = sections(pages)
    assert len(numbers) == len(set(numbers)) > 0
    for page in pages:
        text = page.read_text("utf-8")
        anchors = _ANCHOR.findall(text)
        assert [anchor.replace("-", ".") for anchor, _ in anchors] == [number for _, number in anchors]
        assert len(anchors) == text.count("<a id="), page
        assert len(anchors) == len(re.findall(rf"^#+ {_NUMBER} ", text, re.MULTILINE)), page


def test_every_section_of_the_mapping_is_in_its_contents() -> None:
    first, *others = sorted(PAGES["mapping"], key=lambda page: page.name != "README.md")
    contents = first.read_text("utf-8").partition('<a id="s0">')[0]
    listed = set(re.findall(r"\]\(([\w.-]+)#s[\d-]+\)", contents))
    assert listed == {page.name for page in others}
    for page in others:
        linked = [number.replace("-", ".") for number in re.findall(rf"\]\({page.name}#s([\d-]+)\)", contents)]
        assert linked == sections([page])


def test_every_cited_decision_exists() -> None:
    numbers = {path.name[:4] for path in (ROOT / "docs/decisions").glob("*.md")}
    cited = {number for path in sources() for number in re.findall(r"\bdecisions? (\d{4})\b", path.read_text("utf-8"))}
    assert cited
    assert cited <= numbers


_DIRECTIONS = {
    "3": "messages_from_chat",
    "4": "responses_from_chat",
    "5": "chat_from_messages",
    "6": "responses_from_messages",
    "7": "chat_from_responses",
    "8": "messages_from_responses",
}


@pytest.mark.parametrize("number", _DIRECTIONS)
def test_a_stream_of_the_page_is_the_worked_one(number: str) -> None:
    page = (REFERENCE / "streams.md").read_text("utf-8")
    section = page.partition(f'<a id="s{number}"></a>')[2].partition("<a id=")[0]
    cells = [line.split(" | ")[1].removesuffix(" |") for line in section.splitlines() if line.startswith("| ")][1:]
    lines = [line for cell in cells for line in cell.split("<br>") if line != "–"]
    tables = (ROOT / "tests/golden/worked.txt").read_text("utf-8").split("== ")
    worked = next(table for table in tables if table.startswith(f"{_DIRECTIONS[number]}/thinking_text_tool\n"))
    assert [re.sub(r"\b(msg|rs|fc)_u", r"\1_x", line) for line in lines] == worked.split("\n")[1:-2]


@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
def test_the_gemini_streams_of_the_page_are_the_worked_ones(client: str) -> None:
    page = (REFERENCE / "streams.md").read_text("utf-8")
    table = [
        line.strip("| ").split(" | ") for line in page.partition('<a id="s10"></a>')[2].splitlines() if " | " in line
    ]
    column = next(index for index, title in enumerate(table[0]) if client in title.lower())
    lines = [line for row in table[1:] for line in row[column].split("<br>") if line != "–"]
    tables = (ROOT / "tests/golden/worked.txt").read_text("utf-8").split("== ")
    worked = next(table for table in tables if table.startswith(f"{client}_from_generate/thinking_tool\n"))
    assert lines == worked.split("\n")[1:-2]


def rows(page: str, heading: str = "") -> list[str]:
    """The first cells of the tables in a section of a reference page, which other tests compare with the code."""
    text = (REFERENCE / page).read_text("utf-8")
    section = re.split(r"\n#+ ", text.partition(f"# {heading}\n")[2])[0] if heading else text
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "heading"),
    [("losses.md", ""), ("configuration.md", "`[knobs]`"), ("configuration.md", "`[providers.NAME.profile_flags]`")],
)
def test_the_mapping_names_every_loss_knob_and_flag(page: str, heading: str) -> None:
    words = {word for page in PAGES["mapping"] for word in re.findall(r"`([a-z_0-9]+)", page.read_text("utf-8"))}
    names = rows(page, heading)
    assert len(names) > 20
    assert [name for name in names if name not in words] == []
