"""The files and the directory that a configuration's gateway writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from dragoman_server.accounts.store.options import SQLITE as STORE_SQLITE
from dragoman_server.accounts.usage.options import DEFAULT_PATHS
from dragoman_server.config.file_paths import NOT_FILES
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import SQLITE as STATE_SQLITE


class StoredFile(NamedTuple):
    """A file, by its key in the configuration."""

    key: str
    path: str


def stored_files(config: Config) -> list[StoredFile]:
    """Return the files that a gateway with this configuration opens to write."""
    found = []
    if config.named_keys and config.store.kind == STORE_SQLITE:
        found.append(StoredFile("store.path", config.store.path))
    if config.usage.kind in DEFAULT_PATHS:
        found.append(StoredFile("usage.path", config.usage.file))
    if config.state.kind == STATE_SQLITE:
        found.append(StoredFile("state.path", config.state.file))
    if config.capture.enabled:
        found.append(StoredFile("capture.directory", config.capture.directory))
    return [file for file in found if file.path not in NOT_FILES]


def files_left_behind(config: Config) -> Iterator[str]:
    """Yield a sentence for each file that is only in the working directory, where relative paths led to before."""
    directory = config.directory
    for key, path in stored_files(config) if directory else ():
        old = os.path.abspath(path.removeprefix(f"{directory}{os.sep}"))
        if old != os.path.abspath(path) and os.path.exists(old) and not os.path.exists(path):
            yield (
                f"{key} is {path}, which does not exist, but {old} does: a relative path is relative to the"
                " configuration's file, so move the file, or write the whole path"
            )
