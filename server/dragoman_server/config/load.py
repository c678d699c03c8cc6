"""Configuration from a TOML file, a dict, or the environment alone. See docs/reference/configuration.md for the keys.

Every way ends in a `Config` or in one `ConfigError` that names all problems. The classes come from `settings` and
`providers` and are exported here again.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.aio.upstream.interface import Connections, Timeouts
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from dragoman.limits import Limits
from dragoman.profiles.profile import SHIPPED, VENDOR, Profile, shipped
from dragoman_server.config.hints import DIALECTS, not_toml, without_slips
from dragoman_server.config.host_profiles import default_profile, is_vendor
from dragoman_server.config.providers import VENDOR_URL, Auth, Provider, Secret
from dragoman_server.config.schema import SIMULATED, TRANSPORTS, UNKNOWN_MODEL, Config, Models, Route, Server
from dragoman_server.config.toml_reader import ConfigError, Problem, Table, closest

__all__ = (
    "Auth",
    "Config",
    "ConfigError",
    "Connections",
    "Models",
    "NothingConfigured",
    "Provider",
    "Route",
    "Secret",
    "Server",
    "Timeouts",
    "config_from_environment",
    "load_config",
    "parse_config",
    "simulated_config",
)


class NothingConfigured(ConfigError):
    """Neither the command line nor the environment names an upstream."""

    def __init__(self) -> None:
        super().__init__("", "no upstream is configured: give a base URL, or set OPENAI_API_KEY or ANTHROPIC_API_KEY")


def load_config(path: str | os.PathLike[str]) -> Config:
    """The configuration in a TOML file, with references to this process's environment put in.

    Raises `ConfigError` with every problem, also when the file cannot be read, is no TOML or has no provider.
    """
    name, text = os.fspath(path), ""
    try:
        # utf-8-sig: PowerShell's editors begin a file with a byte order mark.
        text = Path(path).read_bytes().decode("utf-8-sig")
        data = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(name, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        hint = not_toml(text, name)
        raise ConfigError(name, f"is not TOML: {error}{hint and f'. It {hint}'}") from error
    config = parse_config(data, os.environ)
    if not config.providers:
        raise ConfigError(name, "serves nothing: there is no [providers.NAME]; `dragoman init` writes an example")
    return config


def parse_config(data: Mapping[str, Any], env: Mapping[str, str]) -> Config:
    """The configuration in a dict of TOML's shape. Raises `ConfigError` with every problem."""
    problems: list[Problem] = []
    root = Table(without_slips(data, problems), "", env, problems)
    knobs = root.table("knobs").values_of(Knobs)
    models, listed = _models(root.table("models"), env)
    config = Config(
        server=_server(root.table("server")),
        knobs=Knobs(**knobs),
        providers=_providers(root.table("providers")),
        routes=tuple(_route(table) for table in root.tables("routes")),
        models=models,
        models_listed=listed,
        knobs_named=frozenset(knobs),
    )
    root.finish()
    # What could not be read stands here as a default, about which nothing more need be said.
    told = tuple(path + end for path, _ in problems for end in (".", "["))
    if "providers." in told:  # none was read, so no route finds its own
        told += tuple(f"routes[{index}].provider." for index in range(len(config.routes)))
    problems += [problem for problem in config.problems() if not f"{problem[0]}.".startswith(told)]
    if problems:
        raise ConfigError.of(problems)
    return config


