"""Sums of usage as CSV (RFC 4180), for spreadsheets."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from typing import TextIO

from dragoman.gateway import quote
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.report import COUNT_NAMES, NOTES, Groups, Sum

_FORMULA = ("=", "+", "-", "@")
"""The beginnings of cells that a spreadsheet may take for a formula: clients choose the names of models, and tags."""
_DIGITS = len(str(UNITS)) - 1


def write_csv(file: TextIO, dimensions: Sequence[str], found: Mapping[Groups, Sum]) -> None:
    """Write a line with the names of the columns, and one for each group.

    Costs are decimals without an exponent. A text that a spreadsheet may take for a formula gets an apostrophe; control
    characters, such as the end of a line, are escaped.
    """
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow([*dimensions, "exchanges", *COUNT_NAMES, "searches", "cost", *NOTES])
    for groups, each in found.items():
        counts = [each.counts[name] for name in COUNT_NAMES]
        numbers = [each.exchanges, *counts, each.searches, _written_cost(each.cost)]
        lines.writerow([*map(_safe, groups), *numbers, *(getattr(each, name) for name in NOTES)])


def _safe(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    text = quote(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _written_cost(units: int) -> str:
    whole, part = divmod(abs(units), UNITS)
    return f"{'-' * (units < 0)}{whole}.{part:0{_DIGITS}d}"
