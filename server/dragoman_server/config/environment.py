"""Configuration from environment variables and the command line, without a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from typing import Any

from dragoman import Dialect
from dragoman.gateway import DEFAULT_DIALECT, STORED_DIALECT
from dragoman_server.config.config_error import ConfigError, Problem
from dragoman_server.config.host_profiles import is_vendor
from dragoman_server.config.load import NothingConfigured
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models
from dragoman_server.config.toml_reader import Table
from dragoman_server.config.value_problems import choice_problem

_OPENAI, _ANTHROPIC = "openai", "anthropic"


def _vendors() -> dict[str, tuple[str, Dialect]]:
    found: dict[str, tuple[str, Dialect]] = {}
    for dialect in Dialect:
        facts = dialect.facts
        name = f"{facts.vendor}-{dialect}" if facts.vendor in found else facts.vendor
        found[name] = facts.key_variable.removesuffix("_API_KEY"), dialect
    return found


_VENDORS = dict(sorted(_vendors().items(), key=lambda vendor: vendor[1][1].facts.vendor != _OPENAI))
"""Name of a vendor's provider → the beginning of its variables' names, and its dialect.

A vendor's second dialect has a provider of its own: the same host, by the other API.
"""
_RESPONSES_SURFACE = f"{_OPENAI}-{STORED_DIALECT}"
_SIZES = {
    spec.name: spec.metadata["options"]["variable"] for spec in fields(Models) if "variable" in spec.metadata["options"]
}
"""The keys of `[models]` that have a variable → its name."""
_SOURCE_NAMES = {
    **{f"providers.{name}.base_url": f"{prefix}_BASE_URL" for name, (prefix, _) in _VENDORS.items()},
    **{f"providers.{name}.api_key": f"{prefix}_API_KEY" for name, (prefix, _) in _VENDORS.items()},
    "providers.upstream.base_url": "base_url",
    "providers.upstream.api_key": "api_key",
    **{f"models.{size}": variable for size, variable in _SIZES.items()},
}
"""Path of a configuration key → the variable or option that its value came from, for error messages."""


def config_from_environment(
    env: Mapping[str, str],
    *,
    base_url: str | None = None,
    dialect: str | None = None,
    api_key: str | None = None,
    model: str | None = None,
) -> Config:
    """Return a configuration made without a file.

    It has the upstream that the command line names (`base_url`, `api_key`), or else the vendors whose keys are in
    `env`; `dialect` alone selects the vendor. With `model`, requests for any name get that model. Raises
    NothingConfigured if there is no upstream, and other ConfigErrors.
    """
    problems: list[Problem] = []
    if dialect is not None and (wrong := choice_problem(dialect, Dialect)):
        raise ConfigError("dialect", wrong)
    chosen = Dialect(dialect) if dialect else None
    if base_url or api_key:
        given = {"base_url": base_url, "api_key": api_key}
        table = Table({key: value for key, value in given.items() if value}, "", env, problems)
        providers = _command_line_provider(table, env, chosen)
    else:
        providers = _vendor_providers(env, chosen)
    if not providers:
        if chosen:
            raise ConfigError("dialect", f"{chosen} needs a base URL, or {key_variable(chosen)} in the environment")
        raise NothingConfigured
    models = _models({} if model else env, providers)
    only_model = bool(base_url) and not (model or models.big or models.small)
    routes, listed = tuple(_routes(providers, models, model)), (model,) if model else ()
    config = Config(providers, routes, models, models_listed=listed, only_model=only_model)
    reported = {path for path, _ in problems}
    # Both OpenAI providers report the same problem.
    found = dict.fromkeys((_SOURCE_NAMES.get(path, path), message) for path, message in config.problems())
    problems += [problem for problem in found if problem[0] not in reported]
    if problems:
        raise ConfigError.of(problems)
    return config


def _models(env: Mapping[str, str], providers: Mapping[str, Provider]) -> Models:
    """Return the targets that variables name, and the policy for other names."""
    sizes: dict[str, Any] = {size: name for size, variable in _SIZES.items() if (name := env.get(variable))}
    if len(providers) > 1:
        sizes = {size: _with_provider(name, providers) for size, name in sizes.items()}
    return Models(**sizes, unknown=None if sizes or _several(providers) else "pass")


def _several(providers: Mapping[str, Provider]) -> bool:
    """True if clients have the APIs of more than one of the vendors: each vendor gets its own models only."""
    facts = [provider.dialect.facts for provider in providers.values()]
    return len({each.vendor for each in facts if each.client}) > 1


def _routes(providers: Mapping[str, Provider], models: Models, model: str | None) -> Iterator[Route]:
    """Yield the routes for these providers, or to `model`."""
    surfaces = _RESPONSES_SURFACE in providers
    # With big or small names, Claude's model names are to be mapped to them; a pattern would take precedence.
    sized = models.big or models.small
    if surfaces:
        # `openai/NAME` means the vendor, by whichever of its two APIs suits the client. Both routes precede any `*`.
        yield from _openai_routes("openai/*", surfaces, "*")
        yield Route(f"{_RESPONSES_SURFACE}/*", _RESPONSES_SURFACE, "*")
    if model:
        yield from _routes_to_model(model, providers, surfaces)
        return
    for name, provider in providers.items() if len(providers) > 1 else ():
        facts = provider.dialect.facts
        if name == _RESPONSES_SURFACE or (facts.client and not _several(providers)) or (sized and name == _ANTHROPIC):
            continue
        for pattern in facts.model_names:
            yield from _openai_routes(pattern, surfaces) if name == _OPENAI else [Route(pattern, name)]
    if not (sized or _several(providers)):
        # With one upstream there is nothing to choose: it knows its models.
        yield from _openai_routes("*", surfaces) if surfaces else [Route("*", next(iter(providers)))]


def _openai_routes(pattern: str, surfaces: bool, upstream_model: str | None = None) -> list[Route]:
    """Return the routes to OpenAI for a pattern.

    Requests in either OpenAI dialect pass through; Messages goes to Responses, which combines reasoning and tools
    (mapping §12). `surfaces` is True if there is a Responses provider.
    """
    if not surfaces:
        return [Route(pattern, "openai", upstream_model)]
    return [
        Route(pattern, "openai", upstream_model, client=_VENDORS[_OPENAI][1]),
        Route(pattern, _RESPONSES_SURFACE, upstream_model),
    ]


def _routes_to_model(model: str, providers: Mapping[str, Provider], surfaces: bool) -> list[Route]:
    """Return the routes that send requests for any name to one model."""
    name, upstream_model = next(iter(providers)), model
    if len(providers) > 1:
        name, _, upstream_model = _with_provider(model, providers).partition("/")
    if name == "openai":
        return _openai_routes("*", surfaces, upstream_model)
    return [Route("*", name, upstream_model)]


def _with_provider(name: str, providers: Mapping[str, Provider]) -> str:
    if name.partition("/")[0] in providers:
        return name
    of_vendor = (
        vendor
        for vendor, provider in providers.items()
        if any(fnmatchcase(name, pattern) for pattern in provider.dialect.facts.model_names)
    )
    return f"{next(of_vendor, next(iter(providers)))}/{name}"


def _command_line_provider(table: Table, env: Mapping[str, str], chosen: Dialect | None) -> dict[str, Provider]:
    if "base_url" not in table and not chosen:
        raise ConfigError("api_key", "needs a base URL or a dialect, so that it is known which vendor it belongs to")
    url = table.text("base_url") or (chosen.facts.base_url if chosen else "")
    if not chosen:
        own = (dialect for dialect in Dialect if is_vendor(dialect, url))
        chosen = next(own, DEFAULT_DIALECT)
    key = table.text("api_key") or env.get("UPSTREAM_API_KEY", "")
    # A vendor's key from the environment is sent to that vendor only, never to another host of the command line.
    if not key and is_vendor(chosen, url):
        key = env.get(key_variable(chosen), "")
    return {"upstream": Provider("upstream", chosen, url, _secret(key))}


def key_variable(dialect: Dialect) -> str:
    """Return the variable of the key of a dialect's vendor."""
    return dialect.facts.key_variable


def _vendor_providers(env: Mapping[str, str], chosen: Dialect | None) -> dict[str, Provider]:
    providers = {}
    for name, (prefix, own) in _VENDORS.items():
        key = _secret(env.get(f"{prefix}_API_KEY", ""))
        if key is None or (chosen and chosen.facts.vendor != own.facts.vendor):
            continue
        url = env.get(f"{prefix}_BASE_URL") or own.facts.base_url
        if name == own.facts.vendor:
            providers[name] = Provider(name, chosen or own, url, key)
        elif not chosen and is_vendor(own, url):
            # Compatible servers may lack the Responses API; OpenAI serves both APIs with one key.
            second = Provider(name, own, url, key)
            providers[name] = replace(second, profile=second.profile.replace({"family": own.facts.vendor}))
    return providers


def _secret(key: str) -> Secret | None:
    return Secret(key.strip()) if key.strip() else None
