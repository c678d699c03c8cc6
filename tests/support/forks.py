"""Programs of the gateway as forks of one process that has imported it: each starts in a twentieth of a second.

A fork is a process as any other: it has an id, an environment, a folder and outputs of its own, and ends with a status.
What it lacks is the import of its modules, which takes most of a second. The workers that it starts are forks of it.
This module is also the program that forks. It is started once for a process of pytest, and ends with it.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from contextvars import Context
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

IMPORTED = (
    *("app", "cli.main", "simulator.app", "workers.serve", "workers.supervisor"),
    *("workers.worker", "proxy.stored_responses", "endpoints.conversations", "config.load"),
)
OTHERS = ("uvloop", "redis.asyncio", "dragoman.threads.conversation_request", "dragoman.threads.store.sqlite")
WORKER = "dragoman_server.workers.worker"
REQUEST = 1 << 18
"""Bytes of a request at most: the words and the environment of a program."""


class Output(asyncio.StreamReaderProtocol):
    """Reads a pipe. Its transport is closed at the end."""

    def eof_received(self) -> bool:
        """End the reader, and let the transport close itself."""
        super().eof_received()
        return False


class Fork:
    """A program that runs. Its attributes and methods are those of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int, status: asyncio.StreamReader, outputs: list[asyncio.StreamReader | None]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout, self.stderr = outputs
        self._ended = asyncio.create_task(self._end(status))

    async def _end(self, status: asyncio.StreamReader) -> int:
        self.returncode = int(await status.readline())
        await status.read()  # to its end: only then it is closed
        return self.returncode

    async def wait(self) -> int:
        """Wait until it has ended. Return the status, or the signal as a negative number.

        Each output is read to its end besides: a loop cannot be closed before.
        """
        return await asyncio.shield(self._ended)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Return both outputs once it has ended; one that is no pipe is empty."""
        out, err = await asyncio.gather(_read(self.stdout), _read(self.stderr))
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Worker:
    """A child of a fork. Its attributes and methods are those of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.get_running_loop().create_future()
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._end)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set_result(self.returncode)

    async def wait(self) -> int:
        """Wait until it has ended. Return the status, or the signal as a negative number."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


async def fork(
    *words: str,
    module: str = "dragoman_server",
    env: Mapping[str, str],
    cwd: str | Path | None = None,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
) -> Fork:
    """Start `python -m MODULE WORDS` in a session of its own, without a standard input.

    Each output is `subprocess.PIPE` or `subprocess.DEVNULL`.
    """
    with ExitStack() as theirs:
        status, status_end = await _pipe(theirs)
        readers: list[asyncio.StreamReader | None] = []
        ends = [status_end]
        for output in (stdout, stderr):
            if output == subprocess.PIPE:
                reader, end = await _pipe(theirs)
            else:
                reader, end = None, os.open(os.devnull, os.O_WRONLY)
                theirs.callback(os.close, end)
            readers.append(reader)
            ends.append(end)
        request = {"module": module, "words": words, "env": dict(env), "cwd": str(cwd or Path.cwd())}
        socket.send_fds(_forker(), [json.dumps(request).encode()], ends)
    return Fork(int(await status.readline()), status, readers)


async def _read(output: asyncio.StreamReader | None) -> bytes:
    return await output.read() if output else b""


async def _pipe(theirs: ExitStack) -> tuple[asyncio.StreamReader, int]:
    """Return the reader of a new pipe, and its other end, which is closed with `theirs`."""
    ours, end = os.pipe()
    theirs.callback(os.close, end)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: Output(reader), os.fdopen(ours, "rb", 0))
    return reader, end


@cache
def _forker() -> socket.socket:
    """Start the process that forks, for as long as this one runs. Return the socket for requests to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.forks", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def main() -> None:
    """Fork for each request, until the socket is closed."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    for name in (*(f"dragoman_server.{each}" for each in IMPORTED), *OTHERS):
        import_module(name)
    gc.collect()
    gc.freeze()
    waiting = selectors.DefaultSelector()
    waiting.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.data is not None:
                waiting.unregister(key.fd)
                report(key.fd, *key.data)
                continue
            request, ends, _, _ = socket.recv_fds(requests, REQUEST, 3)
            if not request:
                return
            if not (pid := os.fork()):
                waiting.close()
                requests.detach()
                become(json.loads(request), *ends[1:])
                return
            status, *outputs = ends
            for output in outputs:
                os.close(output)
            os.write(status, b"%d\n" % pid)
            waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def report(descriptor: int, pid: int, status: int) -> None:
    """Write the status of a process that has ended, and close what belongs to it."""
    os.close(descriptor)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        os.write(status, b"%d\n" % code)
    os.close(status)


def become(request: dict[str, Any], out: int, err: int) -> None:
    """Run the program of a request in this process."""
    os.setsid()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, 1024)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["words"]
    asyncio.create_subprocess_exec = partial(start, asyncio.create_subprocess_exec)
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


async def start(otherwise: Callable[..., Awaitable[Any]], *words: str, **options: Any) -> Any:
    """`asyncio.create_subprocess_exec` of a fork: a worker is a fork of it, with nothing open but what it is given."""
    if WORKER not in words:
        return await otherwise(*words, **options)
    opened = descriptors()
    if pid := os.fork():
        return Worker(pid)
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_DFL)
        # libuv has opened others after the fork.
        for descriptor, _ in opened.items() & descriptors().items():
            if descriptor not in options["pass_fds"]:
                os.close(descriptor)
        os.environ.clear()
        os.environ.update(options["env"])
        asyncio._set_running_loop(None)
        status = Context().run(import_module(WORKER).main, words[-1:])
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def descriptors() -> dict[int, str]:
    """Return what this process has open besides its standard streams: names by descriptor."""
    found = {}
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2:
            with suppress(FileNotFoundError):  # the folder itself
                found[descriptor] = os.readlink(f"/proc/self/fd/{descriptor}")
    return found


if __name__ == "__main__":
    main()
