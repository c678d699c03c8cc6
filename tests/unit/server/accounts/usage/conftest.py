"""Ended exchanges for the tests of usage."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from dragoman import Dialect, Usage
from dragoman_server.accounts.usage.row import UsageRow, row_of
from dragoman_server.observability.ended_exchange import EndedExchange
from dragoman_server.receipt import Facts, Receipt
from support.named_keys import made

MakeExchange = Callable[..., EndedExchange]
USAGE = Usage(input_total=100, cache_read=10, cache_write=None, output_total=7, reasoning=3)


@pytest.fixture
def exchange() -> MakeExchange:
    """Makes an ended exchange; fields of it and of its receipt may be given, and the name of its key."""

    def make(number: int = 1, *, key: str | None = "team", **fields: Any) -> EndedExchange:
        receipt = Receipt(f"req_{number}", Dialect.CHAT, 1_790_000_000 + number, status=200, ended="completed")
        receipt.model, receipt.provider, receipt.route = "m", "p", "*"
        receipt.key = made(key)[1] if key is not None else None
        receipt.facts = Facts(Dialect.MESSAGES, "claude", True, USAGE, (), None)
        ended = EndedExchange(receipt, None, USAGE, (), Decimal("0.000123"), 1.23456, 0.5, 1)
        for name, value in fields.items():
            setattr(ended if hasattr(ended, name) else receipt, name, value)
        return ended

    return make


@pytest.fixture
def booked(exchange: MakeExchange) -> Callable[..., UsageRow]:
    """Makes a row; fields of the exchange may be given."""
    return lambda *args, **fields: row_of(exchange(*args, **fields))
