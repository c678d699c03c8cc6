"""Stored responses where the disk is full, the file is locked or damaged: the documented behaviour, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dragoman_server.simulator import make_simulator
from support.commands import Command, command
from support.gateways import served
from support.waiting import until_true

CONFIG = """
[models]
unknown = "pass"
discover = false

[providers.up]
dialect = "chat"
base_url = "{url}/v1"

[state]
kind = "sqlite"
path = "{path}"
timeout = 3
"""


@dataclass
class Gateway:
    """A gateway process with a file."""

    running: Command
    url: str
    session: aiohttp.ClientSession

    async def ask(self, **fields: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers."""
        body = {"model": "sim-text", "input": "Hi", **fields}
        async with asyncio.timeout(60), self.session.post(f"{self.url}/v1/responses", json=body) as reply:
            headers = {name.lower(): value for name, value in reply.headers.items()}
            return reply.status, await reply.json(), headers

    async def stored(self) -> str:
        """The id of a response that was stored."""
        status, reply, _ = await self.ask()
        assert (status, reply["store"]) == (200, True)
        return str(reply["id"])

    async def stores(self) -> bool:
        """True if responses are stored."""
        return bool((await self.ask())[1]["store"])

    async def is_not_stored(self, input_bytes: int = 2) -> None:
        """A reply arrives, and states that it is not stored."""
        status, reply, _ = await self.ask(input="x" * input_bytes)
        assert (status, reply["store"]) == (200, False)
        assert reply["output"]

    async def warns(self) -> bool:
        """True if the gateway reports that its store fails."""
        async with self.session.get(f"{self.url}/ready") as reply:
            return "state_unavailable" in (await reply.json())["warnings"]


@asynccontextmanager
async def gateway(file: Path, folder: Path) -> AsyncIterator[Gateway]:
    """A gateway process that stores responses in a file."""
    config = folder / "gateway.toml"
    async with served(make_simulator()) as (url, _):
        await asyncio.to_thread(config.write_text, CONFIG.format(url=url, path=file))
        async with (
            command("serve", str(config), "--port", "0") as running,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
        ):
            yield Gateway(running, (await running.writes(r"dragoman listens on (http://\S+)"))[1], session)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file system of two megabytes. Skips the test where it cannot be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None or os.geteuid():
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk_stores_nothing_and_reads_on(small_disk: Path, tmp_path: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_200_000)
    async with gateway(small_disk / "responses.db", tmp_path) as up:
        first = await up.stored()
        await up.is_not_stored(1_000_000)
        await up.running.writes("the response was not stored: .*the disk is full: make room")
        status, reply, _ = await up.ask(previous_response_id=first, store=False)
        assert (status, reply["previous_response_id"]) == (200, first)
        ballast.unlink()
        await until_true(up.stores)
        assert (await up.ask(previous_response_id=first))[1]["store"] is True
        await until_true(lambda: _not(up.warns()))


async def test_a_file_that_may_not_grow_stores_nothing_and_reads_on(tmp_path: Path) -> None:
    file = tmp_path / "responses.db"
    async with gateway(file, tmp_path) as up:
        first = await up.stored()
        pid = up.running.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (200_000, before[1]))
        await up.is_not_stored(1_000_000)
        await up.running.writes(r"the response was not stored: .*(check it and its room|make room)")
        assert (await up.ask(previous_response_id=first, store=False))[0] == 200
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        await until_true(up.stores)


async def test_a_file_that_is_locked_stores_nothing_and_reads_on(tmp_path: Path) -> None:
    file = tmp_path / "responses.db"
    async with gateway(file, tmp_path) as up:
        first = await up.stored()
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await up.is_not_stored()
        await up.running.writes("the response was not stored: .*another process holds its lock for too long")
        await until_true(up.warns)
        status, reply, _ = await up.ask(previous_response_id=first, store=False)
        assert (status, reply["previous_response_id"]) == (200, first)
        other.execute("ROLLBACK")
        other.close()
        await until_true(up.stores)
        await until_true(lambda: _not(up.warns()))


async def test_a_damaged_file_serves_all_that_need_no_stored_response(tmp_path: Path) -> None:
    file = tmp_path / "responses.db"
    async with gateway(file, tmp_path) as up:
        first = await up.stored()
        for _ in range(30):
            await up.stored()
        up.running.process.terminate()
        assert await up.running.ends() == 0  # the log is written into the file
    with file.open("r+b") as opened:  # every page after the first
        opened.seek(4096)
        opened.write(os.urandom(file.stat().st_size - 4096))
    async with gateway(file, tmp_path) as up:
        await until_true(up.warns)
        await up.is_not_stored()
        await up.running.writes("the response was not stored: .*damaged: move it away, and a new one is created")
        status, reply, headers = await up.ask(previous_response_id=first)
        assert (status, headers["retry-after"]) == (503, "1")
        assert "not available" in json.dumps(reply)
        assert (await up.ask(store=False))[0] == 200
        up.running.process.terminate()
        assert await up.running.ends() == 0
    for name in os.listdir(tmp_path):
        if name.startswith("responses.db"):
            os.rename(tmp_path / name, tmp_path / f"damaged-{name}")
    async with gateway(file, tmp_path) as up:
        await up.stored()


async def _not(holds: Any) -> bool:
    return not await holds
