"""A PostgreSQL cluster of its own on a free port, in a temporary directory. Tests skip where it is not installed."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.programs import installed, lacking
from support.redis_server import free_port

PASSWORD = "pw-of-the-cluster"
"""The password of the superuser."""
_PROGRAMS = Path("/usr/lib/postgresql")
"""Where Debian installs the programs of each version."""


def _program(name: str) -> str:
    if (found := shutil.which(name)) is not None:
        return found
    versions = sorted(_PROGRAMS.glob(f"*/bin/{name}"), key=lambda path: float(path.parent.parent.name))
    return str(versions[-1]) if versions else lacking(f"{name} is not installed (Debian: apt-get install postgresql)")


def _owner() -> dict[str, Any]:
    """The user that a program runs as: the server refuses to run as root."""
    return {"user": "postgres", "group": "postgres", "extra_groups": ()} if os.geteuid() == 0 else {}


def _folder() -> Path:
    """Return a new folder of the user."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-postgres-"))
    if owner := _owner():
        shutil.chown(folder, owner["user"], owner["group"])
    return folder


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60, **_owner())


@cache
def _new_cluster() -> str:
    """The data of a cluster that was never started. To copy it takes a tenth of the time of making one."""
    folder = _folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    data = str(folder / "data")
    _call(_program("initdb"), "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(secret), "-N")
    return data


class PostgresServer:
    """One cluster, which can be stopped, started again on its port, and frozen. `options` are lines of its file."""

    def __init__(self, options: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        self.folder = _folder()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return self.url_of()

    def url_of(self, user: str = "postgres", password: str = PASSWORD, database: str = "postgres") -> str:
        """The URL of a database."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        """Create the cluster and start it."""
        _call("cp", "-a", _new_cluster(), self.data)
        self.start()

    @property
    def data(self) -> str:
        """The directory of the cluster."""
        return str(self.folder / "data")

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        options = (
            *("listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self.folder}", "fsync=off"),
            *("autovacuum=off", "max_connections=200", "log_min_messages=panic", *self._options),
        )
        arguments = [each for option in options for each in ("-c", option)]
        self._process = subprocess.Popen(
            [_program("postgres"), "-D", self.data, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **_owner(),
        )
        until = time.monotonic() + 60
        while subprocess.run([_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]).returncode:
            assert self._process.poll() is None, "postgres has ended"
            assert time.monotonic() < until, "postgres does not listen"
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once, as after a crash: what was not committed is lost."""
        if self._process is not None:
            self.thaw()
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
            self._process = None

    def freeze(self) -> None:
        """Let its connections stay open without any answer."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), number)

    def execute(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Run statements as the superuser, and return the rows of the last."""
        return asyncio.run(self.run(*statements, database=database))

    async def run(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Run statements as the superuser, and return the rows of the last."""
        import asyncpg

        connection = await asyncpg.connect(self.url_of(database=database), timeout=30)
        try:
            rows: list[Any] = []
            for statement in statements:
                rows = await connection.fetch(statement)
            return rows
        finally:
            await connection.close()


@contextmanager
def postgres_server(options: tuple[str, ...] = ()) -> Iterator[PostgresServer]:
    """A running server. Skips the test where PostgreSQL or the package asyncpg is missing."""
    pytest.importorskip("asyncpg", reason="the extra postgres is not installed")
    installed("pg_ctlcluster", "initdb")
    server = PostgresServer(options)
    try:
        server.create()
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.folder, ignore_errors=True)
