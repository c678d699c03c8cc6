"""A real redis-server on a free port, which keeps nothing on disk by default. Tests skip where it is not installed."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.programs import installed


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class RedisServer:
    """One server, which can be stopped, started again on its port, and frozen.

    With a `folder` it keeps its data there, and answers when they are on the disk. `options` are those of redis-server.
    """

    def __init__(self, folder: Path | None = None, options: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        kept = ("--dir", str(folder), "--appendonly", "yes", "--appendfsync", "always") if folder is not None else ()
        self.options = (*(kept or ("--appendonly", "no")), *options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *options: str) -> None:
        """Start it, with these options too, and wait until it accepts connections."""
        self._run("--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *self.options, *options)

    def start_with(self, file: Path) -> None:
        """Start it with a configuration file, which has its port."""
        self._run(str(file), *self.options)

    def _run(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            ["redis-server", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None, "redis-server has ended"
                assert time.monotonic() < until, "redis-server does not listen"
                time.sleep(0.02)

    def kill(self) -> None:
        """End it at once; what it knew and did not write is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Let its connections stay open without any answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def redis_server(folder: Path | None = None, options: tuple[str, ...] = ()) -> Iterator[RedisServer]:
    """A running server. Skips the test where redis-server or the package redis is missing."""
    pytest.importorskip("redis", reason="the extra redis is not installed")
    installed("redis-server")
    server = RedisServer(folder, options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
