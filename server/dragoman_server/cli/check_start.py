"""Checks for `dragoman check`: whether a gateway could open its files, its stores and its address here.

Nothing is created or written.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from dragoman.threads import SqliteStore, StoreError
from dragoman.threads import Store as ThreadStore
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.store.create import create_key_store, create_store
from dragoman_server.accounts.store.interface import KeyStore
from dragoman_server.accounts.store.options import SQLITE
from dragoman_server.accounts.store.sqlite import MIGRATIONS, connect_read_only
from dragoman_server.accounts.usage.options import JSONL
from dragoman_server.accounts.usage.sqlite_file import VERSION
from dragoman_server.config.config_error import Problem
from dragoman_server.config.lint import is_local, models_without_price
from dragoman_server.config.schema import Config
from dragoman_server.config.store_urls import POSTGRES, REDIS
from dragoman_server.config.stored_files import stored_files
from dragoman_server.proxy.stored_responses import create_thread_store
from dragoman_server.workers.listeners import Listeners

_STORE_SECONDS = 2.0
"""Longest time for one call of the store, in seconds: more than a request has, as the list of keys may be long."""


def start_problems(config: Config) -> Iterator[Problem]:
    """Yield the problems for which `dragoman serve` would end at once."""
    earlier: dict[str, str] = {}
    versions = {"store.path": len(MIGRATIONS), "usage.path": VERSION, "state.path": SqliteStore.VERSION}
    wrong: str | None
    for key, path in stored_files(config):
        own_directory = key == "state.path" and not config.state.path and not os.path.exists(path)
        if (other := earlier.setdefault(os.path.realpath(path), key)) != key:
            wrong = f"{path} is that of {other} too"
        elif key == "capture.directory":
            wrong = directory_problem(path) or _mode_problem(path)
        elif own_directory:
            wrong = directory_problem(os.path.dirname(path))
        elif key == "usage.path" and config.usage.kind == JSONL:
            wrong = file_problem(path)
        else:
            wrong = database_problem(path, versions[key])
        if wrong is not None:
            yield key, wrong
    # Their clients are only created, which finds wrong URLs: servers may start later than the gateway.
    if config.named_keys and config.store.for_limits().kind == REDIS:
        yield from _client_problem("store", create_store(config.store))
    if config.named_keys and (keys := create_key_store(config.store)) is not None:
        yield from _client_problem("store", keys)
    if config.state.kind in (REDIS, POSTGRES):
        yield from _client_problem("state", create_thread_store(config.state, time.time))
    error = _address_error(config)
    if error is not None and error.errno != errno.EADDRINUSE:
        yield "server.host", str(error.strerror)


def start_remarks(config: Config) -> Iterator[str]:
    """Yield a sentence for what may keep `dragoman serve` from starting, but need not."""
    if not (config.requires_key or is_local(config.server.host)):
        where = config.server.host
        yield f"dragoman serve needs --insecure to listen on {where}, as no key is required: set server.keys"
    if (error := _address_error(config)) is not None:
        yield f"now dragoman serve {error.strerror}"
    yield from _stored_key_remarks(config)


def _stored_key_remarks(config: Config) -> Iterator[str]:
    """Yield a sentence for each model without a price that a key of the store needs, or one if it cannot be read."""
    options = config.store
    if not options.holds_keys or (options.kind == SQLITE and not os.path.exists(options.path)):
        return

    async def read() -> Sequence[KeyRecord]:
        patient = replace(options, timeout=_STORE_SECONDS)
        store = create_key_store(patient, read_only=True) or create_store(patient, read_only=True)
        await store.open()
        try:
            found = await store.keys()
        finally:
            await store.close()
        return found.records if found is not None else ()

    try:
        records = asyncio.run(read())
    except StoreError as error:
        yield f"the keys of the store cannot be read, so the prices that they need are not checked: {error}"
        return
    yield from models_without_price(config, records, config.keys.values())


def _address_error(config: Config) -> OSError | None:
    """Return the error of binding the address, which is released again at once."""
    try:
        Listeners(config.server.host, config.server.port, balanced=False).close()
    except OSError as error:
        return error
    return None


def file_problem(path: str) -> str | None:
    """Return why a file could not be opened to be written, or None. It is created where its directory exists."""
    if os.path.lexists(path) and not os.path.isfile(path):
        return f"{path} is not a regular file"
    if os.path.exists(path):
        return None if os.access(path, os.R_OK | os.W_OK) else f"{path} cannot be read and written"
    directory = _directory(path)
    if not os.path.isdir(directory):
        return f"the directory {directory} does not exist: create it"
    return None if _is_writable(directory) else f"the directory {directory} cannot be written"


def database_problem(path: str, version: int) -> str | None:
    """Return why an SQLite file could not be used, or None. `version` is the latest schema that its store knows."""
    if (wrong := file_problem(path)) or not os.path.exists(path):
        return wrong
    if not _is_writable(_directory(path)):
        return f"the directory of {path} cannot be written, where SQLite keeps its log"
    try:
        with closing(connect_read_only(path)) as db:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            (found,) = db.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        return f"{path} cannot be used: {error}"
    return f"{path} has schema version {found}, of a later Dragoman" if found > version else None


def directory_problem(path: str) -> str | None:
    """Return why files could not be written to a directory, or why it could not be created, or None."""
    if os.path.isdir(path):
        return None if _is_writable(path) else f"the directory {path} cannot be written"
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        return f"{above} is not a directory"
    return None if _is_writable(above) else f"{path} cannot be created: {above} cannot be written"


def _mode_problem(path: str) -> str | None:
    """Return why a directory that others may read could not be closed to them, or None."""
    if not os.path.exists(path) or not hasattr(os, "geteuid"):
        return None
    found, user = os.stat(path), os.geteuid()
    if user in (0, found.st_uid) or not found.st_mode & 0o077:
        return None
    return f"the directory {path} belongs to another user, and others may read it: make it one with mode 0700"


def _client_problem(key: str, store: KeyStore | ThreadStore) -> Iterator[Problem]:
    async def open_and_close() -> None:
        await store.open()
        await store.close()

    try:
        asyncio.run(open_and_close())
    except StoreError as error:
        yield key, str(error)


def _directory(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def _is_writable(directory: str) -> bool:
    return os.access(directory, os.R_OK | os.W_OK | os.X_OK)
