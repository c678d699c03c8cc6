"""The table `[prices]` of the file, and the file of further prices that it may name."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dragoman_server.accounts.usage.price import Price
from dragoman_server.accounts.usage.price_table import PriceTable
from dragoman_server.config.config_error import Problem, join
from dragoman_server.config.toml_reader import Table

FILE = "file"
"""The key of `[prices]` that names a file. A price of a model with this name needs a pattern: `fil?`."""
_IMPORT = "`dragoman prices import` writes one"


@dataclass(frozen=True)
class PriceFile:
    """The prices of a file: for all providers by pattern, and of single providers by their names.

    They are for models that have no price in the configuration itself.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)
    providers: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)

    def table(self) -> PriceTable:
        """Return the prices as a table."""
        return PriceTable(self.prices, self.providers)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the prices, with their paths in the file."""
        for pattern, price in self.prices.items():
            yield from price.problems(join("prices", pattern))
        for name, prices in self.providers.items():
            for pattern, price in prices.items():
                yield from price.problems(join(join("providers", name) + ".prices", pattern))


def read_prices(table: Table) -> tuple[dict[str, Price], PriceFile]:
    """Return the prices of the configuration and those of the file that it names; problems go to the table."""
    path = table.file_path(FILE)
    prices = {name: table.section(name, Price) for name in table if name != FILE}
    return prices, PriceFile() if path is None else _read_file(path, table)


def _read_file(path: str, table: Table) -> PriceFile:
    try:
        data = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        table.report(FILE, f"{path} cannot be read: {error.strerror}; {_IMPORT}")
        return PriceFile()
    except ValueError as error:
        table.report(FILE, f"{path} is not TOML: {error}; {_IMPORT}")
        return PriceFile()
    problems: list[Problem] = []
    root = Table(data, "", {}, problems)
    prices, providers = root.sections("prices", Price), root.table("providers")
    found = PriceFile(prices, {name: _prices_of(providers.table(name)) for name in providers})
    root.finish()
    for where, message in problems or found.problems():
        table.report(FILE, f"{path}: {where}: {message}")
    return found


def _prices_of(table: Table) -> dict[str, Price]:
    found = table.sections("prices", Price)
    table.finish()
    return found
