"""`dragoman keys add | list | revoke`: the named keys in a store, and keys to paste into a configuration."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dragoman import json_dumps
from dragoman_server.accounts.keys.record import (
    KeyRecord,
    named,
    parse_moment,
    written_moment,
)
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.limits.key_limits import DAILY_COST, MONTHLY_COST, KeyLimits
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.store.create import create_store
from dragoman_server.accounts.store.interface import Spent, Store, StoreError
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.cli.config_source import DEFAULT_FILE
from dragoman_server.cli.describe_config import describe_key
from dragoman_server.config.accounts_tables import load_accounts
from dragoman_server.config.toml_reader import ConfigError, join

T = TypeVar("T")
_SECONDS = 5.0
"""Longest time for one call of the store, in seconds: a person can wait longer than a request."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")

    add = actions.add_parser("add", help="make a key and print it, once; only its hash is kept")
    add.add_argument("name", metavar="NAME", help="name of the key: of a person, a team or an application")
    _add_file(add)
    add.add_argument("--toml", action="store_true", help="print a table for the configuration; keep nothing")
    add.add_argument(
        "--model", action="append", default=[], metavar="PATTERN", help="a model that it may use (default: all)"
    )
    for spec in fields(KeyLimits):
        kind = float if spec.name.endswith("_cost") else int
        add.add_argument(
            f"--{spec.name.replace('_', '-')}",
            type=partial(_limit, kind),
            default=0,
            metavar="N",
            help="default: no limit",
        )
    add.add_argument("--expires", metavar="WHEN", help="a date, a time (RFC 3339), or a duration: 12h, 30d, 8w")
    add.add_argument("--admin", action="store_true", help="may use the endpoints that show the gateway's state")
    add.add_argument("--capture", action="store_true", help="capture all its exchanges, if captures are configured")
    add.set_defaults(run=_add)

    show = actions.add_parser("list", help="list the keys, with what they have used of their budgets")
    _add_file(show)
    show.add_argument("--json", action="store_true", help="print JSON on standard output")
    show.set_defaults(run=_list)

    revoke = actions.add_parser("revoke", help="remove a key; gateways reject it within store.refresh seconds")
    revoke.add_argument("name", metavar="NAME", help="name or id of the key")
    _add_file(revoke)
    revoke.set_defaults(run=_revoke)


def _limit(kind: type[int] | type[float], text: str) -> float:
    """Return the limit that an option sets. Raises ValueError, and ArgumentTypeError for 0, which would be no limit."""
    value = kind(text)
    if value == 0:
        raise argparse.ArgumentTypeError("0 would be no limit: leave the option out for that")
    return value


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--config", metavar="FILE", help=f"configuration with the table [store] (default ./{DEFAULT_FILE})"
    )


def _accounts(args: argparse.Namespace) -> tuple[StoreOptions, Mapping[str, KeyRecord]]:
    if args.config is None and not Path(DEFAULT_FILE).is_file():
        if getattr(args, "toml", False):
            return StoreOptions(), {}
        raise ConfigError("--config", f"there is no ./{DEFAULT_FILE}: name the configuration")
    options, keys = load_accounts(args.config or DEFAULT_FILE)
    return replace(options, timeout=_SECONDS), keys


def _with_store(options: StoreOptions, work: Callable[[Store], Awaitable[T]]) -> T:
    """Open the store, run `work`, and close it. Raises ConfigError."""
    if not options.holds_keys:
        raise ConfigError("store", 'holds no keys: set kind = "sqlite" or "redis", or use `dragoman keys add --toml`')

    async def run() -> T:
        store = create_store(options)
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except StoreError as error:
        raise ConfigError("store", str(error)) from None


