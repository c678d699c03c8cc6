"""Configuration from a TOML file or a dict. The keys are in docs/reference/configuration.md.

The result is a `Config`, or one `ConfigError` with all problems.
"""

from __future__ import annotations

import os
import tomllib
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman import Dialect, Knobs, Profile, builtin_profile
from dragoman.gateway import BUILTIN_PROFILES, CLIENT_DIALECTS, DEFAULT_DIALECT, VENDOR_PROFILES
from dragoman_server.config.accounts_tables import read_keys, read_store, read_usage
from dragoman_server.config.config_error import ConfigError, Problem
from dragoman_server.config.door import Door
from dragoman_server.config.file_paths import directory_of
from dragoman_server.config.forwarded_endpoints import GROUPS
from dragoman_server.config.hints import other_format, without_common_mistakes
from dragoman_server.config.host_profiles import RENAMED, default_profile
from dragoman_server.config.price_tables import FILE, read_prices
from dragoman_server.config.provider import Provider
from dragoman_server.config.references import with_references
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import SIMULATED, Config, Models, Server
from dragoman_server.config.state_options import read_state
from dragoman_server.config.toml_reader import Table

KEY_VARIABLES = tuple(dict.fromkeys(dialect.facts.key_variable for dialect in Dialect))
"""The environment variables of the vendors' keys."""


class NothingConfigured(ConfigError):
    """Neither the command line nor the environment names an upstream."""

    def __init__(self) -> None:
        names = " or ".join(KEY_VARIABLES)
        super().__init__("", f"no upstream is configured: give a base URL, or set {names}")


