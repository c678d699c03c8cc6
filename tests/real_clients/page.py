"""The table of real clients as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from real_clients.contract import Client, Outcome
from real_clients.rounds import UPSTREAMS, Round

PAGE = Path(__file__).parents[2] / "docs/reference/clients.md"
HEADINGS = {"agent": "Agents", "sdk": "SDKs", "framework": "Frameworks"}
_REASON = 300
"""Longest reason of a failed cell, in characters."""
_HEAD = """\
# Real clients

<!-- Made by `python tests/real_clients/table.py --write`: do not edit. -->

These are real programs, as their vendors publish them. They run against a live gateway with a simulated upstream of
each dialect. In every cell the client works through a session with its own tools, which really run.

- An **agent** writes a file and runs commands in an empty project: two parallel calls and one after them, in a stream
  with reasoning, text and calls. At the end it must repeat a word that is in no prompt, only in a tool's output.
- An **SDK** or **framework** calls a function that returns such a word: streamed and whole, after reasoning, twice in
  one reply, and by its own tool runner if it has one. It must show the reasoning and the token usage. It must report
  a 429, a 529, an error in the stream and a cut connection by its own exceptions.

The upstream checks each request as its vendor does, and rejects reasoning that it did not sign. ✓ means that the tool
ran, the word came back, and neither upstream nor gateway rejected anything.

`python tests/real_clients/table.py` fetches the clients from npm and PyPI, runs all cells and prints this table.
`--only NAME` runs a part of it. The same cells are tests: `DRAGOMAN_CLIENTS=1 pytest tests/real_clients`.

"""
_NOTE = """\
1. The client requests no reasoning here, and Gemini shows it only if a request does.
"""
_LOST = """
## What is changed on the way

These are the [losses](losses.md) of each session, by code. There are few if the client and the upstream speak the
same dialect, because bytes are forwarded.

"""


def page(clients: Sequence[Client], seen: Mapping[tuple[str, str], Round]) -> str:
    """The whole page."""
    return _HEAD + tables(clients, UPSTREAMS, seen) + _LOST + _losses(clients, UPSTREAMS, seen)


def tables(clients: Sequence[Client], upstreams: Sequence[str], seen: Mapping[tuple[str, str], Round]) -> str:
    """A table for each kind of client, the note, and the reasons of what failed."""
    parts = []
    for kind, heading in HEADINGS.items():
        of_kind = [client for client in clients if client.kind == kind]
        if of_kind:
            rows = [
                row(client, [_mark(seen.get((client.name, upstream))) for upstream in upstreams]) for client in of_kind
            ]
            head = ["client", "packages", "speaks", *(f"{upstream} upstream" for upstream in upstreams)]
            parts.append(f"## {heading}\n\n{_table(head, rows)}")
    if any(not played.reasoning for played in seen.values()):
        parts.append(_NOTE)
    failed = [(*cell, played) for cell, played in seen.items() if played.wrong]
    if failed:
        reasons = [f"- {name} · {upstream}: {_line(played.wrong)}\n" for name, upstream, played in failed]
        parts.append("## Failed\n\n" + "".join(reasons))
    return "\n".join(parts)


def row(client: Client, marks: Iterable[str]) -> list[str]:
    """One client's cells."""
    packages = " ".join(f"`{package}`" for package in client.packages)
    return [client.name, packages, f"`{client.dialect}`", *marks]


def kept(text: str, upstreams: Sequence[str]) -> dict[tuple[str, str], Round]:
    """The rounds that a page has of these upstreams, as far as it shows them."""
    found: dict[tuple[str, str], Round] = {}
    marks, _, losses = text.partition(_LOST.strip().partition("\n")[0])
    for cells in _cells(losses):
        for upstream, codes in cells.items():
            if upstream in upstreams:
                counted = dict.fromkeys(re.findall(r"`(\w+)`", codes), 1)
                found[cells["client"], upstream] = Round(Outcome(True, True, "", ""), "", 0, counted)
    for cells in _cells(marks):
        for upstream in [each for each in upstreams if each in cells]:
            mark, played = cells[upstream], found[cells["client"], upstream]
            wrong = "" if mark.startswith("✓") else "see the run of this upstream"
            found[cells["client"], upstream] = replace(played, wrong=wrong, reasoning="<sup>" not in mark)
    return found


def _cells(text: str) -> Iterator[dict[str, str]]:
    """The rows of the tables, by the titles of their columns; that of an upstream is its name."""
    titles: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            titles = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not titles:
            titles = [title.removesuffix(" upstream") for title in cells]
        elif set(cells) != {"---"}:
            yield dict(zip(titles, cells, strict=True))


def _losses(clients: Sequence[Client], upstreams: Sequence[str], seen: Mapping[tuple[str, str], Round]) -> str:
    rows = []
    for client in clients:
        cells = []
        for upstream in upstreams:
            played = seen.get((client.name, upstream))
            cells.append(" ".join(f"`{code}`" for code in played.losses) if played else "")
        rows.append([client.name, *(cell or "–" for cell in cells)])
    return _table(["client", *(f"{upstream} upstream" for upstream in upstreams)], rows)


def _mark(played: Round | None) -> str:
    if played is None:
        return ""
    return "✗" if played.wrong else "✓" if played.reasoning else "✓<sup>1</sup>"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text)[:_REASON]
