"""The keys that a gateway knows: those of its configuration and of its store, and the clock by which they expire."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from dragoman import DragomanError, Failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman_server.accounts.key_reader import KeyReader
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import ID, KeyHash, id_of
from dragoman_server.accounts.store.create import create_key_store
from dragoman_server.accounts.store.interface import AccountStore, StoredKeys, StoreError
from dragoman_server.accounts.store.memory import MemoryAccountStore
from dragoman_server.accounts.store.options import NEEDS_REDIS, StoreOptions
from dragoman_server.observability.metric_families import STORE_ERRORS, Totals

log = logging.getLogger("dragoman")
T = TypeVar("T")


class Keyring:
    """An immutable set of keys. Two keys with one id cannot occur by chance; the first of them is used."""

    def __init__(self, records: Iterable[KeyRecord] = ()) -> None:
        self._records: dict[str, KeyRecord] = {}
        for record in records:
            self._records.setdefault(record.id, record)
        self.expires = any(record.expires is not None for record in self._records.values())
        """True if one of them expires."""
        self._unmatched = KeyHash("", secrets.token_bytes(16), secrets.token_bytes(32))

    def __len__(self) -> int:
        return len(self._records)

    def find(self, key: str) -> KeyRecord | None:
        """Return the record of a client's key, also of one that has expired; None for an unknown key.

        One hash is computed and compared in each case, so the time taken does not reveal which ids exist.
        """
        record = self._records.get(key[ID])
        expected = record.hash if record is not None else self._unmatched
        return record if expected.matches(key) else None


class Guarded(Protocol):
    """Calls the store of limits, and records its failures: the operation, and the call. Raises StoreError."""

    def __call__(self, operation: str, call: Callable[[], Awaitable[T]], /) -> Awaitable[T]: ...


class KnownKeys:
    """The keys of one gateway. They are compared in memory.

    Args:
        records: The keys of the configuration.
        options: The table `[store]`.
        store: The store of the limits, which holds the keys too unless they have one of their own.
        guarded: Calls that store.
        totals: The counters to add to.
        now: A function that returns Unix seconds.
    """

    def __init__(
        self,
        records: Sequence[KeyRecord],
        options: StoreOptions,
        *,
        store: AccountStore,
        guarded: Guarded,
        totals: Totals,
        now: Callable[[], float],
    ) -> None:
        self._records = tuple(records)
        self._options = options
        self._store = store
        self._guarded = guarded
        self._totals = totals
        self._now = now
        self._own_store = create_key_store(options)
        """The store of the keys; None if it is that of the limits."""
        self._reader = KeyReader(self._own_store or store, self._use)
        self._reader.known = not options.holds_keys
        self._stored: Sequence[KeyRecord] = ()
        """The keys of the store."""
        self._keyring = Keyring(records)
        self._read_at: tuple[float, float] | None = None
        """The time of the store's clock, and that of the event loop then; None as long as the gateway's own counts."""
        self.healthy = True
        """False while a store of the keys alone does not answer."""

    async def open(self) -> None:
        """Open the keys' own store, if there is one, and read it if it answers. Raises StoreError if it is unusable."""
        if self._own_store is not None:
            await self._own_store.open()
            with suppress(StoreError):
                await self._reader.read(self._read_apart)

    async def close(self) -> None:
        """Close the keys' own store."""
        if self._own_store is not None:
            with suppress(StoreError):
                await self._own_store.close()

    def follow(self) -> asyncio.Task[None] | None:
        """Read the keys' own store after each change, in a task; None without one."""
        if self._own_store is None:
            return None
        follow = self._reader.follow(self._read_apart, self._own_store.follow, lambda: self._options.refresh)
        return asyncio.get_running_loop().create_task(follow)

    def configure(self, records: Sequence[KeyRecord], options: StoreOptions) -> None:
        """Use these keys of a new configuration, and these options of the same store."""
        self._records, self._options = tuple(records), options
        self._join()

    async def refresh(self) -> None:
        """Read what may have changed in the store of the limits: its keys, and its clock. Raises StoreError."""
        if self._options.holds_keys and self._own_store is None:
            await self._reader.read(lambda call: self._guarded("keys", call))
        if not isinstance(self._store, MemoryAccountStore) and self._keyring.expires:
            now = await self._guarded("now", self._store.now)
            self._read_at = now, asyncio.get_running_loop().time()

    @property
    def known(self) -> bool:
        """True if the keys of the store were read, or it holds none."""
        return self._reader.known

    @property
    def lost(self) -> bool:
        """True while the store has lost keys. Those that were read before stay valid."""
        return self._reader.lost

    def __len__(self) -> int:
        return len(self._keyring)

    def find(self, key: str) -> KeyRecord | None:
        """Return the record of a client's key; None for an unknown key.

        Raises DragomanError (503) if the key is not in the configuration, and the store's keys were never read, or the
        store has lost some.
        """
        record = self._keyring.find(key)
        if record is None and (not self._reader.known or self._reader.lost) and id_of(key) is not None:
            raise store_unavailable("the API keys cannot be read at the moment; try again later")
        return record

    def now(self) -> float:
        """Return Unix seconds by the clock of the store, by which keys expire."""
        if self._read_at is None:
            return self._now()
        then, at = self._read_at
        return then + asyncio.get_running_loop().time() - at

    async def _read_apart(self, call: Callable[[], Awaitable[StoredKeys | None]]) -> StoredKeys | None:
        """Call the store of the keys alone. Its failures leave the limits as they are. Raises StoreError."""
        try:
            found = await call()
        except StoreError as error:
            self._totals.add(STORE_ERRORS, ("keys",))
            if self.healthy:
                self.healthy = False
                log.error("the store of keys does not answer, those that were read before stay valid: %s", error)
            raise
        if not self.healthy:
            self.healthy = True
            log.warning("the store of keys answers again")
        return found

    def _use(self, stored: Sequence[KeyRecord]) -> None:
        """Use these keys of the store."""
        self._stored = stored
        self._join()
        limited = next((record.name for record in stored if record.limits), None)
        if limited is not None and self._own_store is not None and isinstance(self._store, MemoryAccountStore):
            log.warning("the limits of key %s count for each process alone: store.limits_url %s", limited, NEEDS_REDIS)

    def _join(self) -> None:
        self._keyring = Keyring((*self._records, *self._stored))


def store_unavailable(message: str) -> DragomanError:
    """Return the error of a request that cannot be admitted without the store."""
    failure = Failure(FailureKind.OVERLOADED, message, 503, origin=FailureOrigin.PROXY, reason="store")
    failure.headers["retry-after"] = "1"
    return DragomanError(failure)
