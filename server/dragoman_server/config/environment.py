"""Configuration from environment variables and the command line, without a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dragoman import Dialect
from dragoman_server.config.host_profiles import is_vendor
from dragoman_server.config.load import NothingConfigured
from dragoman_server.config.provider import VENDOR_URL, Provider, Secret
from dragoman_server.config.schema import Config, Models, Route
from dragoman_server.config.toml_reader import ConfigError, Problem, Table
from dragoman_server.config.value_problems import closest

_RESPONSES_SURFACE = "openai-responses"
"""Name of the second provider for OPENAI_API_KEY: the same host, by the Responses API."""

_OPENAI_NAMES = ("gpt*", "chatgpt*", "codex*", "o[0-9]*", "ft:*")

_SOURCE_NAMES = {
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
    if dialect is not None and dialect not in tuple(Dialect):
        words = ", ".join(Dialect)
        raise ConfigError("dialect", f'expected one of {words}; got "{dialect}"{closest(dialect, Dialect)}')
    chosen = Dialect(dialect) if dialect else None
    if base_url or api_key:
        given = {"base_url": base_url, "api_key": api_key}
        table = Table({key: value for key, value in given.items() if value}, "", env, problems)
        providers = _command_line_provider(table, env, chosen)
    else:
        providers = _vendor_providers(env, chosen)
    if not providers:
        if chosen:
            name = "ANTHROPIC_API_KEY" if chosen is Dialect.MESSAGES else "OPENAI_API_KEY"
            raise ConfigError("dialect", f"{chosen} needs a base URL, or {name} in the environment")
        raise NothingConfigured
    both = "anthropic" in providers and "openai" in providers
    surfaces = _RESPONSES_SURFACE in providers
    sizes = (env.get("BIG_MODEL_NAME") or None, env.get("SMALL_MODEL_NAME") or None)
    if model:
        sizes = (None, None)
    big, small = (_with_provider(name, providers) if name and len(providers) > 1 else name for name in sizes)
    routes: list[Route] = []
    if surfaces:
        # `openai/NAME` means the vendor, by whichever of its two APIs suits the client. Both routes precede any `*`.
        routes += [
            *_openai_routes("openai/*", surfaces, "*"),
            Route(f"{_RESPONSES_SURFACE}/*", _RESPONSES_SURFACE, "*"),
        ]
    if model:
        routes += _routes_to_model(model, providers, surfaces)
    elif both:
        # With big or small names, Claude's model names are to be mapped to them; a pattern would take precedence.
        if not (big or small):
            routes.append(Route("claude*", "anthropic"))
        for pattern in _OPENAI_NAMES:
            routes += _openai_routes(pattern, surfaces)
    elif not (big or small):
        # With one upstream there is nothing to choose: it knows its models.
        routes += _openai_routes("*", surfaces) if surfaces else [Route("*", next(iter(providers)))]
    unknown = None if both or big or small else "pass"
    config = Config(providers, tuple(routes), Models(big, small, unknown), models_listed=(model,) if model else ())
    if base_url and not (model or big or small):
        config = replace(config, only_model=True)
    reported = {path for path, _ in problems}
    # Both OpenAI providers report the same problem.
    found = dict.fromkeys((_SOURCE_NAMES.get(path, path), message) for path, message in config.problems())
    problems += [problem for problem in found if problem[0] not in reported]
    if problems:
        raise ConfigError.of(problems)
    return config


def _openai_routes(pattern: str, surfaces: bool, upstream_model: str | None = None) -> list[Route]:
    """Return the routes to OpenAI for a pattern.

    Requests in either OpenAI dialect pass through; Messages goes to Responses, which combines reasoning and tools
    (mapping §12). `surfaces` is True if there is a Responses provider.
    """
    if not surfaces:
        return [Route(pattern, "openai", upstream_model)]
    return [
        Route(pattern, "openai", upstream_model, client=Dialect.CHAT),
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
    return f"anthropic/{name}" if name.startswith("claude") and "anthropic" in providers else f"openai/{name}"


def _command_line_provider(table: Table, env: Mapping[str, str], chosen: Dialect | None) -> dict[str, Provider]:
    if "base_url" not in table and not chosen:
        raise ConfigError("api_key", "needs a base URL or a dialect, so that it is known which vendor it belongs to")
    url = table.text("base_url") or (VENDOR_URL[chosen] if chosen else "")
    if not chosen:
        chosen = Dialect.MESSAGES if is_vendor(Dialect.MESSAGES, url) else Dialect.CHAT
    key = table.text("api_key") or env.get("UPSTREAM_API_KEY", "")
    # A vendor's key from the environment is sent to that vendor only, never to another host of the command line.
    if not key and is_vendor(chosen, url):
        key = env.get("ANTHROPIC_API_KEY" if chosen is Dialect.MESSAGES else "OPENAI_API_KEY", "")
    return {"upstream": Provider("upstream", chosen, url, _secret(key))}


def _vendor_providers(env: Mapping[str, str], chosen: Dialect | None) -> dict[str, Provider]:
    providers = {}
    for name, variable, own in (("openai", "OPENAI", Dialect.CHAT), ("anthropic", "ANTHROPIC", Dialect.MESSAGES)):
        key = _secret(env.get(f"{variable}_API_KEY", ""))
        if key is None or (chosen and (chosen is Dialect.MESSAGES) is not (own is Dialect.MESSAGES)):
            continue
        url = env.get(f"{variable}_BASE_URL") or VENDOR_URL[own]
        providers[name] = Provider(name, chosen or own, url, key)
        if name == "openai" and not chosen and is_vendor(own, url):
            # Compatible servers may lack the Responses API; OpenAI serves both APIs with one key.
            second = Provider(_RESPONSES_SURFACE, Dialect.RESPONSES, url, key)
            providers[second.name] = replace(second, profile=second.profile.replace({"family": name}))
    return providers


def _secret(key: str) -> Secret | None:
    return Secret(key.strip()) if key.strip() else None
