"""The keys of a store, as a gateway knows them: read again when they change, and kept when the store loses them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress

from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.store.interface import KeyStore, StoredKeys, StoreError

log = logging.getLogger("dragoman")
RETRY = 1.0
"""Seconds between two attempts to reach a store of keys that did not answer."""
_LOST_AGAIN = 600.0
"""Seconds between two warnings that the store has lost keys."""
LOST_ADVICE = (
    "restore the data of the store, or add the keys anew and restart the gateways; let Redis keep its data"
    " (appendonly yes, maxmemory-policy noeviction)"
)
"""The advice for a store that has lost keys."""
Read = Callable[[Callable[[], Awaitable[StoredKeys | None]]], Awaitable[StoredKeys | None]]
"""Calls the store, and records its failures."""
Follow = Callable[[Callable[[], None]], Awaitable[None]]
"""Calls back after each change of a key, until the connection is lost (`PostgresKeyStore.follow`)."""


class KeyReader:
    """Reads the keys of `store`. `used` is called with all of them when they have changed."""

    def __init__(self, store: KeyStore, used: Callable[[Sequence[KeyRecord]], None]) -> None:
        self._store = store
        self._used = used
        self._records: Sequence[KeyRecord] = ()
        self._whole: Sequence[KeyRecord] = ()
        """The keys of the store when it was last known to have them all."""
        self._version: Hashable | None = None
        """Their version."""
        self._lost_since: float | None = None
        """The event loop's time of the last warning that the store has lost keys; None if it has not."""
        self.known = False
        """True once the keys of the store were read."""

    @property
    def lost(self) -> bool:
        """True while the store has lost keys. Those that were read before stay valid."""
        return self._lost_since is not None

    async def read(self, call: Read) -> None:
        """Read the keys if they have changed. Raises StoreError."""
        found = await call(lambda: self._store.keys(self._version))
        if found is None:
            self._use(self._whole)
        elif found.whole:
            self._version, self._whole = found.version, found.records
            self._use(self._whole)
            log.debug("the store has %d keys", len(self._whole))
        else:
            # Those of the store come first, as they may have changed.
            known = {record.id: record for record in (*self._whole, *found.records)}
            self._warn_lost(len(known) - len(found.records))
            self._use(tuple(known.values()))
        if self._lost_since is not None and (found is None or found.whole):
            self._lost_since = None
            log.warning("the store has all its keys again")
        self.known = True

    async def follow(self, call: Read, follow: Follow, refresh: Callable[[], float]) -> None:
        """Read the keys after each change, and each `refresh` seconds. It does not return."""
        changed = asyncio.Event()
        listening = asyncio.get_running_loop().create_task(_listen(follow, changed))
        try:
            while True:
                changed.clear()
                seconds = refresh()
                try:
                    await self.read(call)
                except StoreError:
                    seconds = min(RETRY, seconds)  # recorded where it was raised
                except Exception:
                    log.exception("the keys cannot be read by a defect")
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await changed.wait()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def _use(self, records: Sequence[KeyRecord]) -> None:
        if records is not self._records:
            self._records = records
            self._used(records)

    def _warn_lost(self, missing: int) -> None:
        """Log that the store has lost keys, of which `missing` are known here, but not each time."""
        now = asyncio.get_running_loop().time()
        if self._lost_since is None or now - self._lost_since >= _LOST_AGAIN:
            self._lost_since = now
            log.warning("the store has lost keys; %d that were read before stay valid: %s", missing, LOST_ADVICE)


async def _listen(follow: Follow, changed: asyncio.Event) -> None:
    """Set `changed` after each change of a key, over one connection after the other."""
    while True:
        with suppress(StoreError):
            await follow(changed.set)
        changed.set()  # reading finds out if the store answers
        await asyncio.sleep(RETRY)