def load_config(path: str | os.PathLike[str], *, price_file: bool = True) -> Config:
    """Return the configuration of a TOML file, with references to this process's environment resolved.

    The file that `prices.file` names is left out if `price_file` is False. Raises `ConfigError` with all problems, also
    if a file cannot be read, is not TOML or has no provider.
    """
    name, text = os.fspath(path), ""
    try:
        # Editors on Windows may begin a file with a byte order mark.
        text = Path(path).read_bytes().removeprefix(BOM_UTF8).decode()
        data = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(name, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        hint = other_format(text, name)
        raise ConfigError(name, f"is not TOML: {error}{hint and f'. It {hint}'}") from error
    if not price_file and type(prices := data.get("prices")) is dict:
        prices.pop(FILE, None)
    try:
        config = parse_config(data, os.environ, directory_of(path))
    except ConfigError as error:
        error.file = name
        error.add_note(f"in {name}")
        raise
    if not config.providers:
        raise ConfigError(name, "has no provider: write a [providers.NAME]; `dragoman init` writes an example")
    return config


def parse_config(data: Mapping[str, Any], env: Mapping[str, str], directory: str = "") -> Config:
    """Return the configuration of a dict shaped like the TOML file. Raises `ConfigError` with all problems.

    Relative paths are in `directory`, by default in the working directory.
    """
    problems: list[Problem] = []
    root = Table(without_common_mistakes(data, problems), "", env, problems, directory)
    config = read_tables(root)
    root.finish()
    # A key that could not be read has its default here: report no further problems of it.
    reported = tuple(path + end for path, _ in problems for end in (".", "["))
    if "providers." in reported:  # no provider was read: do not report unknown providers of routes
        reported += tuple(
            f"routes[{index}].provider{end}" for index in range(len(config.routes)) for end in (".", "s[")
        )
    problems += [problem for problem in config.problems() if not f"{problem[0]}.".startswith(reported)]
    if problems:
        raise ConfigError.of(with_references(problems, data, env))
    return config


def read_tables(root: Table) -> Config:
    """Return the configuration that the tables of a file describe; problems go to the tables."""
    knobs = root.values("knobs", Knobs)
    models, listed = _models(root.table("models"))
    prices, price_file = read_prices(root.table("prices"))
    return Config(
        server=_server(root.table("server")),
        knobs=Knobs(**knobs),
        providers=_providers(root.table("providers")),
        routes=tuple(_route(table) for table in root.tables("routes")),
        models=models,
        models_listed=listed,
        keys=read_keys(root.table("keys")),
        store=read_store(root.table("store")),
        usage=read_usage(root.table("usage")),
        prices=prices,
        price_file=price_file,
        state=read_state(root.table("state")),
        knobs_named=frozenset(knobs),
        directory=root.directory,
        **root.settings(Config),
    )


def _server(table: Table) -> Server:
    found = table.settings(Server)
    if found.get("keys") == () and not _has_problem(table, "keys"):
        table.report("keys", "is empty: give at least one key, or remove the line to accept all clients")
    table.finish()
    return Server(**found)


def _has_problem(table: Table, key: str) -> bool:
    return any(path.startswith(table.at(key)) for path, _ in table.problems)


def _providers(table: Table) -> dict[str, Provider]:
    return {name: _provider(name, table.table(name)) for name in table}


def _provider(name: str, table: Table) -> Provider:
    found = table.settings(Provider)
    door = table.settings(Door)
    word = found.get("dialect")
    given = {"dialect": DEFAULT_DIALECT, "base_url": "", **found}
    dialect = given["dialect"]
    # Without a valid dialect, accept the profiles of all dialects.
    names = dict.fromkeys(profile for each, profile in BUILTIN_PROFILES if word in (None, each))
    chosen = table.word("profile", names, hints=RENAMED)
    if not word or not chosen:
        chosen = default_profile(dialect, given["base_url"])
    flags = table.values("profile_flags", Profile)
    if found.get("api_keys") == ():
        table.report("api_keys", "is empty: give at least one key, or remove the line")
    elif "api_keys" in found and "api_key" in table:
        table.report("api_keys", "replaces api_key: remove one of the two")
    table.finish()
    given["headers"] = {header.lower(): value for header, value in given.get("headers", {}).items()}
    profile = builtin_profile(dialect, chosen).replace(flags)
    if door:
        given["door"] = Door(**door)
    return Provider(name=name, **given, profile=profile, profile_name=chosen)


def _route(table: Table) -> Route:
    found = {"model": "", **table.settings(Route)}
    table.require_one("provider", "providers")
    targets = _targets(table)
    if "providers" in table:
        if found.get("provider") is not None:
            table.report("providers", "replaces provider: remove one of the two")
        if not targets and not _has_problem(table, "providers"):
            table.report("providers", "is empty: name at least one provider")
    table.finish()
    return Route(**found, targets=targets)


def _models(table: Table) -> tuple[Models, tuple[str, ...]]:
    """Return the models, and the additional names for `GET /v1/models`."""
    found, listed = table.settings(Models), tuple(table.texts("listed") or ())
    table.finish()
    return Models(**found), listed


def simulated_config() -> Config:
    """Return the configuration of `--simulate` and `demo`; `workers.serve.running` starts its simulated upstream.

    That upstream serves all dialects. `chat/NAME` selects one; other names are routed to a dialect that is not
    the client's.
    """
    providers = {
        # The vendor's profile, so that all features are available.
        name: replace(
            Provider(name, dialect, "", endpoints=GROUPS),
            profile=builtin_profile(dialect),
            profile_name=VENDOR_PROFILES[dialect],
        )
        for dialect, name in SIMULATED.items()
    }
    routes = [Route(f"{dialect}/*", name, "*") for dialect, name in SIMULATED.items()]
    for client in CLIENT_DIALECTS:
        other = next(dialect for dialect in Dialect if dialect.facts.vendor != client.facts.vendor)
        routes.append(Route("*", SIMULATED[other], client=client))
    return Config(providers, tuple(routes), simulated=True)


def _targets(table: Table) -> tuple[RouteTarget, ...]:
    """Return the providers of a route: names, or tables with weight, priority and model. Problems go to the table."""
    return tuple(
        RouteTarget(item) if isinstance(item, str) else _target(item) for item in table.texts_and_tables("providers")
    )


def _target(table: Table) -> RouteTarget:
    found = {"provider": "", **table.settings(RouteTarget)}
    table.finish()
    return RouteTarget(**found)
