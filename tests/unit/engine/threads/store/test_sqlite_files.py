"""Files of an open database that another program truncates. Without the repair the process ends (SIGBUS)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.threads import Node, SqliteStore, StoreError
from dragoman.threads.store.sqlite_files import SqliteFiles

PROGRAM = """
import asyncio, os, sys
from dragoman.threads import Node, SqliteStore

async def main(path):
    stores = [SqliteStore(path), SqliteStore(path)]
    for store in stores:
        await store.open()
    for number in range(10):
        node = Node("me", f"resp_{number}", None, 1, b"x" * 5000, b"{}")
        await stores[0].put(node)
        assert await stores[1].get("me", node.id) == node
        os.truncate(f"{path}-shm", 0 if number % 2 else 100)
        if number % 3:
            assert await stores[0].get("me", node.id) == node
            os.truncate(f"{path}-shm", 0)
    for store in stores:
        for number in range(10):
            assert await store.get("me", f"resp_{number}") is not None
        os.truncate(f"{path}-shm", 0)
        await store.close()

asyncio.run(main(sys.argv[1]))
"""


def node(number: int) -> Node:
    return Node("me", f"resp_{number}", None, 1, b"x", b"{}")


def test_an_index_that_is_truncated_is_made_again(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    done = subprocess.run([sys.executable, "-c", PROGRAM, path], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


async def test_a_file_that_is_truncated_is_an_error_at_each_write(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteStore(str(path))
    await store.open()
    await store.put(node(1))
    for ending in ("", "-wal", "-shm"):
        os.truncate(f"{path}{ending}", 0)
    for number in (2, 3):
        with pytest.raises(StoreError, match="was truncated while it was open: stop the gateway, restore the file"):
            await store.put(node(number))
    await store.close()


def test_an_index_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"x")
    index = tmp_path / "x.db-shm"
    files = SqliteFiles(str(path))
    files.repair_index()
    assert not index.exists()
    index.write_bytes(b"x" * 100)
    files.check()
    assert index.stat().st_size == 32768
    index.rename(tmp_path / "before")
    index.write_bytes(b"")
    files.repair_index()
    assert index.stat().st_size == 0
    with pytest.raises(FileNotFoundError, match="-shm was deleted or replaced"):
        files.check()
