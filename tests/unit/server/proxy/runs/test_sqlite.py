"""The store in SQLite has a file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dragoman.threads import StoreError
from dragoman_server.proxy.runs.interface import Change, Entry, NewRun, RunId
from dragoman_server.proxy.runs.sqlite import SqliteRunStore
from support.clocks import Clock

NAME = RunId("me", "resp_1")


async def test_the_file_is_its_users_own_and_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteRunStore(str(path), timeout=30.0)
    for number in range(2):
        await store.open()
        if not number:
            await store.begin(NewRun(NAME, "host", b"head", b"", b"", None, 100.0))
            await store.write("host", [Change(NAME, 0, [Entry(1, 1, b"x")])])
        run = await store.get(NAME)
        assert run is not None
        assert (run.head, run.end) == (b"head", 1)
        await store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(StoreError, match="not open"):
        await store.get(NAME)


async def test_what_has_expired_is_deleted(tmp_path: Path) -> None:
    clock = Clock()
    store = SqliteRunStore(str(tmp_path / "runs.db"), timeout=30.0, clock=clock)
    await store.open()
    await store.begin(NewRun(NAME, "host", b"", b"", b"", None, 100.0))
    await store.write("host", [Change(NAME, 0, [Entry(1, 1, b"x")], kept=50.0)])
    clock.now += 51.0
    assert await store.get(NAME) is None
    assert await store.take("host", 1) == []
    for table in ("runs", "events"):
        assert await store.run(lambda db, table=table: db.execute(f"SELECT * FROM {table}").fetchall()) == []  # type: ignore[misc]
    await store.close()
