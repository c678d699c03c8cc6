"""haproxy with a configuration from a page of the documentation, whose addresses are replaced by those of a test."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from support.programs import installed
from support.redis_server import free_port
from support.waiting import until


def recipe(page: Path, language: str) -> str:
    """The first block of a page in a language, or the one that begins with this line."""
    found = re.search(rf"```{re.escape(language)}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert found is not None, f"{page} has no block of {language}"
    return found[1]


def placed(text: str, addresses: Mapping[str, str]) -> str:
    """A configuration with other addresses. Raises AssertionError if it has not each of them once."""
    for old, new in addresses.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@asynccontextmanager
async def haproxy(folder: Path, text: str, bind: str) -> AsyncIterator[int]:
    """A running haproxy, and its port, which replaces the address `bind` of the configuration.

    Skips the test where haproxy is not installed.
    """
    program, port, file = installed("haproxy"), free_port(), folder / "haproxy.cfg"
    await asyncio.to_thread(file.write_text, placed(text, {bind: f"127.0.0.1:{port}"}))
    process = await asyncio.create_subprocess_exec(
        *(program, "-db", "-f", str(file)), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until(lambda: process.returncode is not None or accepts(port))
        assert process.returncode is None, "haproxy has ended"
        yield port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
