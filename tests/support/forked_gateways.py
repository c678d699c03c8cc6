"""Gateways that start in a twentieth of a second: forks of a process that has imported all of it.

This module is also the program that forks. It reads a line of JSON, the arguments of `dragoman`, for each gateway, and
starts the next one when that has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, cast

from support.commands import Command, environment

IMPORTED = ("app", "cli.main", "workers.serve", "proxy.stored_responses", "endpoints.conversations")
OTHERS = ("uvloop", "redis.asyncio", "dragoman.threads.conversation_request", "dragoman.threads.store.sqlite")


class Forks:
    """A process that forks gateways, one after the other."""

    def __init__(self, parent: Command) -> None:
        self._parent = parent

    async def start(self, *args: str) -> tuple[int, str]:
        """Start `dragoman ARGS`. Returns its process id and its URL once it listens."""
        pipe = self._parent.process.stdin
        assert pipe is not None
        pipe.write(json.dumps(args).encode() + b"\n")
        pid = int((await self._parent.writes(r"forked (\d+)"))[1])
        return pid, (await self._parent.writes(r"dragoman listens on (http://\S+)"))[1]

    async def kill(self, pid: int) -> None:
        """Kill it with SIGKILL, and wait until it has ended."""
        os.kill(pid, signal.SIGKILL)
        await self._parent.writes(f"ended {pid}")


@asynccontextmanager
async def forks() -> AsyncIterator[Forks]:
    """A process that forks gateways."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "support.forked_gateways"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment(PYTHONPATH=os.pathsep.join(sys.path)),
        start_new_session=True,
    )
    parent = Command(process)
    listening = asyncio.create_task(parent.listen())
    try:
        yield Forks(parent)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdin is not None:
            process.stdin.close()
        await asyncio.wait_for(listening, 60)
        await process.wait()


def main() -> None:
    """Fork for each line of the standard input."""
    cast("dict[str, Any]", sys.modules)["toktok"] = None  # a vocabulary, which takes half a second
    for name in (*(f"dragoman_server.{each}" for each in IMPORTED), *OTHERS):
        import_module(name)
    from dragoman_server.cli.main import main as dragoman

    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            os.close(0)
            os.open(os.devnull, os.O_RDONLY)
            os._exit(dragoman(json.loads(line)))
        print(f"forked {pid}", file=sys.stderr, flush=True)
        os.waitpid(pid, 0)
        print(f"ended {pid}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
