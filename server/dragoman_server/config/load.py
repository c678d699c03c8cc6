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

from dragoman import Dialect, Knobs, Limits, Profile, builtin_profile
from dragoman.aio import PoolOptions, Timeouts
from dragoman.gateway import BUILTIN_PROFILES, VENDOR_PROFILES
from dragoman_server.config.accounts_tables import read_keys, read_prices, read_store, read_usage
from dragoman_server.config.capture_options import read_capture_options
from dragoman_server.config.forwarded_endpoints import GROUPS
from dragoman_server.config.hints import DIALECTS, other_format, without_common_mistakes
from dragoman_server.config.host_profiles import default_profile
from dragoman_server.config.overload import Overload
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.config.routing_options import RetryOptions
from dragoman_server.config.routing_tables import read_balance, read_provider_limits, read_targets
from dragoman_server.config.schema import SIMULATED, TRANSPORTS, UNKNOWN_MODEL, Config, Models, Route, Server
from dragoman_server.config.state_options import GATEWAY, UPSTREAM, read_state
from dragoman_server.config.telemetry import read_telemetry
from dragoman_server.config.toml_reader import ConfigError, Problem, Table, directory_of
from dragoman_server.config.websocket import WebSocketOptions


class NothingConfigured(ConfigError):
    """Neither the command line nor the environment names an upstream."""

    def __init__(self) -> None:
        super().__init__("", "no upstream is configured: give a base URL, or set OPENAI_API_KEY or ANTHROPIC_API_KEY")


