"""Books the usage of each exchange: its cost by the price table, and its row in a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman import Usage
from dragoman.gateway import ServiceReport
from dragoman_server.accounts.usage.jsonl_file import JsonlFile
from dragoman_server.accounts.usage.options import JSONL, OFF, UsageOptions
from dragoman_server.accounts.usage.price_table import PriceTable
from dragoman_server.accounts.usage.row import row_of
from dragoman_server.accounts.usage.sink import RowSink
from dragoman_server.config.toml_reader import ConfigError
from dragoman_server.observability.ended_exchange import EndedExchange
from dragoman_server.observability.metric_families import USAGE_DROPPED, Totals

if TYPE_CHECKING:
    from decimal import Decimal


_CLOSE = 5.0
"""Seconds that the last rows have when the gateway closes."""


class UsageBook:
    """The usage of one gateway, by a table of prices. `totals` are its counters."""

    def __init__(self, options: UsageOptions, prices: PriceTable, totals: Totals) -> None:
        self._totals = totals
        self.configure(prices)
        self._path = options.file
        self._sink = _sink(options, self._drop) if options.kind != OFF else None

    @property
    def writes(self) -> bool:
        """True if rows are written."""
        return self._sink is not None

    def configure(self, prices: PriceTable) -> None:
        """Use these prices from now on."""
        self.prices = prices
        self._priced = bool(prices)

    def open(self) -> None:
        """Open the file. Raises ConfigError."""
        if self._sink is not None:
            try:
                self._sink.open()
            except (OSError, ValueError) as error:
                missing = isinstance(error, FileNotFoundError)
                why = f"the directory {os.path.dirname(self._path)} does not exist: create it" if missing else error
                raise ConfigError("usage.path", f"{self._path} cannot be used: {why}") from None

    async def close(self) -> None:
        """Write the last rows and close the file."""
        if self._sink is not None:
            await asyncio.to_thread(self._sink.close, _CLOSE)

    def cost(
        self,
        usage: Usage | None,
        model: str | None,
        provider: str | None = None,
        service: ServiceReport | None = None,
    ) -> Decimal | None:
        """Return the cost of an exchange; None if it has no usage, or its model no price.

        `service` is what the upstream stated about its service.
        """
        if usage is None or model is None or not self._priced:
            return None
        return self.prices.cost(usage, model, provider, service)

    def add(self, exchange: EndedExchange) -> None:
        """Book an exchange that has ended."""
        if self._sink is not None:
            self._sink.add(row_of(exchange))

    def _drop(self, rows: int) -> None:
        self._totals.add(USAGE_DROPPED, (), rows)


def _sink(options: UsageOptions, dropped: Callable[[int], None]) -> RowSink:
    """Return the sink of a gateway that writes rows."""
    if options.kind == JSONL:
        return RowSink(JsonlFile(options.file, options.max_bytes, options.files), dropped)
    from dragoman_server.accounts.usage.sqlite_file import SqliteFile  # 0.5 MB of memory

    return RowSink(SqliteFile(options.file, options.keep_days), dropped)