def _server(table: Table) -> Server:
    default = Server()
    host, port, keys = table.text("host"), table.integer("port"), table.texts("keys")
    allowed_hosts, cors_origins = table.texts("allowed_hosts"), table.texts("cors_origins")
    receipts = table.integer("receipts")
    workers, reload_drain = table.integer("workers", auto=0), table.integer("reload_drain")
    validate = table.boolean("validate")
    prefix_diagnostics = table.integer("prefix_diagnostics")
    client_profiles = table.boolean("client_profiles")
    names = ("backlog", "max_connections", "max_connections_per_address")
    counts = {name: count for name in names if (count := table.integer(name)) is not None}
    if keys == [] and not any(path.startswith(table.at("keys")) for path, _ in table.problems):
        table.wrong("keys", "is empty: give at least one key, or leave the line out to let everybody in")
    server = Server(
        host=default.host if host is None else host,
        port=default.port if port is None else port,
        keys=tuple(Secret(key.strip()) for key in keys or ()),
        allowed_hosts=tuple(allowed_hosts or ()),
        cors_origins=tuple(cors_origins or ()),
        timeouts=Timeouts(**table.table("timeouts").values_of(Timeouts)),
        limits=Limits(**table.table("limits").values_of(Limits)),
        receipts=default.receipts if receipts is None else receipts,
        workers=default.workers if workers is None else workers,
        reload_drain=default.reload_drain if reload_drain is None else reload_drain,
        transport=table.word("transport", TRANSPORTS) or default.transport,
        connections=Connections(**table.table("connections").values_of(Connections)),
        validate=default.validate if validate is None else validate,
        client_profiles=default.client_profiles if client_profiles is None else client_profiles,
        prefix_diagnostics=default.prefix_diagnostics if prefix_diagnostics is None else prefix_diagnostics,
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
    key = (table.text("api_key") or "").strip()
    auth = Auth(table.word("auth", Auth) or Auth.CONFIGURED)
    # Without a dialect there is no telling which profiles there are.
    chosen = table.word(
        "profile", [n for d, n in SHIPPED if d == dialect] if word else dict.fromkeys(n for _, n in SHIPPED)
    )
    if not word or not chosen:
        chosen = default_profile(dialect, base_url)
    flags = table.table("profile_flags").values_of(Profile)
    extra = table.table("headers")
    headers = {header.lower(): value for header in extra if (value := extra.text(header)) is not None}
    table.finish()
    return Provider(
        name=name,
        dialect=dialect,
        base_url=base_url,
        api_key=Secret(key) if key else None,
        auth=auth,
        profile=shipped(dialect, chosen).with_flags(flags),
        headers=headers,
        profile_name=chosen,
    )


def _route(table: Table) -> Route:
    # `model` is taken literally: `${` may stand in a regex.
    model = table.text("model", required=True, literal=True)
    provider = table.text("provider", required=True)
    upstream_model = table.text("upstream_model")
    client = table.word("client", Dialect, hints=DIALECTS)
    knobs = table.table("knobs").values_of(Knobs)
    table.finish()
    return Route(model or "", provider or "", upstream_model, Dialect(client) if client else None, knobs)


def _models(table: Table, env: Mapping[str, str]) -> tuple[Models, tuple[str, ...]]:
    """The models, and the names that are listed besides."""
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


_RESPONSES_SURFACE = "openai-responses"
"""The second provider that OPENAI_API_KEY makes."""
_OPENAI_NAMES = ("gpt*", "chatgpt*", "codex*", "o[0-9]*", "ft:*")
_BLAME = {
    "providers.openai.base_url": "OPENAI_BASE_URL",
    "providers.openai.api_key": "OPENAI_API_KEY",
    "providers.openai-responses.base_url": "OPENAI_BASE_URL",
    "providers.openai-responses.api_key": "OPENAI_API_KEY",
    "providers.anthropic.base_url": "ANTHROPIC_BASE_URL",
    "providers.anthropic.api_key": "ANTHROPIC_API_KEY",
    "providers.upstream.base_url": "base_url",
    "providers.upstream.api_key": "api_key",
    "models.big": "BIG_MODEL_NAME",
    "models.small": "SMALL_MODEL_NAME",
}


def config_from_environment(
    env: Mapping[str, str],
    *,
    base_url: str | None = None,
    dialect: str | None = None,
    api_key: str | None = None,
) -> Config:
    """The configuration without a file: the command line's upstream, else the vendors whose keys are in the
    environment. `dialect` alone picks the vendor. Raises `NothingConfigured` if there is neither, or another
    `ConfigError`.
    """
    problems: list[Problem] = []
    if dialect is not None and dialect not in tuple(Dialect):
        words = ", ".join(Dialect)
        raise ConfigError("dialect", f'expected one of {words}; got "{dialect}"{closest(dialect, Dialect)}')
    spoken = Dialect(dialect) if dialect else None
    if base_url or api_key:
        given = {"base_url": base_url, "api_key": api_key}
        table = Table({key: value for key, value in given.items() if value}, "", env, problems)
        providers = _command_line(table, env, spoken)
    else:
        providers = _vendors(env, spoken)
    if not providers:
        if spoken:
            name = "ANTHROPIC_API_KEY" if spoken is Dialect.MESSAGES else "OPENAI_API_KEY"
            raise ConfigError("dialect", f"{spoken} needs a base URL, or {name} in the environment")
        raise NothingConfigured
    both = "anthropic" in providers and "openai" in providers
    surfaces = _RESPONSES_SURFACE in providers
    sizes = (env.get("BIG_MODEL_NAME") or None, env.get("SMALL_MODEL_NAME") or None)
    big, small = (_addressed(name, providers) if name and len(providers) > 1 else name for name in sizes)
    routes: list[Route] = []
    if surfaces:
        # `openai/NAME` is the vendor, whichever of its surfaces the client gets. Both come before any `*`.
        routes += [*_to_openai("openai/*", surfaces, "*"), Route(f"{_RESPONSES_SURFACE}/*", _RESPONSES_SURFACE, "*")]
    if both:
        # Given big or small names, Claude's names are meant to lead there; a pattern would come first.
        if not (big or small):
            routes.append(Route("claude*", "anthropic"))
        for pattern in _OPENAI_NAMES:
            routes += _to_openai(pattern, surfaces)
    elif surfaces and not (big or small):
        routes += _to_openai("*", surfaces)
    # One upstream and nothing to choose from: it knows its models better than the gateway does.
    unknown = None if both or big or small else "pass"
    config = Config(providers, tuple(routes), Models(big, small, unknown))
    told = {path for path, _ in problems}
    # Both of OpenAI's surfaces have the same problem.
    found = dict.fromkeys((_BLAME.get(path, path), message) for path, message in config.problems())
    problems += [problem for problem in found if problem[0] not in told]
    if problems:
        raise ConfigError.of(problems)
    return config


def _to_openai(pattern: str, surfaces: bool, upstream_model: str | None = None) -> list[Route]:
    """Both OpenAI dialects pass through; Messages goes to Responses, which has reasoning beside tools (mapping §12)."""
    if not surfaces:
        return [Route(pattern, "openai", upstream_model)]
    return [
        Route(pattern, "openai", upstream_model, client=Dialect.CHAT),
        Route(pattern, _RESPONSES_SURFACE, upstream_model),
    ]


def _addressed(name: str, providers: Mapping[str, Provider]) -> str:
    if name.partition("/")[0] in providers:
        return name
    return f"anthropic/{name}" if name.startswith("claude") and "anthropic" in providers else f"openai/{name}"


def _command_line(table: Table, env: Mapping[str, str], spoken: Dialect | None) -> dict[str, Provider]:
    if "base_url" not in table and not spoken:
        raise ConfigError("api_key", "needs a base URL or a dialect, to know whose it is")
    url = table.text("base_url") or (VENDOR_URL[spoken] if spoken else "")
    if not spoken:
        spoken = Dialect.MESSAGES if is_vendor(Dialect.MESSAGES, url) else Dialect.CHAT
    key = table.text("api_key") or env.get("UPSTREAM_API_KEY", "")
    # A vendor's key goes to that vendor only, not to whatever host the command line names.
    if not key and is_vendor(spoken, url):
        key = env.get("ANTHROPIC_API_KEY" if spoken is Dialect.MESSAGES else "OPENAI_API_KEY", "")
    return {"upstream": Provider("upstream", spoken, url, _secret(key))}


def _vendors(env: Mapping[str, str], spoken: Dialect | None) -> dict[str, Provider]:
    providers = {}
    for name, variable, own in (("openai", "OPENAI", Dialect.CHAT), ("anthropic", "ANTHROPIC", Dialect.MESSAGES)):
        key = _secret(env.get(f"{variable}_API_KEY", ""))
        if key is None or (spoken and (spoken is Dialect.MESSAGES) is not (own is Dialect.MESSAGES)):
            continue
        url = env.get(f"{variable}_BASE_URL") or VENDOR_URL[own]
        providers[name] = Provider(name, spoken or own, url, key)
        if name == "openai" and not spoken and is_vendor(own, url):
            # A compatible server may well have no Responses; OpenAI itself has both, with one key.
            second = Provider(_RESPONSES_SURFACE, Dialect.RESPONSES, url, key)
            providers[second.name] = replace(second, profile=second.profile.with_flags({"family": name}))
    return providers


def _secret(key: str) -> Secret | None:
    return Secret(key.strip()) if key.strip() else None


def simulated_config() -> Config:
    """The configuration of `--simulate` and `demo`, for `running` to start the simulated upstream.

    That upstream speaks each dialect; `chat/NAME` picks one, other names get another than the client's.
    """
    providers = {
        # The vendor's profile, so that all the features show.
        name: replace(Provider(name, dialect, ""), profile=shipped(dialect), profile_name=VENDOR[dialect])
        for dialect, name in SIMULATED.items()
    }
    routes = [Route(f"{dialect}/*", name, "*") for dialect, name in SIMULATED.items()]
    for client in Dialect:
        other = Dialect.CHAT if client is Dialect.MESSAGES else Dialect.MESSAGES
        routes.append(Route("*", SIMULATED[other], client=client))
    return Config(providers, tuple(routes), simulated=True)
