"""The tables `[store]`, `[keys.NAME]`, `[usage]` and `[prices.PATTERN]` of the file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import KeyHash
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.store.options import KINDS, ON_FAILURE, SQLITE, StoreOptions
from dragoman_server.accounts.usage.options import DEFAULT_PATHS, UsageOptions
from dragoman_server.accounts.usage.options import KINDS as KINDS_OF_USAGE
from dragoman_server.accounts.usage.price_table import Price
from dragoman_server.config.toml_reader import ConfigError, Problem, Table, directory_of


def read_store(table: Table) -> StoreOptions:
    """Return the options of the store; problems go to the table."""
    kind = table.word("kind", KINDS)
    given: dict[str, Any] = {
        "kind": kind,
        "path": table.file_path("path", StoreOptions.path if kind == SQLITE else None),
        "url": table.address("url"),
        "prefix": table.text("prefix"),
        "timeout": table.number("timeout"),
        "on_failure": table.word("on_failure", ON_FAILURE),
        "keys": table.boolean("keys"),
        "refresh": table.number("refresh"),
    }
    table.finish()
    return StoreOptions(**{name: value for name, value in given.items() if value is not None})


def read_usage(table: Table) -> UsageOptions:
    """Return the options of booked usage; problems go to the table."""
    kind = table.word("kind", KINDS_OF_USAGE)
    given: dict[str, Any] = {
        "kind": kind,
        "path": table.file_path("path", DEFAULT_PATHS.get(kind or "")),
        "max_bytes": table.integer("max_bytes"),
        "files": table.integer("files"),
        "keep_days": table.integer("keep_days"),
    }
    table.finish()
    return UsageOptions(**{name: value for name, value in given.items() if value is not None})


def read_prices(table: Table) -> dict[str, Price]:
    """Return the prices by the pattern of the upstream's model; problems go to the table."""
    return {pattern: _price(table.table(pattern)) for pattern in table}


def _price(table: Table) -> Price:
    given = {spec.name: table.number(spec.name) for spec in fields(Price)}
    table.finish()
    return Price(**{name: value for name, value in given.items() if value is not None})


def read_keys(table: Table) -> dict[str, KeyRecord]:
    """Return the named keys of the file; problems go to the table. A key that cannot be read is left out."""
    found = {name: _key(name, table.table(name)) for name in table}
    table.finish()
    return {name: record for name, record in found.items() if record is not None}


def _key(name: str, table: Table) -> KeyRecord | None:
    written, models = table.text("hash", required=True), table.texts("models")
    expires, admin, capture = table.moment("expires"), table.boolean("admin"), table.boolean("capture")
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
    return KeyRecord(name, kept, tuple(models or ()), limits, expires, bool(admin), capture=bool(capture))


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