def load_config(path: str | os.PathLike[str]) -> Config:
    """Return the configuration of a TOML file, with references to this process's environment resolved.

    Raises `ConfigError` with all problems, also if the file cannot be read, is not TOML or has no provider.
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
    config = read_tables(root, env)
    root.finish()
    # A key that could not be read has its default here: report no further problems of it.
    reported = tuple(path + end for path, _ in problems for end in (".", "["))
    if "providers." in reported:  # no provider was read: do not report unknown providers of routes
        reported += tuple(
            f"routes[{index}].provider{end}" for index in range(len(config.routes)) for end in (".", "s[")
        )
    problems += [problem for problem in config.problems() if not f"{problem[0]}.".startswith(reported)]
    if problems:
        raise ConfigError.of(problems)
    return config


def read_tables(root: Table, env: Mapping[str, str]) -> Config:
    """Return the configuration that the tables of a file describe; problems go to the tables."""
    knobs = root.table("knobs").values_of(Knobs)
    models, listed = _models(root.table("models"), env)
    return Config(
        server=_server(root.table("server")),
        knobs=Knobs(**knobs),
        providers=_providers(root.table("providers")),
        routes=tuple(_route(table) for table in root.tables("routes")),
        models=models,
        models_listed=listed,
        keys=read_keys(root.table("keys")),
        store=read_store(root.table("store")),
        retries=RetryOptions(**root.table("retries").values_of(RetryOptions)),
        usage=read_usage(root.table("usage")),
        prices=read_prices(root.table("prices")),
        telemetry=read_telemetry(root.table("telemetry")),
        capture=read_capture_options(root.table("capture")),
        state=read_state(root.table("state")),
        knobs_named=frozenset(knobs),
        directory=root.directory,
    )


def _server(table: Table) -> Server:
    default = Server()
    host, port, keys = table.text("host"), table.integer("port"), table.texts("keys", secret=True)
    allowed_hosts, cors_origins = table.texts("allowed_hosts"), table.texts("cors_origins")
    receipts = table.integer("receipts")
    workers, reload_drain = table.integer("workers", auto=0), table.integer("reload_drain")
    validate = table.share("validate")
    prefix_diagnostics = table.integer("prefix_diagnostics")
    client_profiles, ui = table.boolean("client_profiles"), table.boolean("ui")
    names = ("backlog", "max_connections", "max_connections_per_address", "shutdown_delay", "stop_drain")
    counts = {name: count for name in names if (count := table.integer(name)) is not None}
    if keys == [] and not any(path.startswith(table.at("keys")) for path, _ in table.problems):
        table.report("keys", "is empty: give at least one key, or remove the line to accept all clients")
    server = Server(
        host=default.host if host is None else host,
        port=default.port if port is None else port,
        keys=tuple(Secret(key.strip()) for key in keys or ()),
        allowed_hosts=tuple(allowed_hosts or ()),
        cors_origins=tuple(cors_origins or ()),
        timeouts=Timeouts(**table.table("timeouts").values_of(Timeouts)),
        limits=Limits(**table.table("limits").values_of(Limits)),
        overload=Overload(**table.table("overload").values_of(Overload)),
        resume=ResumeOptions(**table.table("resume").values_of(ResumeOptions)),
        websocket=WebSocketOptions(**table.table("websocket").values_of(WebSocketOptions)),
        receipts=default.receipts if receipts is None else receipts,
        workers=default.workers if workers is None else workers,
        reload_drain=default.reload_drain if reload_drain is None else reload_drain,
        transport=table.word("transport", TRANSPORTS) or default.transport,
        connections=PoolOptions(**table.table("connections").values_of(PoolOptions)),
        validate=default.validate if validate is None else validate,
        client_profiles=default.client_profiles if client_profiles is None else client_profiles,
        prefix_diagnostics=default.prefix_diagnostics if prefix_diagnostics is None else prefix_diagnostics,
        ui=default.ui if ui is None else ui,
        **counts,
    )
    table.finish()
    return server


def _providers(table: Table) -> dict[str, Provider]:
    return {name: _provider(name, table.table(name)) for name in table}


def _provider(name: str, table: Table) -> Provider:
    word = table.word("dialect", Dialect, required=True, hints=DIALECTS)
    dialect = Dialect(word or Dialect.CHAT)
    base_url = table.text("base_url", required=True) or ""
    key = (table.secret("api_key") or "").strip()
    auth = Auth(table.word("auth", Auth) or Auth.CONFIGURED)
    # Without a valid dialect, accept the profiles of all dialects.
    chosen = table.word(
        "profile",
        [n for d, n in BUILTIN_PROFILES if d == dialect] if word else dict.fromkeys(n for _, n in BUILTIN_PROFILES),
    )
    if not word or not chosen:
        chosen = default_profile(dialect, base_url)
    flags = table.table("profile_flags").values_of(Profile)
    extra = table.table("headers")
    headers = {header.lower(): value for header in extra if (value := extra.secret(header)) is not None}
    limits = read_provider_limits(table)
    endpoints, state = table.texts("endpoints"), table.word("state", (UPSTREAM, GATEWAY))
    prices = read_prices(table.table("prices"))
    table.finish()
    return Provider(
        name=name,
        dialect=dialect,
        base_url=base_url,
        api_key=Secret(key) if key else None,
        auth=auth,
        profile=builtin_profile(dialect, chosen).replace(flags),
        headers=headers,
        profile_name=chosen,
        **limits,
        endpoints=None if endpoints is None else tuple(endpoints),
        prices=prices,
        state=state or UPSTREAM,
    )


def _route(table: Table) -> Route:
    # `model` is read literally: a regex may contain `${`.
    model = table.text("model", required=True, literal=True)
    table.require_one("provider", "providers")
    several, provider = "providers" in table, table.text("provider")
    targets, balance, attempts = read_targets(table), read_balance(table), table.integer("attempts")
    if several and provider is not None:
        table.report("providers", "replaces provider: remove one of the two")
    if several and not targets and not any(path.startswith(table.at("providers")) for path, _ in table.problems):
        table.report("providers", "is empty: name at least one provider")
    upstream_model = table.text("upstream_model")
    client = table.word("client", Dialect, hints=DIALECTS)
    knobs = table.table("knobs").values_of(Knobs)
    table.finish()
    dialect = Dialect(client) if client else None
    return Route(model or "", provider or "", upstream_model, dialect, knobs, targets, balance, attempts)


def _models(table: Table, env: Mapping[str, str]) -> tuple[Models, tuple[str, ...]]:
    """Return the models, and the additional names for `GET /v1/models`."""
    big, small = table.text("big"), table.text("small")
    if "big" not in table:
        big = env.get("BIG_MODEL_NAME")
    if "small" not in table:
        small = env.get("SMALL_MODEL_NAME")
    discover = table.boolean("discover")
    models = Models(
        big or None,
        small or None,
        table.word("unknown", UNKNOWN_MODEL),
        True if discover is None else discover,
    )
    listed = tuple(table.texts("listed") or ())
    table.finish()
    return models, listed


def simulated_config() -> Config:
    """Return the configuration of `--simulate` and `demo`; `workers.serve.running` starts its simulated upstream.

    That upstream serves all three dialects. `chat/NAME` selects one; other names are routed to a dialect that is not
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
    for client in Dialect:
        other = Dialect.CHAT if client is Dialect.MESSAGES else Dialect.MESSAGES
        routes.append(Route("*", SIMULATED[other], client=client))
    return Config(providers, tuple(routes), simulated=True)
