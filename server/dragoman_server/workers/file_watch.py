"""`dragoman serve --watch`: notices changes of the configuration file, and of the secrets and prices that it names.

The files are polled, as their modification time, size and identity can be read on every system and file system. This
also finds a file that was replaced, or a symbolic link that now leads to another file, which is how Kubernetes updates
mounted secrets.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman_server.config.file_paths import directory_of
from dragoman_server.config.price_tables import FILE
from dragoman_server.config.secret_file import PREFIX
from dragoman_server.config.toml_reader import Table

log = logging.getLogger("dragoman")

POLL_SECONDS = 1.0
"""Seconds between two looks at the files. A change is reported when they are the same in two looks in a row."""

_Stamp = tuple[int, int, int, int] | None


class FileWatch:
    """The state of a configuration file and of the files that it names."""

    def __init__(self, path: str | os.PathLike[str], env: Mapping[str, str] = os.environ) -> None:
        self._path = os.fspath(path)
        self._env = env
        self._named: tuple[_Stamp, tuple[str, ...]] = (None, ())
        self._pending = self._seen = self._look()

    def changed(self) -> bool:
        """Look at the files. Return True once for each change, when nothing has changed since the last look."""
        now = self._look()
        before, self._pending = self._pending, now
        if now == self._seen or now != before:
            return False
        self._seen = now
        return True

    def _look(self) -> tuple[_Stamp, ...]:
        own = _stamp(self._path)
        if own != self._named[0]:
            self._named = own, tuple(named_files(self._path, self._env))
        return own, *map(_stamp, self._named[1])


@asynccontextmanager
async def watching(
    watch: FileWatch | None, report: Callable[[], None], *, interval: float = POLL_SECONDS
) -> AsyncIterator[None]:
    """Call `report()` in the event loop after each change, until the context is left. Without `watch`, do nothing."""
    if watch is None:
        yield
        return

    async def poll() -> None:
        while True:
            await asyncio.sleep(interval)
            if watch.changed():
                log.info("the configuration, or a file that it names, has changed")
                report()

    task = asyncio.create_task(poll())
    try:
        yield
    finally:
        task.cancel()


def named_files(path: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of the files that a configuration names as `file:PATH`, and of its prices.

    A configuration that cannot be read names no file.
    """
    try:
        data = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return
    found = [text.removeprefix(PREFIX) for text in _strings(data) if text.startswith(PREFIX)]
    if type(prices := data.get("prices")) is dict and type(named := prices.get(FILE)) is str:
        found.append(named)
    for text in found:
        if resolved := Table({"path": text}, "", env, [], directory_of(path)).file_path("path"):
            yield resolved


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def _stamp(path: str) -> _Stamp:
    """Return what changes with a file's content, or None if there is no such file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
