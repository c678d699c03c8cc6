"""The tables `[store]` and `[keys.NAME]` of the file."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from dragoman_server.accounts.keys.record import KeyLimits, KeyRecord
from dragoman_server.accounts.keys.secret import KeyHash
from dragoman_server.accounts.store.options import KINDS, ON_FAILURE, StoreOptions
from dragoman_server.config.toml_reader import ConfigError, Problem, Table


def read_store(table: Table) -> StoreOptions:
    """Return the options of the store; problems go to the table."""
    given: dict[str, Any] = {
        "kind": table.word("kind", KINDS),
        "path": table.text("path"),
        "url": table.secret("url"),
        "prefix": table.text("prefix"),
        "timeout": table.number("timeout"),
        "on_failure": table.word("on_failure", ON_FAILURE),
        "keys": table.boolean("keys"),
        "refresh": table.number("refresh"),
    }
    table.finish()
    return StoreOptions(**{name: value for name, value in given.items() if value is not None})


def read_keys(table: Table) -> dict[str, KeyRecord]:
    """Return the named keys of the file; problems go to the table. A key that cannot be read is left out."""
    found = {name: _key(name, table.table(name)) for name in table}
    table.finish()
    return {name: record for name, record in found.items() if record is not None}


def _key(name: str, table: Table) -> KeyRecord | None:
    written, models = table.text("hash", required=True), table.texts("models")
    expires, admin = table.moment("expires"), table.boolean("admin")
    if models == []:
        table.report("models", "is empty: name models, or remove the line to permit all")
    limits = KeyLimits(**table.values_of(KeyLimits))
    if written is None:
        return None
    try:
        kept = KeyHash.parse(written.strip())
    except ValueError as error:
        table.report("hash", str(error))
        return None
    return KeyRecord(name, kept, tuple(models or ()), limits, expires, bool(admin))


def load_accounts(path: str | os.PathLike[str]) -> tuple[StoreOptions, dict[str, KeyRecord]]:
    """Return the store and the keys of a file, without the rest of it.

    The command that manages keys is often run where the providers' keys are not set. Raises ConfigError.
    """
    try:
        data = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(os.fspath(path), f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(os.fspath(path), f"is not TOML: {error}") from error
    problems: list[Problem] = []
    root = Table(data, "", os.environ, problems)
    options, keys = read_store(root.table("store")), read_keys(root.table("keys"))
    problems += [problem for problem in options.problems() if problem[0] not in {path for path, _ in problems}]
    if problems:
        raise ConfigError.of(problems)
    return options, keys
