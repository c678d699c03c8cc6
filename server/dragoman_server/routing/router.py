"""The router: the provider for a model name, and the model's name there (mapping §12.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dragoman import Dialect, DragomanError, Failure, Knobs
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import CLIENT_DIALECTS
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.routing.client_profiles import explicit_knobs, knobs_by_client
from dragoman_server.routing.plan import Candidate, Plan, candidates_of
from dragoman_server.routing.response_issuers import Issuer

MEMO = 1024
"""Most resolved names that are cached. They come from clients, so their number is not limited otherwise."""
NAME_MAX = 512
"""Longest model name that is resolved, in characters. It limits the cache's size and the time that patterns take."""

_LISTED = 20
_BIG = ("opus", "sonnet", "fable", "mythos")
_SMALL = ("haiku",)


class RoutedTarget(NamedTuple):
    """A provider, the model's name there, and the knobs of the request.

    `route` is the configured pattern that matched, or the name of another rule. It is never a name that a client sent,
    so it may be a label of metrics. `warning` is logged for a model that is sent elsewhere because it is unknown.
    """

    provider: Provider
    upstream_model: str
    knobs: Knobs
    route: str = "models"
    by_client: Mapping[str, Knobs] = {}
    """The knobs by client profile, for the profiles that change them."""
    warning: str | None = None
    plan: Plan | None = None
    """The candidates, if there is more than one attempt at one provider with one key; `provider` is then the first."""

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All that a request can be sent to: the candidates of the plan, or this provider and its model."""
        return self.plan.candidates if self.plan is not None else (Candidate(self.provider, self.upstream_model),)

    def knobs_for(self, client: str | None) -> Knobs:
        """Return the knobs of a request of a client with the profile `client`, or of one without a profile."""
        return self.knobs if client is None else self.by_client.get(client, self.knobs)


class UnknownModel(DragomanError):
    """No route matches the model's name: 404 with the configured names and patterns (mapping §12.2)."""

    def __init__(self, model: str, known: Iterable[str], patterns: Iterable[str] = ()) -> None:
        lists = (("known models", list(known)), ("patterns", list(dict.fromkeys(patterns))))
        configured = "; ".join(f"{title}: {listed(names)}" for title, names in lists if names)
        configured = configured or "no model is configured by name"
        super().__init__(
            Failure(
                FailureKind.NOT_FOUND,
                f"model {_shown(model)} is not configured; {configured}",
                404,
                code="model_not_found",
                param="model",
                origin=FailureOrigin.CLIENT,
            )
        )


def listed(names: Sequence[str]) -> str:
    """Return the first names of a list, as a text."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"


def _shown(model: str) -> str:
    # A client's text for messages, logs and headers: shortened, and without control characters.
    return ascii(model if len(model) <= 100 else model[:100] + "...")


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A route with everything that does not depend on the request."""

    route: Route
    pattern: re.Pattern[str] | None
    provider: Provider
    knobs: Knobs
    by_client: Mapping[str, Knobs]
    parts: Sequence[_Part] = ()
    """The providers of the route; empty if each request is sent once, to one provider with one key."""
    attempts: int = 1

    def target(self, model: str, match: re.Match[str] | None) -> RoutedTarget:
        route = self.route
        if not self.parts:
            upstream_model = route.expanded(route.upstream_model, model, match)
            return RoutedTarget(self.provider, upstream_model, self.knobs, route.model, self.by_client)
        found: list[Candidate] = []
        larger: list[Candidate] = []
        for part in self.parts:
            upstream_model = route.expanded(part.target.upstream_model or route.upstream_model, model, match)
            if upstream_model:
                (larger if part.target.larger else found).extend(part.candidates(upstream_model))
        first = min(found, key=lambda each: each.priority, default=None)
        upstream_model = first.upstream_model if first is not None else ""
        provider = self.provider if first is None else first.provider
        plan = Plan(tuple(found), self.attempts, route.balance, tuple(larger))
        return RoutedTarget(provider, upstream_model, self.knobs, route.model, self.by_client, plan=plan)


