"""Books the usage of each exchange: its cost by the price table, and its row in a file."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from dragoman import Usage
from dragoman.gateway import ServiceReport
from dragoman.wire import Json, json_dumps
from dragoman_server.accounts.usage.begun import begun_entry, lost_row, with_entry
from dragoman_server.accounts.usage.jsonl_file import JsonlFile
from dragoman_server.accounts.usage.options import JSONL, OFF, STDOUT, UsageOptions
from dragoman_server.accounts.usage.price_table import PriceTable
from dragoman_server.accounts.usage.row import UsageRow, row_of
from dragoman_server.accounts.usage.sink import RowFile, RowSink
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.store_urls import POSTGRES
from dragoman_server.observability.ended_exchange import EndedExchange
from dragoman_server.observability.exchange_record import RUNNING
from dragoman_server.observability.metric_families import USAGE_DROPPED, USAGE_UNGUARDED, Totals
from dragoman_server.receipt import Receipt

if TYPE_CHECKING:
    from decimal import Decimal

    from dragoman_server.accounts.usage.journal import Journal
    from dragoman_server.accounts.usage.journal_writer import JournalWriter


_CLOSE = 5.0
"""Seconds that the last rows have when the gateway closes."""


class UsageBook:
    """The usage of one gateway, by a table of prices. `totals` are its counters."""

    def __init__(self, options: UsageOptions, prices: PriceTable, totals: Totals) -> None:
        self._totals = totals
        self.configure(prices)
        self._path = options.file
        self._sink: RowSink | None = None
        self._begun: JournalWriter | None = None
        self._held: dict[str, UsageRow] = {}
        self._taken: dict[str, Json] = {}
        """The entries of exchanges that other processes have begun, and that go on here."""
        if options.kind != OFF:
            journal = _journal(options)
            self._sink = RowSink(_file(options), self._drop, journal, self._lost_row)
            if journal is not None:
                from dragoman_server.accounts.usage.journal_writer import JournalWriter  # 0.1 MB of memory

                self._begun = JournalWriter(journal, self._add_unguarded)

    @property
    def writes(self) -> bool:
        """True if rows are written."""
        return self._sink is not None

    @property
    def keeps_begun(self) -> bool:
        """True if exchanges are in a journal from their beginning."""
        return self._begun is not None

    @property
    def failing(self) -> bool:
        """True if rows, or entries of the journal, cannot be written."""
        return (self._sink is not None and self._sink.failing) or (self._begun is not None and self._begun.failing)

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
            if self._begun is not None:
                self._begun.open()

    async def close(self) -> None:
        """Write the last rows and close the file."""
        if self._begun is not None:
            await asyncio.to_thread(self._begun.close)
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
        """Book an exchange that has ended; with `book_held`, if its receipt is held."""
        if self._sink is not None:
            receipt = exchange.receipt
            if receipt.is_held:
                self._held[receipt.request_id] = row_of(exchange)
            elif receipt.runs_on is None:
                self._sink.add(row_of(exchange))
            else:
                self._sink.add_missing(row_of(exchange))  # another process may have read the end

    async def book_held(self, request_id: str, *, elsewhere: bool) -> None:
        """Book an exchange that was held, unless another process has. Wait for its row to be written, but not long."""
        row, entry = self._held.pop(request_id, None), self._taken.pop(request_id, None)
        if row is not None and self._sink is not None and not elsewhere:
            if entry is None and row.ended != RUNNING:
                self._sink.add(row)
            elif entry is None:
                self._sink.add_missing(row)
            else:
                self._sink.add_missing(with_entry(row, entry))
            await self._sink.flush()

    def take_over(self, request_id: str, entry: Json) -> None:
        """Book an exchange with the entry of the process that has begun it. Its receipt is held."""
        self._taken[request_id] = entry

    def hand_over(self, request_id: str) -> None:
        """Remove the entry of an exchange from the journal soon: it is kept elsewhere from now on."""
        if self._sink is not None:
            self._sink.forget(request_id)

    async def begin(self, receipt: Receipt) -> None:
        """Enter an exchange in the journal, before its request is sent. The row of its end replaces the entry."""
        if self._begun is not None:
            await self._begun.begin(receipt.request_id, json_dumps(begun_entry(receipt)))

    def entry(self, receipt: Receipt) -> Json | None:
        """Return the entry of an exchange that is kept elsewhere, None if no rows are written."""
        return begun_entry(receipt) if self._sink is not None else None

    def add_lost(self, entry: Json) -> None:
        """Book the exchange of an entry whose process was killed, unless it is booked already."""
        if self._sink is not None:
            self._sink.add_missing(self._lost_row(entry))

    async def add_end(self, row: UsageRow) -> None:
        """Book the end of a response that its upstream ran, unless it is booked. Wait for that, but not long."""
        if self._sink is not None:
            self._sink.add_missing(row)
            await self._sink.flush()

    def _lost_row(self, entry: Json) -> UsageRow:
        return lost_row(entry, self.cost)

    def _add_unguarded(self, exchanges: int) -> None:
        self._totals.add(USAGE_UNGUARDED, (), exchanges)

    def _drop(self, rows: int) -> None:
        self._totals.add(USAGE_DROPPED, (), rows)


def _file(options: UsageOptions) -> RowFile:
    """Return the file of a gateway that writes rows."""
    if options.kind == JSONL:
        return JsonlFile(options.file, options.max_bytes, options.files)
    if options.kind == POSTGRES:
        from dragoman_server.accounts.usage.postgres_table import PostgresTable

        return PostgresTable(options)
    from dragoman_server.accounts.usage.sqlite_file import SqliteFile  # 0.5 MB of memory

    return SqliteFile(options.file, options.keep_days)


def _journal(options: UsageOptions) -> Journal | None:
    """Return the journal of a gateway that writes rows, or None."""
    if options.kind == POSTGRES:
        from dragoman_server.accounts.usage.postgres_journal import PostgresJournal

        return PostgresJournal(options)
    if options.file in ("", STDOUT):
        return None  # only a file has a place for a journal
    from dragoman_server.accounts.usage.journal import FileJournal

    return FileJournal(options.file)
