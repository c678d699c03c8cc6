"""All models that a client can name: those of the configuration, and those that the upstreams list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from dragoman.dialects import Dialect
from dragoman.dialects.shared.model_lists import ListedModel
from dragoman_server.config.providers import Auth, Provider
from dragoman_server.config.schema import Config
from dragoman_server.proxy.auth import inbound_key
from dragoman_server.proxy.loaded_config import LoadedConfig
from dragoman_server.routing.model_names import KnownModel
from dragoman_server.routing.upstream_models import UpstreamModels

ASIDE = 300
"""Listed models from which on their names are worked out in a thread: each takes some microseconds for each route."""

Headers = Callable[[Provider, Mapping[str, str], Dialect | None], Mapping[str, str]]
"""The headers of a GET to a provider, on behalf of a client of this dialect with these headers."""


class KnownModels:
    """Answers for one gateway."""

    def __init__(self, upstreams: UpstreamModels, headers: Headers) -> None:
        self._upstreams = upstreams
        self._headers = headers

    def refresh(self, loaded: LoadedConfig) -> None:
        """Ask the upstreams in the background."""
        asked = _asked(loaded.config, {})
        self._upstreams.refresh([(provider, self._headers(provider, {}, None)) for provider in asked])

    async def all(self, loaded: LoadedConfig, client: Dialect, headers: Mapping[str, str]) -> Sequence[KnownModel]:
        """Every model that the list for a client of this dialect has, those of the configuration first."""
        providers = _asked(loaded.config, headers)
        lists = await self._upstreams.lists([(each, self._headers(each, headers, client)) for each in providers])
        # OpenAI's list is one for clients of both its dialects.
        clients = (client,) if client is Dialect.MESSAGES else (Dialect.CHAT, Dialect.RESPONSES)
        last = loaded.listings.get(clients)
        if last is not None and _same(last[0], lists):
            return last[1]
        if sum(map(len, lists)) > ASIDE:
            models = await asyncio.to_thread(_merged, loaded, clients, providers, lists)
        else:
            models = _merged(loaded, clients, providers, lists)
        loaded.listings[clients] = lists, models
        return models

    def one(self, loaded: LoadedConfig, name: str, client: Dialect, headers: Mapping[str, str]) -> KnownModel:
        """A model that a request could name. Raises UnknownModel."""
        target = loaded.router.resolve(name, client)
        provider = target.provider
        listed: tuple[ListedModel, ...] = ()
        if provider in _asked(loaded.config, headers):
            listed = self._upstreams.known(provider, self._headers(provider, headers, client))
        for model in listed:
            if model.name == target.upstream_model:
                return _known(name, provider.name, model)
        return KnownModel(name, provider.name)


def _asked(config: Config, headers: Mapping[str, str]) -> list[Provider]:
    """The providers that list models for a client with these headers."""
    if config.simulated or not config.models.discover:
        return []  # the simulated upstream's models are in `models_listed`
    keyed = inbound_key(headers) is not None
    return [provider for provider in config.providers.values() if keyed or provider.auth is Auth.CONFIGURED]


def _same(old: Sequence[object], new: Sequence[object]) -> bool:
    return len(old) == len(new) and all(one is other for one, other in zip(old, new, strict=True))


def _merged(
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
        found[name] = _known(name, owner, listed.get((owner, name)))
    for provider, models in zip(providers, lists, strict=True):
        for model in models:
            for name in loaded.model_names.of(provider, model.name, clients):
                found.setdefault(name, _known(name, provider.name, model))
    return list(found.values())


def _known(name: str, owner: str, model: ListedModel | None) -> KnownModel:
    if model is None:
        return KnownModel(name, owner)
    # A title says the upstream's name in other words, which is not what a renamed model is called here.
    return KnownModel(name, owner, model.created, model.title if name == model.name else "")
