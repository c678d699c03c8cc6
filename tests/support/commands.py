"""The `dragoman` command as a process of its own, and what it states.

Most are forks (`support.forks`), which start twenty times faster than new processes.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.forks import Fork, fork

HIDDEN = re.compile(r"(OPENAI|ANTHROPIC|UPSTREAM|BIG_MODEL|SMALL_MODEL|DRAGOMAN|NOTIFY_SOCKET)")
"""Variables that a gateway would read from the environment in which the tests run."""


def environment(**more: str) -> dict[str, str]:
    """This process's, without what a gateway reads from it."""
    kept = {name: value for name, value in os.environ.items() if not HIDDEN.match(name)}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


@dataclass(slots=True)
class Command:
    """A running command. `said` is what was read of its standard error so far; the rest is kept in `lines`.

    It is read all the time: a process whose log no one reads stands still.
    """

    process: asyncio.subprocess.Process | Fork
    lines: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    stated: str = ""

    async def listen(self) -> None:
        """Read until it ends; an empty line is the end."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.lines.put_nowait(line.decode())
        self.lines.put_nowait("")

    async def writes(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        """Read until a line matches, which must come from here on."""
        async with asyncio.timeout(seconds):
            while line := await self.lines.get():
                self.stated += line
                if found := re.search(pattern, line):
                    return found
        raise AssertionError(f"ended without {pattern!r}:\n{self.stated}")

    def children(self) -> list[int]:
        """The process ids of the processes that it started."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    async def ends(self, seconds: float = 60) -> int:
        """Read all that is still stated. Returns the exit status."""
        async with asyncio.timeout(seconds):
            while line := await self.lines.get():
                self.stated += line
            return await self.process.wait()


@asynccontextmanager
async def command(*args: str, cwd: str | Path | None = None, **more: str) -> AsyncIterator[Command]:
    """`python -m dragoman_server ARGS` in `cwd`, in a fork without a terminal; killed at the end if it still runs."""
    process = await fork(*args, env=environment(**more), cwd=cwd, stderr=asyncio.subprocess.PIPE)
    async with _running(process) as running:
        yield running


@asynccontextmanager
async def new_process(*args: str, **more: str) -> AsyncIterator[Command]:
    """As `command`, in a new process in place of a fork."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "dragoman_server", *args),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment(**more),
        start_new_session=True,
    )
    async with _running(process) as running:
        yield running


@asynccontextmanager
async def _running(process: asyncio.subprocess.Process | Fork) -> AsyncIterator[Command]:
    running = Command(process)
    listening = asyncio.create_task(running.listen())
    try:
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        # Until no one has the other end any longer: processes that it started have it too.
        await asyncio.wait_for(listening, 60)
        await process.wait()


async def run(*args: str, cwd: str | Path | None = None, **more: str) -> tuple[int, str, str]:
    """Run a command to its end, in a fork. Return the exit status, the standard output and the standard error."""
    pipe = asyncio.subprocess.PIPE
    process = await fork(*args, env=environment(**more), cwd=cwd, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(120):
            out, err = await process.communicate()
    finally:
        process.kill()
    return await process.wait(), out.decode(), err.decode()
