"""The accounts of a gateway over its life: opened with it, and adapted when its configuration changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.schema import Config
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.auth import presented_keys

if TYPE_CHECKING:
    from dragoman_server.accounts.accounts import Accounts  # 0.2 MB of memory, for named keys only
    from dragoman_server.accounts.limits.prices import Prices

log = logging.getLogger("dragoman")


class NamedKeys:
    """Holds the `accounts` of a configuration with named keys; None as long as there was no such configuration.

    `totals` are the gateway's counters, `prices` its price table, and `now` returns Unix seconds.
    """

    def __init__(self, config: Config, totals: Totals, prices: Prices | None, now: Callable[[], float]) -> None:
        self._totals = totals
        self._prices = prices
        self._now = now
        self._opening: asyncio.Task[None] | None = None
        self.accounts = self._accounts_of(config) if config.named_keys else None

    def _accounts_of(self, config: Config) -> Accounts:
        from dragoman_server.accounts.accounts import Accounts  # imported for gateways with named keys

        records = tuple(config.keys.values())
        return Accounts(records, config.store, totals=self._totals, prices=self._prices, now=self._now)

    @property
    def unavailable(self) -> bool:
        """True while the store does not answer."""
        return self.accounts is not None and not self.accounts.healthy

    @property
    def keys_unavailable(self) -> bool:
        """True while a store of the keys alone does not answer."""
        return self.accounts is not None and not self.accounts.keys.healthy

    @property
    def keys_known(self) -> bool:
        """False as long as the keys in the store were never read."""
        return self.accounts is None or self.accounts.keys.known

    @property
    def keys_lost(self) -> bool:
        """True while the store has lost keys."""
        return self.accounts is not None and self.accounts.keys.lost

    def name_in(self, headers: Mapping[str, str]) -> str:
        """Return the name of the named key in a request's headers, or an empty text."""
        if self.accounts is not None:
            for key in presented_keys(headers):
                if (record := self.accounts.keys.find(key)) is not None:
                    return record.name
        return ""

    async def open(self) -> None:
        """Open the store. Raises ConfigError if it cannot be used."""
        if self.accounts is None:
            return
        from dragoman_server.accounts.store.interface import StoreError  # a part of these 0.2 MB

        try:
            await self.accounts.open()
        except StoreError as error:
            raise ConfigError("store", str(error)) from None

    def configure(self, config: Config) -> bool:
        """Use the named keys of a new configuration. Return False if its store needs a restart."""
        if self.accounts is not None:
            return self.accounts.configure(tuple(config.keys.values()), config.store)
        if config.named_keys:
            self.accounts = self._accounts_of(config)
            self._opening = asyncio.get_running_loop().create_task(self._open_later())
        return True

    async def _open_later(self) -> None:
        try:
            await self.open()
        except ConfigError as error:
            log.error("limits and named keys cannot be used: %s", error)

    async def close(self) -> None:
        """Settle what is pending, and close the store."""
        if self._opening is not None:
            self._opening.cancel()
        if self.accounts is not None:
            await self.accounts.close()
