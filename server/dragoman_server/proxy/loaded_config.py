"""The configuration that a gateway serves by, with what is built from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from dragoman.dialects import Dialect
from dragoman.dialects.errors.redact import is_secret
from dragoman_server.config.providers import Provider
from dragoman_server.config.schema import Config
from dragoman_server.observability.known_secrets import provider_secrets
from dragoman_server.observability.throttled_log import UpstreamWarnings
from dragoman_server.proxy.auth import inbound_key
from dragoman_server.proxy.cors import Cors
from dragoman_server.proxy.web_origins import Websites
from dragoman_server.routing.client_profiles import Clients
from dragoman_server.routing.model_names import KnownModel, ModelNames
from dragoman_server.routing.router import Router

FIXED = (
    *("host", "port", "backlog", "workers", "transport", "connections", "cors_origins"),
    *("max_connections", "max_connections_per_address", "timeouts.head", "timeouts.keep_alive"),
)
"""Settings of `[server]` that take effect at the start only."""


class LoadedConfig:
    """One configuration with what is built from it. Raises `ConfigError` if it has problems.

    A reload replaces the whole object, and a request keeps the one that it was admitted by.
    """

    __slots__ = (
        "__weakref__",
        "_secrets",
        "clients",
        "config",
        "listings",
        "model_names",
        "router",
        "upstream_warnings",
        "upstreams",
        "websites",
    )

    def __init__(self, config: Config) -> None:
        self.config = config
        self.router = Router(config)
        self.model_names = ModelNames(self.router)
        self.clients = Clients(config.server.client_profiles)
        self.upstream_warnings = UpstreamWarnings(config.providers)
        server = config.server
        self.websites = None if server.keys else Websites(server.host, server.allowed_hosts, Cors(server.cors_origins))
        """The rules for requests of web pages; None where a key is asked for instead."""
        self._secrets = {name: provider_secrets(provider) for name, provider in config.providers.items()}
        self.upstreams: dict[str, tuple[str, dict[str, str]]] = {}
        """URL and headers by provider, where they do not depend on the request."""
        self.listings: dict[tuple[Dialect, ...], tuple[Sequence[object], Sequence[KnownModel]]] = {}
        """Lists of all models by the dialects of their clients, each with what it was made of (`known_models`)."""

    def has(self, provider: Provider) -> bool:
        """True if the provider is one of this configuration, False if it was made for a single request."""
        return self.config.providers.get(provider.name) is provider

    def secrets_of(self, provider: Provider, headers: Mapping[str, str]) -> tuple[str, ...]:
        """The texts that must not come back from a provider: the secrets it is sent, and the key of the client."""
        known = self._secrets[provider.name] if self.has(provider) else provider_secrets(provider)
        if "authorization" not in headers and "x-api-key" not in headers:
            return known
        key = inbound_key(headers)
        return (*known, key) if key is not None and is_secret(key) else known


def with_fixed(running: Config, new: Config) -> tuple[Config, list[str]]:
    """`new` with the fixed settings of `running`, and the paths of those in which the two differ."""
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
    """Which fields of two groups of settings differ, as `.name`; or `[""]` for other values that differ."""
    if old == new:
        return []
    if not is_dataclass(old):
        return [""]
    return [f".{part.name}" for part in fields(old) if getattr(old, part.name) != getattr(new, part.name)]
