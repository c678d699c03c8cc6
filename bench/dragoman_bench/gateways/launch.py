"""Start of a gateway's process: pinned to a core, in a minimal environment, with a log; its group is killed at the
end."""

from __future__ import annotations

import asyncio
import atexit
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dragoman_bench.gateways.gateway import Started, same_model

LONGEST_START = 120.0
"""Maximum time of a start, in seconds: the slowest peer imports for ten seconds on an idle machine."""
_POLL = 0.004
_GRACE = 3.0
_LOG_SHOWN = 2000

_running: set[int] = set()
"""Running process groups; they are killed if the rig exits by an exception."""


class StartError(RuntimeError):
    """A gateway did not start; the text has the end of its log."""


def free_port() -> int:
    """Return a loopback port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return a gateway's environment: without the user's keys, proxies and settings, and with a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "HOME": str(home), "LANG": "C.UTF-8", "NO_PROXY": "*", **more}


def own_module(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment that run a module by this interpreter."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return [sys.executable, "-m", module, *arguments], {"PYTHONPATH": paths}


@contextmanager
def _pinned(core: int | None) -> Iterator[None]:
    """Context in which child processes start on `core`: they inherit the affinity of this thread."""
    if core is None:
        yield
        return
    if not hasattr(os, "sched_setaffinity"):
        raise StartError("this system cannot pin a process to a core: run without pinning")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


async def launch(
    command: Sequence[str],
    port: int,
    core: int | None,
    *,
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    ready: str | None = None,
    headers: Mapping[str, str] | None = None,
    model: Callable[[str], str] = same_model,
    within: float = LONGEST_START,
) -> Started:
    """Start `command`, and wait until it listens on `port` and answers GET `ready` (if given) with a 200.

    `files` (name: text) are written to a temporary folder first; `{folder}` in the command, the environment and the
    files stands for its path. Raises StartError if it exits or takes more than `within` seconds.
    """
    process = _Process(command, env or {}, files or {}, core)
    try:
        await _listening(process, port, ready, within)
    except BaseException as error:
        output = process.log()
        await process.stop()
        if isinstance(error, StartError):
            raise StartError(f"{error}; the end of its log:\n{output or '(empty)'}") from None
        raise
    shown = shlex.join([Path(command[0]).name, *command[1:]])
    config = "\n".join(f"# {name}\n{text.strip()}" for name, text in (files or {}).items())
    return Started(f"http://127.0.0.1:{port}", process.pid, process.stop, headers or {}, model, shown, config)


class _Process:
    """A running command, with a temporary folder that is removed at its end."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], files: Mapping[str, str], core: int | None
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-bench-", ignore_cleanup_errors=True)
        self._home = home = Path(self._folder.name)
        home.chmod(0o755)  # nginx runs its worker as another user if it is started by root
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(self._filled(text))
        try:
            with (home / "log").open("wb") as out, _pinned(core):
                self._popen = subprocess.Popen(
                    [self._filled(word) for word in command],
                    cwd=home,
                    env=environment(home, {name: self._filled(value) for name, value in env.items()}),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._folder.cleanup()
            raise StartError(f"cannot run {command[0]}: {error.strerror}") from error
        self.pid = self._popen.pid
        _running.add(self.pid)

    def _filled(self, text: str) -> str:
        return text.replace("{folder}", self._folder.name)

    def status(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._popen.poll()

    def log(self) -> str:
        """Return the end of its output."""
        return (self._home / "log").read_bytes()[-_LOG_SHOWN:].decode(errors="replace").strip()

    async def stop(self) -> None:
        """Terminate it, then kill the rest of its group."""
        try:
            _signal(self.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._popen.wait, _GRACE)
        finally:
            _signal(self.pid, signal.SIGKILL)
            self._popen.wait()
            _running.discard(self.pid)
            self._folder.cleanup()


async def _listening(process: _Process, port: int, ready: str | None, within: float) -> None:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if (status := process.status()) is not None:
            raise StartError(f"it ended with status {status} before it listened")
        if await _answers(port, ready):
            return
        await asyncio.sleep(_POLL)
    raise StartError(f"it did not listen on port {port} within {within:.0f} s")


async def _answers(port: int, ready: str | None) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        if ready is None:
            return True
        writer.write(f"GET {ready} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(5):
            line = await reader.readline()
        return line[9:12] == b"200"
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


@atexit.register
def _kill_all() -> None:
    for group in tuple(_running):
        _signal(group, signal.SIGKILL)
