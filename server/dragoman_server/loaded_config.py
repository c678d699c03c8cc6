"""The configuration that a gateway serves by, with what is built from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from dragoman.aio.upstream import Connections
from dragoman.protocols import Dialect

from .catalogue import KnownModel
from .clients import Clients
from .model_names import ModelNames
from .outages import Outages
from .routing import Router
from .settings import Config

FIXED = ("host", "port", "workers", "transport", "connections")
"""Settings of `[server]` that take effect at the start only."""


class LoadedConfig:
    """One configuration with what is built from it. Raises `ConfigError` if it has problems.

    A reload replaces the whole object, and a request keeps the one that it was admitted by.
    """

    __slots__ = ("__weakref__", "clients", "config", "listings", "model_names", "outages", "router", "upstreams")

    def __init__(self, config: Config) -> None:
        self.config = config
        self.router = Router(config)
        self.model_names = ModelNames(self.router)
        self.clients = Clients(config.server.client_profiles)
        self.outages = Outages(config.providers)
        self.upstreams: dict[str, tuple[str, dict[str, str]]] = {}
        """URL and headers by provider, where they do not depend on the request."""
        self.listings: dict[tuple[Dialect, ...], tuple[Sequence[object], Sequence[KnownModel]]] = {}
        """Lists of all models by the dialects of their clients, each with what it was made of (`known_models`)."""


def with_fixed(running: Config, new: Config) -> tuple[Config, list[str]]:
    """`new` with the fixed settings of `running`, and the paths of those in which the two differ."""
    old, wanted = running.server, new.server
    changed = []
    for name in FIXED:
        if getattr(old, name) == getattr(wanted, name):
            continue
        if name == "connections":
            names = (part.name for part in fields(Connections))
            differing = (part for part in names if getattr(old.connections, part) != getattr(wanted.connections, part))
            changed += [f"server.connections.{part}" for part in differing]
        else:
            changed.append(f"server.{name}")
    kept = {name: getattr(old, name) for name in FIXED}
    return replace(new, server=replace(wanted, **kept)), changed