def _add(args: argparse.Namespace) -> int:
    options, configured = _accounts(args)
    now = time.time()
    expires = None
    if args.expires is not None and (expires := parse_moment(args.expires, now)) is None:
        raise ConfigError(
            "--expires", f"expected 2027-01-31, a time in RFC 3339, or 12h, 30d, 8w; got {args.expires!r}"
        )
    key = new_key()
    limits = KeyLimits(**{spec.name: getattr(args, spec.name) for spec in fields(KeyLimits)})
    hashed, models = KeyHash.of(key), tuple(args.model)
    record = KeyRecord(args.name, hashed, models, limits, expires, args.admin, int(now), args.capture)
    if problems := list(record.problems("key")):
        raise ConfigError.of([(path.replace("key", "NAME", 1), message) for path, message in problems])
    if args.toml:
        print(_toml(record))
        print(f"# The key, which is not kept: {key}", file=sys.stderr)
        return 0
    if expires is not None and expires <= now:
        raise ConfigError("--expires", "is in the past")
    if args.name in configured:
        raise ConfigError(join("keys", args.name), "is in the configuration already")

    async def put(store: Store) -> None:
        found = await store.keys()
        if found is not None and named(found.records, args.name) is not None:
            raise ConfigError(args.name, "is the name of a key already; choose another, or revoke that key first")
        await store.put_key(record)

    _with_store(options, put)
    print(key)
    print(
        f"added {describe_key(record)}. Keep the key: it is not stored. Gateways accept it within",
        file=sys.stderr,
        end=" ",
    )
    print(f"{options.refresh:g} seconds.", file=sys.stderr)
    return 0


def _toml(record: KeyRecord) -> str:
    """Return the table of a key for the configuration."""
    lines = [f"[{join('keys', record.name)}]", f'hash = "{record.hash}"']
    if record.models:
        lines.append(f"models = {json_dumps(list(record.models)).decode()}")
    lines += [f"{name} = {value}" for name, value in asdict(record.limits).items() if value]
    if record.expires is not None:
        lines.append(f"expires = {written_moment(record.expires)}")
    if record.admin:
        lines.append("admin = true")
    if record.capture:
        lines.append("capture = true")
    return "\n".join(lines)


def _list(args: argparse.Namespace) -> int:
    options, configured = _accounts(args)
    stored: Sequence[KeyRecord] = ()
    spent: Mapping[str, Sequence[Spent]] = {}
    if options.holds_keys:

        async def read(store: Store) -> tuple[Sequence[KeyRecord], Mapping[str, Sequence[Spent]]]:
            found = await store.keys()
            records = found.records if found is not None else ()
            known = (*configured.values(), *records)
            # Only of keys with a budget, so that ten thousand keys without one are listed at once.
            sums = {key.id: await store.spent(key.id) for key in known if key.limits}
            return sorted(records, key=lambda record: record.name), sums

        stored, spent = _with_store(options, read)
    rows = [(record, "config") for record in configured.values()] + [(record, options.kind) for record in stored]
    if args.json:
        data = [_as_data(record, source, spent.get(record.id, ())) for record, source in rows]
        sys.stdout.write(json_dumps({"object": "list", "data": data}).decode() + "\n")
        return 0
    for record, source in rows:
        print(f"{describe_key(record)} ({source})")
        for each in spent.get(record.id, ()):
            print(f"    {each.name} of {each.period}: {_amount(each):.10g}")
    if not rows:
        print("there are no named keys", file=sys.stderr)
    return 0


def _as_data(record: KeyRecord, source: str, spent: Sequence[Spent]) -> dict[str, Any]:
    data = record.as_data()
    del data["hash"]
    if record.expires is not None:
        data["expires"] = written_moment(record.expires)
    sums = {each.name: {"period": each.period, "amount": _amount(each)} for each in spent}
    return {"id": record.id, **data, "source": source, "spent": sums}


def _amount(spent: Spent) -> float:
    return spent.amount / UNITS if spent.name in (DAILY_COST, MONTHLY_COST) else spent.amount


def _revoke(args: argparse.Namespace) -> int:
    options, configured = _accounts(args)
    if (record := named(tuple(configured.values()), args.name)) is not None:
        where = join("keys", record.name)
        raise ConfigError(where, f"is in the configuration: remove [{where}] and reload the gateway")

    async def remove(store: Store) -> KeyRecord | None:
        found = await store.keys()
        record = named(found.records, args.name) if found is not None else None
        if record is not None:
            await store.remove_key(record.id)
        return record

    record = _with_store(options, remove)
    if record is None:
        print(f"dragoman: there is no key {args.name!r}", file=sys.stderr)
        return 1
    print(
        f"revoked {record.name} ({record.id}); gateways reject it within {options.refresh:g} seconds", file=sys.stderr
    )
    return 0
