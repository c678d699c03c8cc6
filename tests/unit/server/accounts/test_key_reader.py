"""The keys of a store, as a gateway knows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman_server.accounts import key_reader
from dragoman_server.accounts.key_reader import KeyReader
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.store.interface import StoredKeys, StoreError
from support.named_keys import made
from support.waiting import until


class Keys:
    """A store of keys whose answer the test sets."""

    def __init__(self) -> None:
        self.answer: StoredKeys | None = StoredKeys(1, ())
        self.known: list[Hashable | None] = []
        self.away = False
        self.changed: Callable[[], None] | None = None

    async def keys(self, known: Hashable | None = None) -> StoredKeys | None:
        self.known.append(known)
        if self.away:
            raise StoreError("away")
        return self.answer

    async def follow(self, changed: Callable[[], None]) -> None:
        self.changed = changed
        changed()
        await asyncio.Event().wait()


async def at_once(call: Callable[[], Awaitable[StoredKeys | None]]) -> StoredKeys | None:
    return await call()


def reader_of(store: Any) -> tuple[KeyReader, list[Sequence[KeyRecord]]]:
    used: list[Sequence[KeyRecord]] = []
    return KeyReader(store, used.append), used


async def test_keys_are_used_when_their_version_changes() -> None:
    store = Keys()
    reader, used = reader_of(store)
    assert not reader.known
    alice = made()[1]
    store.answer = StoredKeys(7, (alice,))
    await reader.read(at_once)
    assert (reader.known, used) == (True, [(alice,)])
    store.answer = None
    await reader.read(at_once)
    assert (store.known, len(used)) == ([None, 7], 1)


async def test_keys_that_the_store_lost_stay_valid(caplog: pytest.LogCaptureFixture) -> None:
    store = Keys()
    reader, used = reader_of(store)
    alice, bob = made()[1], made("bob")[1]
    store.answer = StoredKeys(7, (alice,))
    await reader.read(at_once)
    store.answer = StoredKeys(1, (bob,), whole=False)
    await reader.read(at_once)
    await reader.read(at_once)
    assert reader.lost
    assert set(used[-1]) == {alice, bob}
    assert store.known[-1] == 7
    assert caplog.text.count("the store has lost keys; 1 that were read before stay valid") == 1
    store.answer = StoredKeys(9, (bob,))
    await reader.read(at_once)
    assert (reader.lost, used[-1]) == (False, (bob,))


@asynccontextmanager
async def following(store: Keys, reader: KeyReader, refresh: float) -> AsyncIterator[None]:
    task = asyncio.create_task(reader.follow(at_once, store.follow, lambda: refresh))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_change_is_read_at_once() -> None:
    store = Keys()
    reader, used = reader_of(store)
    async with following(store, reader, refresh=3600.0):
        await until(lambda: store.changed is not None)
        await until(lambda: reader.known)
        alice = made()[1]
        store.answer = StoredKeys(2, (alice,))
        assert store.changed is not None
        store.changed()
        await until(lambda: used[-1:] == [(alice,)])


async def test_a_store_that_was_away_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_reader, "RETRY", 0.01)
    store = Keys()
    store.away = True
    reader, _ = reader_of(store)
    async with following(store, reader, refresh=3600.0):
        await until(lambda: len(store.known) > 3)
        assert not reader.known
        store.away = False
        await until(lambda: reader.known)
