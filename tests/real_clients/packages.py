"""The clients' packages in a cache: one npm prefix or virtual environment for each set of pinned packages.

`DRAGOMAN_CLIENTS_DIR` says where, else `~/.cache/dragoman-clients`. Nothing but npm and pip is asked, and no script of
an npm package runs while it is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from real_clients.contract import Client

_PATIENCE = 600
"""Seconds that npm or pip may take for one client."""
_LINES = 12
"""How many lines of a failed installation are shown."""


class NotInstalled(Exception):
    """A client cannot be run here. The message says why, and what to do."""


def cache_dir() -> Path:
    """Where the packages are kept."""
    return Path(os.environ.get("DRAGOMAN_CLIENTS_DIR") or Path.home() / ".cache/dragoman-clients")


def prefix_of(client: Client) -> Path:
    """Where the client's packages belong. Clients with the same packages share it."""
    packages = sorted(client.packages)
    first = re.sub(r"[^a-z0-9.]+", "-", packages[0].lower()).strip("-")
    # A virtual environment belongs to its interpreter.
    made_of = [client.runtime, *packages, *(sys.version.split()[:1] if client.runtime == "python" else ())]
    digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:8]
    return cache_dir() / client.runtime / f"{first}-{digest}"


def installed(client: Client) -> Path | None:
    """The client's prefix if everything is there."""
    prefix = prefix_of(client)
    return prefix if _mark(prefix).is_file() and missing_runtime(client) is None else None


def missing_runtime(client: Client) -> str | None:
    """What the machine lacks to run the client at all."""
    needed = ("node", "npm") if client.runtime == "node" else ()
    lacking = [program for program in needed if shutil.which(program) is None]
    return f"{client.name} needs {' and '.join(lacking)}, which is not on the PATH" if lacking else None


def install(client: Client, say: Callable[[str], None] = print) -> Path:
    """The client's prefix, with its packages installed now if they were not.

    Of several processes that want the same packages one installs them. Raises NotInstalled.
    """
    if why := missing_runtime(client):
        raise NotInstalled(why)
    prefix = prefix_of(client)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with _locked(prefix.with_name(f"{prefix.name}.lock")):
        if _mark(prefix).is_file():
            return prefix
        say(f"installing {' '.join(client.packages)} into {prefix}")
        shutil.rmtree(prefix, ignore_errors=True)
        for command in _commands(client, prefix):
            _told(command)
        _mark(prefix).write_text("\n".join(client.packages) + "\n")
    return prefix


def _mark(prefix: Path) -> Path:
    return prefix / "complete"


def _commands(client: Client, prefix: Path) -> Iterator[list[str]]:
    if client.runtime == "node":
        npm = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--loglevel=error")
        yield [*npm, f"--prefix={prefix}", *client.packages]
        return
    yield [sys.executable, "-m", "venv", str(prefix)]
    pip = (str(prefix / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    yield [*pip, *client.packages]


def _told(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"`{' '.join(command)}` took more than {_PATIENCE} seconds") from None
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).splitlines()[-_LINES:])
        raise NotInstalled(f"`{' '.join(command)}` failed:\n{last}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # Closing the file lets go.
