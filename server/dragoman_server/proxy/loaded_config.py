"""A configuration with the objects that are built from it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from dragoman import Dialect
from dragoman.gateway import ValidationSample, is_secret
from dragoman_server.accounts.usage.options import OFF
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Config
from dragoman_server.observability.known_secrets import RenewedSecrets, provider_secrets
from dragoman_server.observability.throttled_log import UpstreamWarnings
from dragoman_server.proxy.auth import OwnKeys, presented_keys
from dragoman_server.proxy.cors import Cors
from dragoman_server.proxy.web_origins import WebOrigins
from dragoman_server.routing.client_profiles import ClientProfiles
from dragoman_server.routing.model_names import KnownModel, ModelNames
from dragoman_server.routing.output_limits import OutputLimits
from dragoman_server.routing.router import Router

FIXED = (
    "host",
    "name",
    "port",
    "backlog",
    "workers",
    "transport",
    "connections",
    "cors_origins",
    "max_connections",
    "max_connections_per_address",
    "timeouts.head",
    "timeouts.keep_alive",
    "stop_drain",
    "ui",
    "resume",
)
"""Settings of `[server]` that take effect only when the process starts."""


class LoadedConfig:
    """One configuration with the objects that are built from it. Raises `ConfigError` if it has problems.

    `Gateway.reconfigure` replaces the whole object; a request keeps the one that it began with.
    """

    def __init__(self, config: Config, output_limits: OutputLimits | None = None) -> None:
        self.config = config
        self.output_limits = output_limits or OutputLimits()
        """The known output limits of models, which outlast the configuration."""
        self.router = Router(config)
        self.model_names = ModelNames(self.router)
        self.client_profiles = ClientProfiles(config.server.client_profiles)
        self.upstream_warnings = UpstreamWarnings(config.providers)
        server = config.server
        self.validation = ValidationSample(server.validate, random.random)
        """Chooses the streams that are validated. A reload begins a new sample."""
        self.named_keys = config.named_keys
        self.requires_key = config.requires_key
        """True if every client must present a key."""
        self.own_keys = OwnKeys(config) if self.requires_key else None
        """The gateway's own keys, which are never sent upstream; None if it has none."""
        self.web_origins = (
            None if self.requires_key else WebOrigins(server.host, server.allowed_hosts, Cors(server.cors_origins))
        )
        """The rules for requests of web pages; None if keys are configured."""
        self.requests_usage = config.usage.kind != OFF
        """True if the counts of every stream are needed, also of those whose client did not request them."""
        self._secrets = {name: provider_secrets(provider) for name, provider in config.providers.items()}
        self.upstreams: dict[str, tuple[str, dict[str, str]]] = {}
        """URL and headers by provider, if they do not depend on the request."""
        self.listings: dict[tuple[Dialect, ...], tuple[Sequence[object], Sequence[KnownModel]]] = {}
        """Model lists by the dialects of their clients, each with the upstreams' lists that it was made from."""

    def has(self, provider: Provider) -> bool:
        """True if the provider is one of this configuration, False if it was made for a single request."""
        return self.config.providers.get(provider.name) is provider

    def secrets_of(self, provider: Provider, headers: Mapping[str, str]) -> Sequence[str]:
        """Return the texts to mask in a provider's responses: the secrets sent to it, and the client's keys."""
        known = self._secrets[provider.name] if self.has(provider) else provider_secrets(provider)
        if keys := presented_keys(headers):
            known = (*known, *filter(is_secret, keys))
        return known if provider.credential is None else RenewedSecrets(provider.name, known)


class CurrentConfig:
    """The configuration of new requests, which `Gateway.reconfigure` replaces."""

    def __init__(self, loaded: LoadedConfig) -> None:
        self.loaded = loaded

    def learn_output_limit(self, name: str, model: str, limit: int) -> None:
        """Keep the largest output limit of a model at the provider `name`, in tokens."""
        provider = self.loaded.config.providers.get(name)
        if provider is not None:
            self.loaded.output_limits.add(provider, model, limit)


def with_fixed(running: Config, new: Config) -> tuple[Config, list[str]]:
    """Return `new` with the fixed settings of `running`, and the paths of the fixed settings that differ."""
    changed: list[str] = []
    server: Any = new.server
    for path in FIXED:
        group, _, name = path.rpartition(".")
        old, wanted = running.server, server
        if group:
            old, wanted = getattr(old, group), getattr(wanted, group)
        kept = getattr(old, name)
        changed += (f"server.{path}{part}" for part in _differences(kept, getattr(wanted, name)))
        wanted = replace(wanted, **{name: kept})
        server = replace(server, **{group: wanted}) if group else wanted
    return replace(new, server=server), changed


def _differences(old: Any, new: Any) -> list[str]:
    """Return the fields that differ between two groups of settings, as `.name`; or `[""]` for two different values."""
    if old == new:
        return []
    if not is_dataclass(old):
        return [""]
    return [f".{part.name}" for part in fields(old) if getattr(old, part.name) != getattr(new, part.name)]
