"""The tables `[store]`, `[keys.NAME]` and `[usage]` of the file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import KeyHash
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.store.options import SQLITE, StoreOptions
from dragoman_server.accounts.usage.options import DEFAULT_PATHS, UsageOptions
from dragoman_server.config.config_error import ConfigError, Problem
from dragoman_server.config.file_paths import directory_of, located
from dragoman_server.config.toml_reader import Table


def read_store(table: Table) -> StoreOptions:
    """Return the options of the store; problems go to the table."""
    return StoreOptions(**_with_path(table, StoreOptions, {SQLITE: StoreOptions.path}))


def read_usage(table: Table) -> UsageOptions:
    """Return the options of booked usage; problems go to the table."""
    return UsageOptions(**_with_path(table, UsageOptions, DEFAULT_PATHS))


def _with_path(table: Table, kind: type, defaults: Mapping[str, str]) -> dict[str, Any]:
    """Return settings, among them the path of the file, which has a default for each kind of store."""
    found = table.settings(kind)
    if "path" not in table and (path := defaults.get(found.get("kind", ""))):
        found["path"] = located(path, table.directory)
    table.finish()
    return found


def read_keys(table: Table) -> dict[str, KeyRecord]:
    """Return the named keys of the file; problems go to the table. A key that cannot be read is left out."""
    found = {name: _key(name, table.table(name)) for name in table}
    table.finish()
    return {name: record for name, record in found.items() if record is not None}


def _key(name: str, table: Table) -> KeyRecord | None:
    found, written = table.settings(KeyRecord), table.text("hash", required=True)
    if found.get("models") == ():
        table.report("models", "is empty: name models, or remove the line to permit all")
    limits = KeyLimits(**table.values_of(KeyLimits))
    if written is None:
        return None
    try:
        kept = KeyHash.parse(written.strip())
    except ValueError as error:
        table.report("hash", str(error))
        return None
    return KeyRecord(name, kept, limits=limits, **found)


def load_accounts(path: str | os.PathLike[str]) -> tuple[StoreOptions, dict[str, KeyRecord]]:
    """Return the store and the keys of a file, without the rest of it.

    The command that manages keys is often run where the providers' keys are not set. Raises ConfigError.
    """
    problems: list[Problem] = []
    root = read_root(path, problems)
    options, keys = read_store(root.table("store")), read_keys(root.table("keys"))
    raise_for(path, problems, options.problems())
    return options, keys


def load_usage(path: str | os.PathLike[str]) -> UsageOptions:
    """Return the options of booked usage of a file, without the rest of it. Raises ConfigError."""
    problems: list[Problem] = []
    options = read_usage(read_root(path, problems).table("usage"))
    raise_for(path, problems, options.problems())
    return options


def read_root(path: str | os.PathLike[str], problems: list[Problem]) -> Table:
    """Return a file's content as a table that reports to `problems`. Raises ConfigError if it cannot be read."""
    try:
        data = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(os.fspath(path), f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(os.fspath(path), f"is not TOML: {error}") from error
    return Table(data, "", os.environ, problems, directory_of(path))


def raise_for(file: str | os.PathLike[str], problems: list[Problem], more: Iterable[Problem]) -> None:
    """Raise ConfigError for these problems of a file and for `more` of other keys, if there are any."""
    problems += [problem for problem in more if problem[0] not in {path for path, _ in problems}]
    if problems:
        error = ConfigError.of(problems)
        error.file = os.fspath(file)
        raise error
