"""Disks that are full or read-only."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman_proof.chaos.gateway import GatewayProcess, gateway, until
from dragoman_proof.chaos.scenario import Missing, holds, program
from dragoman_proof.chaos.setups import booked, written
from dragoman_proof.chaos.upstream import upstream

_SIZE = "2m"
_REQUESTS = 5


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    disk = folder / "disk"
    disk.mkdir()
    if os.geteuid():
        raise Missing("only root can mount a small file system")
    mount = [program("mount", "mount"), "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True)
    if done.returncode:
        raise Missing(f"a small file system cannot be mounted: {done.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _remount(disk: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(disk)], check=True)


def _fill(disk: Path) -> Path:
    """Fill a disk to its last byte, and return the file that does."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for piece in (b"x" * 65536, b"x" * 512):
            try:
                while file.write(piece) == len(piece):
                    pass
            except OSError:
                continue
    return ballast


async def _asks(found: GatewayProcess) -> None:
    for dialect in ("chat", "messages", "responses"):
        status, body = await found.ask(dialect, store=False) if dialect == "responses" else await found.ask(dialect)
        holds(status == 200, "a request is served", status, body)


async def _usage_on_a_full_disk(folder: Path, kind: str) -> None:
    with _small_disk(folder) as disk:
        async with upstream() as up:
            config = written(folder, up.url(), f'[usage]\nkind = "{kind}"\npath = "{disk}/usage"\n')
            async with gateway(config) as found:
                await _asks(found)
                await until(lambda: _equals(config, (3, 0)), "three rows are written")
                ballast = await asyncio.to_thread(_fill, disk)
                for _ in range(_REQUESTS):
                    await _asks(found)
                await found.logs("usage cannot be written, it is tried again")
                await found.warns("usage_unavailable")
                await asyncio.to_thread(ballast.unlink)
                await found.logs("usage is written again")
                await _asks(found)  # which finds that the journal can be written, too
                await found.warns("usage_unavailable", ends=True)
                holds(await found.stop() == 0, "it stops as usual")
            await until(lambda: _equals(config, (3 * _REQUESTS + 6, 0)), "each exchange has one row")


async def _equals(config: Path, wanted: tuple[int, int]) -> bool:
    return await booked(config) == wanted


async def full_disk_jsonl(folder: Path) -> None:
    """On a full disk requests are served, rows of JSON wait in memory, and each is written once there is room."""
    await _usage_on_a_full_disk(folder, "jsonl")


async def full_disk_sqlite(folder: Path) -> None:
    """On a full disk requests are served, rows of SQLite wait in memory, and each is written once there is room."""
    await _usage_on_a_full_disk(folder, "sqlite")


async def full_disk_captures(folder: Path) -> None:
    """On a full disk requests are served without a capture, which the log states, and captures begin again."""
    with _small_disk(folder) as disk:
        async with upstream() as up:
            config = written(folder, up.url(), f'[capture]\ndirectory = "{disk}/captures"\nshare = 1.0\n')
            async with gateway(config) as found:
                ballast = await asyncio.to_thread(_fill, disk)
                await _asks(found)
                await found.logs("captures cannot be written: No space left on device")
                holds(not list(disk.glob("captures/*.capture")), "no capture is there in part")
                await asyncio.to_thread(ballast.unlink)

                async def captured() -> bool:
                    await _asks(found)
                    return bool(list(disk.glob("captures/*.capture")))

                await until(captured, "captures are written again")


async def full_disk_log(folder: Path) -> None:
    """A log that cannot be written costs its lines and nothing else."""
    async with upstream() as up:
        config = written(folder, up.url())
        with _small_disk(folder) as disk:
            log = disk / "log"
            prefix = ("sh", "-c", f'exec "$@" 2> {log}', "sh")
            async with gateway(config, prefix=prefix, log=log) as found:
                ballast = await asyncio.to_thread(_fill, disk)
                for _ in range(_REQUESTS):
                    await _asks(found)
                size = log.stat().st_size
                await asyncio.to_thread(ballast.unlink)

                async def longer() -> bool:
                    await _asks(found)
                    return log.stat().st_size > size + 1000

                await until(longer, "lines are written again")
                holds(await found.stop() == 0, "it stops as usual")


async def read_only_disk(folder: Path) -> None:
    """On a read-only disk a start is refused with the key's name; a capture is left out, and the request is served."""
    refused = (
        ("usage.path", '[usage]\nkind = "jsonl"\npath = "{disk}/usage"\n'),
        ("usage.path", '[usage]\nkind = "sqlite"\npath = "{disk}/usage"\n'),
        ("state", '[state]\nkind = "sqlite"\npath = "{disk}/responses.db"\n'),
        ("store", '[store]\nkind = "sqlite"\npath = "{disk}/accounts.db"\n'),
        ("capture.directory", '[capture]\ndirectory = "{disk}/captures"\nshare = 1.0\n'),
    )
    with _small_disk(folder) as disk:
        _remount(disk, "ro")
        async with upstream() as up:
            for key, table in refused:
                config = written(folder, up.url(), table.format(disk=disk))
                arguments = [sys.executable, "-m", "dragoman_server", "serve", "--port", "0", str(config)]
                done = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, timeout=60)
                holds(done.returncode == 2, "the start is refused", key, done.stderr[-500:])
                holds(key in done.stderr and "Read-only" in done.stderr, "the line names the key", done.stderr[-500:])
            _remount(disk, "rw")
            config = written(folder, up.url(), refused[-1][1].format(disk=disk))
            async with gateway(config) as found:
                _remount(disk, "ro")
                await _asks(found)
                await found.logs("captures cannot be written: Read-only file system")
                _remount(disk, "rw")

                async def captured() -> bool:
                    await _asks(found)
                    return bool(list(disk.glob("captures/*.capture")))

                await until(captured, "captures are written again")


SCENARIOS = (full_disk_jsonl, full_disk_sqlite, full_disk_captures, full_disk_log, read_only_disk)
