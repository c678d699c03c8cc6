"""The names by which clients can ask for a model that an upstream lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman.dialects import Dialect
from dragoman_server.config.providers import Provider
from dragoman_server.config.schema import Route
from dragoman_server.routing.router import Router


class KnownModel(NamedTuple):
    """A model as clients see it. `owner` is the provider; `created` is in Unix seconds, 0 if unknown."""

    name: str
    owner: str
    created: int = 0
    title: str = ""


class ModelNames:
    """Finds client-visible names by a configuration's routes."""

    def __init__(self, router: Router) -> None:
        self._router = router
        routes = router.config.routes
        self._inverses = [inverse for route in routes if (inverse := _Inverse.of(route)) is not None]
        # Exact names only are a list of the operator's choice: nothing is added to it.
        patterns = {route.provider for route in routes if route.pattern() is not None}
        self._chosen = {route.provider for route in routes} - patterns

    def of(self, provider: Provider, model: str, clients: Sequence[Dialect]) -> list[str]:
        """The names that lead clients of any of the dialects to this model of this provider; none if there is no such.

        A name with the provider in front (`openai/gpt-5`) counts only where there is no shorter one.
        """
        names: list[str] = []
        for name in dict.fromkeys(self._candidates(provider, model)):
            if names and name.endswith(f"/{model}"):
                continue
            if any(self._router.leads(name, client, provider, model) for client in clients):
                names.append(name)
        return names

    def _candidates(self, provider: Provider, model: str) -> Iterator[str]:
        yield model
        # Those with a provider in front come last, wherever their routes stand.
        for namespaced in (False, True):
            for inverse in self._inverses:
                name = inverse.name(model) if inverse.provider == provider.name else None
                if name is not None and name.endswith(f"/{model}") is namespaced:
                    yield name
        if provider.name not in self._chosen:
            yield f"{provider.name}/{model}"


class _Inverse:
    """A glob with one `*` that is also in `upstream_model`, read from the upstream's name to the client's."""

    __slots__ = ("_after", "_before", "_prefix", "_suffix", "provider")

    def __init__(self, route: Route, upstream_model: str) -> None:
        self.provider = route.provider
        self._before, _, self._after = route.model.partition("*")
        self._prefix, _, self._suffix = upstream_model.partition("*")

    @classmethod
    def of(cls, route: Route) -> _Inverse | None:
        """The inverse of a route that has one."""
        if route.is_regex or not route.substitutes() or route.upstream_model is None:
            return None
        if "?" in route.model or "[" in route.model:
            return None
        return cls(route, route.upstream_model)

    def name(self, model: str) -> str | None:
        """The client's name for an upstream's model, or None if the route does not lead to it."""
        end = len(model) - len(self._suffix)
        if end < len(self._prefix) or not model.startswith(self._prefix) or not model.endswith(self._suffix):
            return None
        return f"{self._before}{model[len(self._prefix) : end]}{self._after}"
