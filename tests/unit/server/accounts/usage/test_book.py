"""The book of a gateway's usage."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman import Usage
from dragoman_server.accounts.usage.book import UsageBook
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.price import Price
from dragoman_server.accounts.usage.price_table import PriceTable
from dragoman_server.accounts.usage.report import read_rows
from dragoman_server.config.config_error import ConfigError
from dragoman_server.observability.metric_families import Totals


async def test_exchanges_are_written_by_the_time_it_is_closed(tmp_path: Path, exchange: Callable[..., Any]) -> None:
    book = UsageBook(UsageOptions("jsonl", str(tmp_path / "u")), PriceTable({}), Totals())
    assert book.writes
    book.open()
    for number in range(3):
        book.add(exchange(number))
    await book.close()
    assert [json.loads(line)["id"] for line in (tmp_path / "u").read_text().splitlines()] == ["req_0", "req_1", "req_2"]


async def test_without_a_file_nothing_is_written(exchange: Callable[..., Any]) -> None:
    book = UsageBook(UsageOptions(), PriceTable({}), Totals())
    assert not book.writes
    book.open()
    book.add(exchange())
    await book.close()


def test_prices_can_be_replaced() -> None:
    book, usage = UsageBook(UsageOptions(), PriceTable({}), Totals()), Usage(output_total=10**6)
    assert book.cost(usage, "m") is None
    book.configure(PriceTable({"m": Price(output=2.0)}))
    assert book.cost(usage, "m") == Decimal(2)
    assert book.cost(None, "m") is None
    assert book.cost(usage, None) is None


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_a_file_that_cannot_be_used_is_a_problem_of_the_configuration(tmp_path: Path, kind: str) -> None:
    book = UsageBook(UsageOptions(kind, str(tmp_path / "missing" / "u")), PriceTable({}), Totals())
    with pytest.raises(ConfigError, match=r"usage\.path: .*: the directory .*/missing does not exist: create it$"):
        book.open()


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
async def test_an_exchange_that_is_held_is_booked_unless_another_process_has(
    tmp_path: Path, kind: str, exchange: Callable[..., Any]
) -> None:
    options = UsageOptions(kind, str(tmp_path / "u"))
    book = UsageBook(options, PriceTable({}), Totals())
    book.open()
    for number in range(3):
        book.add(exchange(number, is_held=True))
    await book.book_held("req_0", elsewhere=False)
    assert [row["id"] for row in read_rows(options)] == ["req_0"]  # it is written when this returns
    await book.book_held("req_1", elsewhere=True)
    await book.book_held("unknown", elsewhere=False)
    await book.close()
    assert [row["id"] for row in read_rows(options)] == ["req_0"]


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
async def test_an_exchange_of_a_killed_process_is_booked_once(
    tmp_path: Path, kind: str, exchange: Callable[..., Any]
) -> None:
    options = UsageOptions(kind, str(tmp_path / "u"))
    book = UsageBook(options, PriceTable({"claude": Price(input=2.0)}), Totals())
    book.open()
    book.add(exchange(1))
    entry = {"time": "2026-09-21T14:13:21Z", "client": "responses", "route": "", "upstream_model": "claude"}
    for number in (1, 2, 2):
        book.add_lost({**entry, "id": f"req_{number}", "input": 1000})
    await book.close()
    found = {row["id"]: (row["ended"], row["cost"]) for row in read_rows(options)}
    assert found == {"req_1": ("completed", 0.000123), "req_2": ("lost", 0.002)}
    assert len([*read_rows(options)]) == 2


async def test_without_a_file_there_are_no_entries() -> None:
    book = UsageBook(UsageOptions(), PriceTable({}), Totals())
    book.add_lost({"id": "req_1"})
    await book.book_held("req_1", elsewhere=False)
    assert (book.keeps_begun, book.failing) == (False, False)


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
async def test_an_exchange_that_goes_on_here_is_booked_for_its_client_once(
    tmp_path: Path, kind: str, exchange: Callable[..., Any]
) -> None:
    options = UsageOptions(kind, str(tmp_path / "u"))
    book = UsageBook(options, PriceTable({}), Totals())
    book.open()
    for _ in range(2):
        book.take_over("req_1", {"key": "team-a", "principal": "ann", "tag": "t", "attempts": 2, "input": 7})
        book.add(exchange(1, is_held=True))
        await book.book_held("req_1", elsewhere=False)
    book.hand_over("req_2")
    await book.close()
    (row,) = read_rows(options)
    assert (row["id"], row["key"], row["principal"], row["tag"], row["attempts"]) == ("req_1", "team-a", "ann", "t", 2)
    assert row["ended"] == "completed"
