"""The names that clients can send for a model that an upstream lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman import Dialect
from dragoman.gateway import ModelSizes
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.routing.router import Router


class KnownModel(NamedTuple):
    """A model as clients see it. `owner` is the provider; `created` is in Unix seconds, 0 if unknown."""

    name: str
    owner: str
    created: int = 0
    title: str = ""
    sizes: ModelSizes = ModelSizes()


class ModelNames:
    """Finds the client's names of upstream models by a configuration's routes."""

    def __init__(self, router: Router) -> None:
        self._router = router
        routes = router.config.routes
        self._inverses = [inverse for route in routes for inverse in _Inverse.of(route)]
        # A provider that only has routes with exact names: the operator listed its models, so none are added.
        patterns = {name for route in routes if route.pattern() is not None for name in route.provider_names}
        self._chosen = {name for route in routes for name in route.provider_names} - patterns

    def of(self, provider: Provider, model: str, clients: Sequence[Dialect]) -> list[str]:
        """Return the names that lead clients of any of the dialects to this model of this provider.

        A name with the provider in front (`openai/gpt-5`) is returned only if there is no shorter one.
        """
        names: list[str] = []
        for name in dict.fromkeys(self._candidates(provider, model)):
            if names and name.endswith(f"/{model}"):
                continue
            if any(self._router.leads_to(name, client, provider, model) for client in clients):
                names.append(name)
        return names

    def _candidates(self, provider: Provider, model: str) -> Iterator[str]:
        yield model
        # Names with a provider in front come last, regardless of the order of routes.
        for namespaced in (False, True):
            for inverse in self._inverses:
                name = inverse.name(model) if inverse.provider == provider.name else None
                if name is not None and name.endswith(f"/{model}") is namespaced:
                    yield name
        if provider.name not in self._chosen:
            yield f"{provider.name}/{model}"


class _Inverse:
    """A route whose glob and `upstream_model` have one `*` each, applied from the upstream's name to the client's."""

    def __init__(self, route: Route, provider: str, upstream_model: str) -> None:
        self.provider = provider
        self._before, _, self._after = route.model.partition("*")
        self._prefix, _, self._suffix = upstream_model.partition("*")

    @classmethod
    def of(cls, route: Route) -> list[_Inverse]:
        """Return the inverses of a route: none, or one for each of its providers."""
        if route.is_regex or "?" in route.model or "[" in route.model:
            return []
        pairs = [(target.provider, target.upstream_model or route.upstream_model) for target in route.targets]
        return [
            cls(route, provider, model)
            for provider, model in pairs or [(route.provider, route.upstream_model)]
            if model is not None and "*" in model
        ]

    def name(self, model: str) -> str | None:
        """Return the client's name of an upstream model, or None if the route does not lead to it."""
        end = len(model) - len(self._suffix)
        if end < len(self._prefix) or not model.startswith(self._prefix) or not model.endswith(self._suffix):
            return None
        return f"{self._before}{model[len(self._prefix) : end]}{self._after}"
