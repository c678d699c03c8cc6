"""Forks are processes as any other: arguments, environment, folder, outputs, status and signals are their own."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from support.commands import command, environment, run
from support.forks import fork


async def test_a_fork_has_its_own_arguments_outputs_and_status(tmp_path: Path) -> None:
    status, out, err = await run("--version")
    assert (status, err) == (0, "")
    assert out.startswith("dragoman ")
    status, out, err = await run("serve", "--port", "0", cwd=tmp_path)
    assert (status, out) == (2, "")
    assert "dragoman.toml" in err


async def test_it_has_its_own_environment_and_folder(tmp_path: Path) -> None:
    options = ("serve", "--port", "0")
    url = "http://127.0.0.1:9/v1"
    async with command(*options, cwd=tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL=url) as process:
        await process.writes(f"provider openai: chat at {url}")
        pid = process.process.pid
        assert pid != os.getpid()
        assert await asyncio.to_thread(Path(f"/proc/{pid}/cwd").readlink) == tmp_path
        assert os.getsid(pid) == pid
    assert "OPENAI_API_KEY" not in os.environ


async def test_it_ends_by_a_signal() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await fork("--port", "0", module="dragoman_server.simulator", env=environment(), stdout=pipe)
    assert process.stdout is not None
    assert b"listening" in await process.stdout.readline()
    process.kill()
    assert await process.wait() == -signal.SIGKILL == process.returncode
    process.kill()  # one that has ended is left alone
    assert await process.communicate() == (b"", b"")
