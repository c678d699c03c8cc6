"""Sums as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from dragoman_server.accounts.usage.report import COUNT_NAMES, Sum, sums
from dragoman_server.accounts.usage.report_csv import write_csv


def written(dimensions: tuple[str, ...], found: dict[tuple[str, ...], Sum]) -> str:
    file = io.StringIO(newline="")
    write_csv(file, dimensions, found)
    return file.getvalue()


def test_a_line_for_each_group(booked: Callable[..., Any]) -> None:
    rows = [vars(booked(1, cost=Decimal("0.1"))), vars(booked(2, cost=None, ended="failed", estimated=("reasoning",)))]
    assert written(("key", "model"), sums(rows, ("key", "model"))) == (
        "key,model,exchanges,input,cache_read,cache_write,cache_write_1h,output,reasoning,searches,cost,unpriced,"
        "estimated,partial,lost,running\n"
        "team,claude,2,200,20,0,0,14,6,0,0.100000000,1,1,1,0,0\n"
    )


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_no_text_of_a_client_is_a_formula(booked: Callable[..., Any], start: str) -> None:
    rows = [vars(booked(model=f"{start}cmd|'/c calc'!A1", facts=None, tag=f"{start}1,2"))]
    [_, line] = csv.reader(io.StringIO(written(("model", "tag"), sums(rows, ("model", "tag"))), newline=""))
    assert line[:2] == [f"'{start}cmd|'/c calc'!A1", f"'{start}1,2"]


def test_control_characters_are_escaped() -> None:
    assert written(("tag",), {("\t=1\r\n2\x1b",): Sum()}).splitlines()[1].startswith("\\t=1\\r\\n2\\x1b,0,")


def test_other_texts_stay_as_they_are() -> None:
    names = ('a "b", c', "a-b=c@d+e", "Grüße 東", "")
    [_, *lines] = csv.reader(io.StringIO(written(("tag",), {(name,): Sum() for name in names}), newline=""))
    assert [line[0] for line in lines] == [*names]
    assert all(len(line) == len(COUNT_NAMES) + 9 for line in lines)


@pytest.mark.parametrize(
    ("units", "text"), [(0, "0.000000000"), (1, "0.000000001"), (12_345_678_901, "12.345678901"), (-5, "-0.000000005")]
)
def test_a_cost_is_exact_and_has_no_exponent(units: int, text: str) -> None:
    assert f",{text},0,0,0,0,0\n" in written(("tag",), {("a",): Sum(cost=units)})