class _Part(NamedTuple):
    """One target of a route, with its provider and the provider's keys."""

    target: RouteTarget
    provider: Provider
    variants: Sequence[tuple[str, Provider]]

    def candidates(self, upstream_model: str) -> list[Candidate]:
        target = self.target
        return candidates_of(self.provider, self.variants, upstream_model, target.weight, target.priority or 1)


class Router:
    """Resolves model names by a configuration. Raises `ConfigError` if it has problems."""

    def __init__(self, config: Config) -> None:
        config.check()
        self.config = config
        self._exact: dict[str, list[_Compiled]] = {}
        self._patterns: list[_Compiled] = []
        self._variants = {name: provider.variants() for name, provider in config.providers.items()}
        fixed = explicit_knobs(config.knobs, config.knobs_named)
        self._by_client = knobs_by_client(config.knobs, fixed)
        for route in config.routes:
            pattern = route.pattern()
            knobs, by_client = config.knobs, self._by_client
            if route.knobs:
                knobs = replace(config.knobs, **route.knobs)
                by_client = knobs_by_client(knobs, fixed.union(route.knobs))
            targets = route.targets or (RouteTarget(route.provider),)
            parts, attempts = self._parts(targets, route.attempts)
            compiled = _Compiled(route, pattern, config.providers[route.provider], knobs, by_client, parts, attempts)
            if pattern is None:
                self._exact.setdefault(route.model, []).append(compiled)
            else:
                self._patterns.append(compiled)
        planned = [*self._patterns, *(each for same in self._exact.values() for each in same)]
        direct = any(self._parts((RouteTarget(name),))[0] for name in config.providers)
        self.has_plans = direct or any(each.parts for each in planned)
        """True if a request may be sent several times, or wait for a provider."""
        models = config.models
        # If only one of the two is configured, it is used for both.
        self._big = models.big or models.small
        self._small = models.small or models.big
        self._memo: dict[tuple[str, Dialect], RoutedTarget] = {}

    def _parts(self, targets: Sequence[RouteTarget], attempts: int | None = None) -> tuple[Sequence[_Part], int]:
        """Return the parts of a route and its number of attempts; no parts for a route without retries and limits."""
        providers = self.config.providers
        parts = [_Part(each, providers[each.provider], self._variants[each.provider]) for each in targets]
        several = len(parts) > 1 or any(part.variants for part in parts)
        most = self.config.retries.attempts_of(attempts, several)
        planned = several or most > 1 or any(part.provider.concurrent for part in parts)
        return (parts if planned else ()), most

    def issuing_provider(self, issuer: Issuer) -> Provider | None:
        """Return the provider that issued a response, with the key that was used; None if it is configured no more."""
        provider = self.config.providers.get(issuer.provider)
        if provider is None or provider.base_url != issuer.base_url:
            return None
        return dict(self._variants[issuer.provider]).get(issuer.key, provider)

    def issuers(self) -> list[tuple[Issuer, Provider]]:
        """Return each provider, with each of its keys, as an issuer of responses."""
        found = []
        for name, provider in self.config.providers.items():
            for key, variant in self._variants[name] or [("", provider)]:
                found.append((Issuer(name, provider.base_url, key), variant))
        return found

    def resolve(self, model: str, client: Dialect) -> RoutedTarget:
        """Return the target of a model name that a client of the dialect `client` sent. Raises `UnknownModel`."""
        target = self._memo.get((model, client))
        if target is None:
            if not model or len(model) > NAME_MAX:
                raise self._unknown(model, client)
            target = (
                self._by_route(model, client) or self._by_size_class(model, client) or self._fallback(model, client)
            )
            if len(self._memo) >= MEMO:
                del self._memo[next(iter(self._memo))]
            self._memo[model, client] = target
        return target

    def known_models(self) -> list[tuple[str, str]]:
        """Return (name, provider) of every configured name that resolves and is not a pattern."""
        names = [*self._exact, *self._sizes(), *self.config.models_listed]
        known = []
        for name in dict.fromkeys(names):
            for client in CLIENT_DIALECTS:
                if target := self._by_route(name, client) or self._only_provider(name):
                    known.append((name, target.provider.name))
                    break
        return known

    def _by_route(self, model: str, client: Dialect) -> RoutedTarget | None:
        """Steps 1 to 4: exact route, patterns in file order up to one for every name, `provider/model`, that one."""
        for compiled in self._exact.get(model, ()):
            if compiled.route.client in (None, client):
                return compiled.target(model, None)
        name, _, rest = model.partition("/")
        provider = self.config.providers.get(name) if rest else None
        for compiled in self._patterns:
            if compiled.route.client in (None, client) and compiled.pattern is not None:
                if provider is not None and compiled.route.takes_all:
                    break
                match = compiled.pattern.fullmatch(model)
                # A group that matched nothing would leave the model's name empty.
                if match is not None and (target := compiled.target(model, match)).upstream_model:
                    return target
        if provider is not None:
            return self.direct_target(provider, rest, f"{name}/*")
        return None

    def leads_to(self, name: str, client: Dialect, provider: Provider, upstream_model: str) -> bool:
        """True if a client that sends `name` gets this model of this provider.

        The result is not cached: names that upstreams list must not evict those that clients send.
        """
        if not name or len(name) > NAME_MAX:
            return False
        try:
            target = self._by_route(name, client) or self._by_size_class(name, client)
            if target is None and self.config.models.policy != "reject":
                target = self._fallback(name, client)
        except UnknownModel:
            return False
        if target is None:
            return False
        return (provider.name, upstream_model) in (
            (each.provider.name, each.upstream_model) for each in target.candidates
        )

    def knobs_for(self, client: str | None) -> Knobs:
        """Return the general knobs for a client with the profile `client`, or for one without a profile."""
        return self.config.knobs if client is None else self._by_client.get(client, self.config.knobs)

    def direct_target(self, provider: Provider, model: str, route: str = "models") -> RoutedTarget:
        """Return the target of a model at a provider without a configured route, with the general knobs."""
        plan = None
        if self.config.providers.get(provider.name) is provider:
            parts, attempts = self._parts((RouteTarget(provider.name),))
            if parts:
                plan = Plan(tuple(parts[0].candidates(model)), attempts)
                provider = plan.candidates[0].provider
        return RoutedTarget(provider, model, self.config.knobs, route, self._by_client, plan=plan)

    def _only_provider(self, model: str) -> RoutedTarget | None:
        """Return the target of a configured name without a route, if there is a single provider."""
        if len(self.config.providers) == 1:
            (provider,) = self.config.providers.values()
            return self.direct_target(provider, model)
        return None

    def _sizes(self) -> list[str]:
        return [name for name in (self.config.models.big, self.config.models.small) if name]

    def _size_target(self, name: str, model: str, client: Dialect) -> RoutedTarget:
        """Return the target of the big or small model `name`, which stands in for `model`."""
        target = self._by_route(name, client) or self._only_provider(name)
        if target is None:
            raise self._unknown(model, client)
        return target

    def _by_size_class(self, model: str, client: Dialect) -> RoutedTarget | None:
        """Step 5: the big or small model by its own name, then by a word of Claude's model names."""
        for name in self._sizes():
            if model == name or name.partition("/")[::2] in ((p, model) for p in self.config.providers):
                return self._size_target(name, model, client)
        lower = model.lower()
        for words, size in ((_BIG, self._big), (_SMALL, self._small)):
            if size and any(word in lower for word in words):
                return self._size_target(size, model, client)
        return None

    def _fallback(self, model: str, client: Dialect) -> RoutedTarget:
        """Step 6: the configured policy for unknown names."""
        policy = self.config.models.policy
        if policy == "pass":
            # The first provider of the file; a route for `*` overrides it.
            provider = next(iter(self.config.providers.values()))
            return self.direct_target(provider, model, "models.unknown")
        if policy == "small" and self._small:
            target = self._size_target(self._small, model, client)
            warning = f"unknown model {_shown(model)} was sent to {target.upstream_model}"
            return target._replace(route="models.unknown", warning=warning)
        raise self._unknown(model, client)

    def _unknown(self, model: str, client: Dialect) -> UnknownModel:
        patterns = [each.route.model for each in self._patterns if each.route.client in (None, client)]
        patterns += [f"{name}/*" for name in self.config.providers]
        return UnknownModel(model, (name for name, _ in self.known_models()), patterns)
