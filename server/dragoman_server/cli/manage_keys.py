"""`dragoman keys add | list | change | revoke`: the keys in a store, and keys to paste into a configuration."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dragoman.wire import json_dumps
from dragoman_server.accounts.keys.record import KeyRecord, named, parse_moment, written_moment
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.limits.key_limits import DAILY_COST, MONTHLY_COST, KeyLimits
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.store.create import create_key_store, create_store
from dragoman_server.accounts.store.interface import AccountStore, KeyStore, Spent, StoreError
from dragoman_server.accounts.store.options import NEEDS_REDIS, SQLITE, StoreOptions
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import DEFAULT_FILE
from dragoman_server.cli.describe_config import describe_key
from dragoman_server.config.accounts_tables import load_accounts
from dragoman_server.config.config_error import join
from dragoman_server.config.file_paths import NOT_FILES, directory_of
from dragoman_server.config.schema import Config
from dragoman_server.config.shown_url import shown_url
from dragoman_server.config.store_urls import POSTGRES
from dragoman_server.config.stored_files import files_left_behind
from dragoman_server.config.value_problems import closest

T = TypeVar("T")
_NEVER = "never"
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
    _add_limits(add, 0, "default: no limit")
    add.add_argument("--expires", metavar="WHEN", help="a date, a time (RFC 3339), or a duration: 12h, 30d, 8w")
    add.add_argument("--admin", action="store_true", help="may use the endpoints that show the gateway's state")
    add.add_argument("--capture", action="store_true", help="capture all its exchanges, if captures are configured")
    add.add_argument("--tag", metavar="TAG", help="a word by which its usage is added up, such as a cost centre")
    add.set_defaults(run=_add)

    show = actions.add_parser("list", help="list the keys, with what they have used of their budgets")
    _add_file(show)
    show.add_argument("--json", action="store_true", help="print JSON on standard output")
    show.set_defaults(run=_list)

    change = actions.add_parser("change", help="change the models, limits or rights of a key, and leave the others")
    change.add_argument("name", metavar="NAME", help="name or id of the key")
    _add_file(change)
    change.add_argument(
        "--model",
        action="append",
        metavar="PATTERN",
        help="a model that it may use, in place of those before; '*': all",
    )
    _add_limits(change, None, "0: no limit")
    change.add_argument("--expires", metavar="WHEN", help="as for add, or never")
    yes_or_no = argparse.BooleanOptionalAction
    change.add_argument("--admin", action=yes_or_no, help="may use the endpoints that show the gateway's state")
    change.add_argument("--capture", action=yes_or_no, help="capture all its exchanges, if captures are configured")
    change.add_argument("--tag", metavar="TAG", help="as for add; '': no tag")
    change.set_defaults(run=_change)

    revoke = actions.add_parser(
        "revoke", help="remove a key; gateways reject it within store.refresh seconds, with PostgreSQL at once"
    )
    revoke.add_argument("name", metavar="NAME", help="name or id of the key")
    _add_file(revoke)
    revoke.set_defaults(run=_revoke)


def _add_limits(parser: argparse.ArgumentParser, default: float | None, meaning: str) -> None:
    """Declare an option for each limit. Without a `default`, a limit of 0 is allowed, which removes it."""
    for spec in fields(KeyLimits):
        kind = float if spec.name.endswith("_cost") else int
        option = f"--{spec.name.replace('_', '-')}"
        read = partial(_limit, kind, default is None)
        parser.add_argument(option, type=read, default=default, metavar="N", help=meaning)


def _limit(kind: type[int] | type[float], zero: bool, text: str) -> float:
    """Return the limit that an option sets. `zero` allows 0, which is no limit. Raises ArgumentTypeError."""
    try:
        value = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a {'whole ' * (kind is int)}number; got {text!r}") from None
    if value == 0 and not zero:
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
        raise CommandError("--config", f"there is no ./{DEFAULT_FILE}: name the configuration")
    path = args.config or DEFAULT_FILE
    options, keys = load_accounts(path)
    for sentence in files_left_behind(Config(keys=keys, store=options, directory=directory_of(path))):
        print(sentence, file=sys.stderr)
    return replace(options, timeout=_SECONDS), keys


def _missing(options: StoreOptions) -> bool:
    """True if the store is a file that does not exist, which only `add` creates."""
    return options.kind == SQLITE and options.path not in NOT_FILES and not os.path.exists(options.path)


def _with_store(
    options: StoreOptions, work: Callable[[KeyStore, AccountStore], Awaitable[T]], *, read_only: bool = False
) -> T:
    """Open the stores of keys and of limits, run `work`, and close them. Raises CommandError."""
    if not options.holds_keys:
        kinds = 'set kind = "sqlite", "redis" or "postgresql"'
        raise CommandError("store", f"holds no keys: {kinds}, or use `dragoman keys add --toml`")

    async def run() -> T:
        limits = create_store(options, read_only=read_only)
        keys = create_key_store(options, read_only=read_only)
        async with AsyncExitStack() as opened:
            for store in (limits, keys):
                if store is not None:
                    await store.open()
                    opened.push_async_callback(store.close)
            return await work(limits if keys is None else keys, limits)

    try:
        return asyncio.run(run())
    except StoreError as error:
        raise CommandError("store", str(error)) from None


def _add(args: argparse.Namespace) -> int:
    options, configured = _accounts(args)
    now = time.time()
    expires = None if args.expires is None else _moment(args.expires, now)
    key = new_key()
    limits = KeyLimits(**{spec.name: getattr(args, spec.name) for spec in fields(KeyLimits)})
    hashed, models = KeyHash.of(key), tuple(args.model)
    record = KeyRecord(args.name, hashed, models, limits, expires, args.admin, int(now), args.capture, args.tag)
    _check(record)
    _check_limits(record, options, kept=not args.toml)
    if args.toml:
        print(_toml(record))
        print(f"# The key, which is not kept: {key}", file=sys.stderr)
        return 0
    if args.name in configured:
        raise CommandError(join("keys", args.name), "is in the configuration already")

    async def put(store: KeyStore, _: AccountStore) -> None:
        found = await store.keys()
        if found is not None and named(found.records, args.name) is not None:
            raise CommandError(args.name, "is the name of a key already; choose another, or revoke that key first")
        await store.put_key(record)

    _with_store(options, put)
    print(key)
    print(
        f"added {describe_key(record)}. Keep the key: it is not stored. Gateways that use",
        f"{shown_url(options.url) if options.url else options.path} accept it {_soon(options)}.",
        file=sys.stderr,
    )
    return 0


def _moment(text: str, now: float) -> float:
    """Return the time of `--expires`. Raises CommandError."""
    found = parse_moment(text, now)
    if found is None:
        raise CommandError("--expires", f"expected 2027-01-31, a time in RFC 3339, or 12h, 30d, 8w; got {text!r}")
    if found <= now:
        raise CommandError("--expires", "is in the past")
    return found


def _check(record: KeyRecord) -> None:
    """Raise CommandError for a key with problems."""
    if problems := list(record.problems("key")):
        raise CommandError.of([(path.replace("key", "NAME", 1), message) for path, message in problems])


def _check_limits(record: KeyRecord, options: StoreOptions, *, kept: bool = True) -> None:
    """Raise CommandError for a key with limits that is to be kept where none are counted."""
    if kept and record.limits and options.kind == POSTGRES and not options.limits_url:
        raise CommandError("store.limits_url", NEEDS_REDIS)


def _soon(options: StoreOptions) -> str:
    """Return when gateways notice a change of a key."""
    return "at once" if options.kind == POSTGRES else f"within {options.refresh:g} seconds"


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
    if record.tag is not None:
        lines.append(f'tag = "{record.tag}"')
    return "\n".join(lines)


def _list(args: argparse.Namespace) -> int:
    options, configured = _accounts(args)
    stored: Sequence[KeyRecord] = ()
    spent: Mapping[str, Sequence[Spent]] = {}
    if options.holds_keys and not _missing(options):

        async def read(
            store: KeyStore, limits: AccountStore
        ) -> tuple[Sequence[KeyRecord], Mapping[str, Sequence[Spent]]]:
            found = await store.keys()
            records = found.records if found is not None else ()
            known = (*configured.values(), *records)
            # Only of keys with a budget, so that ten thousand keys without one are listed at once.
            sums = {key.id: await limits.spent(key.id) for key in known if key.limits}
            return sorted(records, key=lambda record: record.name), sums

        stored, spent = _with_store(options, read, read_only=True)
    rows = [(record, "config") for record in configured.values()] + [(record, options.kind) for record in stored]
    if args.json:
        data = [_as_data(record, source, spent.get(record.id, ())) for record, source in rows]
        sys.stdout.write(json_dumps({"object": "list", "data": data}).decode() + "\n")
        return 0
    for record, source in rows:
        print(f"{describe_key(record)} ({source})")
        for each in spent.get(record.id, ()):
            print(f"    {each.name} of {each.period}: {written_amount(each)}")
    if not rows:
        print(f"there are no named keys{_no_file(options)}", file=sys.stderr)
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


def written_amount(spent: Spent) -> str:
    """Return an amount without an exponent, which a small cost would have, and without zeros at its end."""
    return f"{_amount(spent):.9f}".rstrip("0").rstrip(".")


def _change(args: argparse.Namespace) -> int:
    options, configured = _accounts(args)
    _check_stored(args.name, configured, "change")
    changes: dict[str, Any] = {}
    if args.model is not None:
        changes["models"] = tuple(args.model)
    if args.expires is not None:
        changes["expires"] = None if args.expires == _NEVER else _moment(args.expires, time.time())
    if args.tag is not None:
        changes["tag"] = args.tag or None
    for name in ("admin", "capture"):
        if getattr(args, name) is not None:
            changes[name] = getattr(args, name)
    limits = {spec.name: getattr(args, spec.name) for spec in fields(KeyLimits)}
    limits = {name: value for name, value in limits.items() if value is not None}
    if not changes and not limits:
        raise CommandError(
            args.name, "nothing to change: give a limit, --model, --expires, --admin, --capture or --tag"
        )

    async def put(store: KeyStore, record: KeyRecord) -> KeyRecord:
        changed = replace(record, **changes, limits=replace(record.limits, **limits))
        _check(changed)
        _check_limits(changed, options)
        await store.put_key(changed)
        return changed

    record = _edit(args.name, options, put)
    if record is None:
        return 1
    print(f"changed {describe_key(record)}. Gateways use it {_soon(options)}.", file=sys.stderr)
    return 0


def _check_stored(name: str, configured: Mapping[str, KeyRecord], verb: str) -> None:
    """Raise CommandError for a key of the configuration, which no command changes."""
    if (record := named(tuple(configured.values()), name)) is not None:
        where = join("keys", record.name)
        raise CommandError(where, f"is in the configuration: {verb} [{where}] and reload the gateway")


def _edit(
    name: str, options: StoreOptions, edit: Callable[[KeyStore, KeyRecord], Awaitable[KeyRecord]]
) -> KeyRecord | None:
    """Run `edit` on a stored key, and return what it returns; None, after a message, if there is no such key."""

    async def work(store: KeyStore, _: AccountStore) -> KeyRecord | Sequence[KeyRecord]:
        found = await store.keys()
        records = found.records if found is not None else ()
        record = named(records, name)
        return await edit(store, record) if record is not None else records

    known: KeyRecord | Sequence[KeyRecord] = () if _missing(options) else _with_store(options, work)
    if isinstance(known, KeyRecord):
        return known
    similar = closest(name, [record.name for record in known])
    print(f"dragoman: there is no key {name!r}{similar}{_no_file(options)}", file=sys.stderr)
    return None


def _no_file(options: StoreOptions) -> str:
    return f": {options.path} does not exist yet" if _missing(options) else ""


def _revoke(args: argparse.Namespace) -> int:
    options, configured = _accounts(args)
    _check_stored(args.name, configured, "remove")

    async def remove(store: KeyStore, record: KeyRecord) -> KeyRecord:
        await store.remove_key(record.id)
        return record

    record = _edit(args.name, options, remove)
    if record is None:
        return 1
    print(f"revoked {record.name} ({record.id}); gateways reject it {_soon(options)}", file=sys.stderr)
    return 0
