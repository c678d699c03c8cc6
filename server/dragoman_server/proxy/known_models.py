"""The models that a client can request: those of the configuration, and those that the upstreams list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress

from dragoman import Dialect, DragomanError
from dragoman.gateway import CLIENT_DIALECTS, ListedModel
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.proxy.auth import client_login
from dragoman_server.proxy.loaded_config import LoadedConfig
from dragoman_server.routing.model_names import KnownModel
from dragoman_server.routing.model_sizes import model_sizes
from dragoman_server.routing.router import RoutedTarget
from dragoman_server.routing.upstream_models import UpstreamModels

THREAD_FROM = 300
"""Number of listed models from which their names are computed in a thread: each takes microseconds for each route."""

Headers = Callable[[Provider, Mapping[str, str], Dialect | None], Mapping[str, str]]
"""A function that returns the headers of a GET to a provider for a client of this dialect with these headers."""


class KnownModels:
    """The model list of one gateway."""

    def __init__(
        self, upstreams: UpstreamModels, headers: Headers, providers: Callable[[], Mapping[str, Provider]]
    ) -> None:
        self._upstreams = upstreams
        self._headers = headers
        self._providers = providers

    def refresh(self, loaded: LoadedConfig) -> None:
        """Fetch the upstreams' lists in the background."""
        asked = _listing_providers(loaded, {})
        self._upstreams.refresh([(provider, self._headers(provider, {}, None)) for provider in asked])

    async def fetched(self, provider: Provider) -> tuple[ListedModel, ...] | None:
        """Return the models that a provider lists for the gateway's own key, or None if it cannot be reached."""
        return await self._upstreams.fetched(provider, self._headers(provider, {}, None))

    def names_at(self, name: str, key: KeyRecord | None) -> list[str]:
        """Return the models that a provider last listed for the gateway's own key, if the client's key permits them."""
        provider = self._providers().get(name)
        if provider is None:
            return []
        models = self._upstreams.known(provider, self._headers(provider, {}, None))
        return [model.name for model in models if key is None or key.permits(model.name)]

    async def all(
        self, loaded: LoadedConfig, client: Dialect, headers: Mapping[str, str], owner: Hashable
    ) -> Sequence[KnownModel]:
        """Return the models for a client of this dialect with these headers, those of the configuration first.

        Clients that differ by `owner` take turns in fetching lists.
        """
        providers = _listing_providers(loaded, headers)
        lists = await self._upstreams.lists([(each, self._headers(each, headers, client)) for each in providers], owner)
        # The dialects of one vendor share one list.
        clients = tuple(each for each in CLIENT_DIALECTS if each.facts.vendor == client.facts.vendor)
        last = loaded.listings.get(clients)
        if last is not None and _same(last[0], lists):
            return last[1]
        if sum(map(len, lists)) > THREAD_FROM:
            models = await asyncio.to_thread(_merge, loaded, clients, providers, lists)
        else:
            models = _merge(loaded, clients, providers, lists)
        loaded.listings[clients] = lists, models
        return models

    def one(self, loaded: LoadedConfig, name: str, client: Dialect, headers: Mapping[str, str]) -> KnownModel:
        """Return the model that a request for `name` gets. Raises UnknownModel."""
        target = loaded.router.resolve(name, client)
        provider = target.provider
        listed: tuple[ListedModel, ...] = ()
        if provider in _listing_providers(loaded, headers):
            listed = self._upstreams.known(provider, self._headers(provider, headers, client))
        found = next((model for model in listed if model.name == target.upstream_model), None)
        return _known_model(loaded, name, provider, target.upstream_model, found)


def _listing_providers(loaded: LoadedConfig, headers: Mapping[str, str]) -> list[Provider]:
    """Return the providers whose models a client with these headers may list."""
    config = loaded.config
    if config.simulated or not config.models.discover:
        return []  # the models of the simulated upstream are in `models_listed`
    keyed = client_login(headers, loaded.own_keys) is not None
    return [provider for provider in config.providers.values() if keyed or provider.auth is Auth.CONFIGURED]


def _same(old: Sequence[object], new: Sequence[object]) -> bool:
    return len(old) == len(new) and all(one is other for one, other in zip(old, new, strict=True))


def _merge(
    loaded: LoadedConfig,
    clients: Sequence[Dialect],
    providers: Sequence[Provider],
    lists: Sequence[tuple[ListedModel, ...]],
) -> list[KnownModel]:
    listed = {
        (provider.name, model.name): model
        for provider, models in zip(providers, lists, strict=True)
        for model in models
    }
    found = {}
    for name, owner in loaded.router.known_models():
        target = _target(loaded, name, clients)
        if target is None:
            found[name] = KnownModel(name, owner)
            continue
        provider, upstream_model = target.provider, target.upstream_model
        model = listed.get((provider.name, upstream_model))
        found[name] = _known_model(loaded, name, provider, upstream_model, model)._replace(owner=owner)
    for provider, models in zip(providers, lists, strict=True):
        for model in models:
            for name in loaded.model_names.of(provider, model.name, clients):
                if name not in found:
                    found[name] = _known_model(loaded, name, provider, model.name, model)
    return list(found.values())


def _target(loaded: LoadedConfig, name: str, clients: Sequence[Dialect]) -> RoutedTarget | None:
    for client in clients:
        with suppress(DragomanError):
            return loaded.router.resolve(name, client)
    return None


def _known_model(
    loaded: LoadedConfig, name: str, provider: Provider, upstream_model: str, model: ListedModel | None
) -> KnownModel:
    sizes = model_sizes(loaded.config.models, name, provider, upstream_model, model)
    if model is None:
        return KnownModel(name, provider.name, sizes=sizes)
    # A title paraphrases the upstream's name, so it does not fit a model with another name here.
    return KnownModel(name, provider.name, model.created, model.title if name == model.name else "", sizes)
