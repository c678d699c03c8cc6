"""Which upstream answers for a model name, and by what name it knows the model (mapping §12.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from dragoman.dialects import Dialect
from dragoman.errors import DragomanError, Failure, FailureKind, FailureOrigin
from dragoman.knobs import Knobs
from dragoman_server.config.providers import Provider
from dragoman_server.config.schema import Config, Route
from dragoman_server.routing.client_profiles import adapted, chosen

MEMO = 1024
"""Resolved names kept: they come from clients, so their number has no bound of its own."""
NAME_MAX = 512
"""Longest model name looked at: bounds the memo's bytes and the patterns' time."""

_LISTED = 20
_BIG = ("opus", "sonnet", "fable", "mythos")
_SMALL = ("haiku",)


class Target(NamedTuple):
    """Where a request goes. `warning` is told when the name was only guessed at.

    `route` is the configured pattern that led there, or which other rule did: never a name that a client chose.
    """

    provider: Provider
    upstream_model: str
    renamed: bool
    warning: str | None
    knobs: Knobs
    route: str = "models"
    by_client: Mapping[str, Knobs] = {}
    """`knobs` for the known clients that they differ for."""

    def knobs_for(self, client: str | None) -> Knobs:
        """The knobs of a request of the client with this profile name, if any."""
        return self.knobs if client is None else self.by_client.get(client, self.knobs)


class UnknownModel(DragomanError):
    """No route leads from the model's name: 404 with the names and patterns there are (mapping §12.2)."""

    def __init__(self, model: str, known: Iterable[str], patterns: Iterable[str] = ()) -> None:
        lists = (("known models", list(known)), ("patterns", list(dict.fromkeys(patterns))))
        there = "; ".join(f"{what}: {_listed(names)}" for what, names in lists if names)
        there = there or "no model is configured by name"
        super().__init__(
            Failure(
                FailureKind.NOT_FOUND,
                f"model {_shown(model)} is not configured; {there}",
                404,
                code="model_not_found",
                param="model",
                origin=FailureOrigin.CLIENT,
            )
        )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"


def _shown(model: str) -> str:
    # A client's text, on its way into messages, logs and headers: short, and no control characters.
    return ascii(model if len(model) <= 100 else model[:100] + "...")


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A route with what can be worked out beforehand."""

    route: Route
    pattern: re.Pattern[str] | None
    provider: Provider
    knobs: Knobs
    by_client: Mapping[str, Knobs]

    def target(self, model: str, match: re.Match[str] | None) -> Target:
        upstream_model = self.route.upstream_model or model
        if match is not None and self.route.substitutes():
            if self.route.is_regex:
                upstream_model = match.expand(upstream_model)
            else:
                upstream_model = upstream_model.replace("*", match[1])
        renamed = upstream_model != model
        return Target(self.provider, upstream_model, renamed, None, self.knobs, self.route.model, self.by_client)


class Router:
    """Resolves model names by the configuration. Raises `ConfigError` if that has problems."""

    def __init__(self, config: Config) -> None:
        config.check()
        self.config = config
        self._exact: dict[str, list[_Compiled]] = {}
        self._patterns: list[_Compiled] = []
        fixed = chosen(config.knobs, config.knobs_named)
        self._by_client = adapted(config.knobs, fixed)
        for route in config.routes:
            pattern = route.pattern()
            knobs, by_client = config.knobs, self._by_client
            if route.knobs:
                knobs = replace(config.knobs, **route.knobs)
                by_client = adapted(knobs, fixed.union(route.knobs))
            compiled = _Compiled(route, pattern, config.providers[route.provider], knobs, by_client)
            if pattern is None:
                self._exact.setdefault(route.model, []).append(compiled)
            else:
                self._patterns.append(compiled)
        models = config.models
        # Either one stands in for the other where only one is configured.
        self._big = models.big or models.small
        self._small = models.small or models.big
        self._memo: dict[tuple[str, Dialect], Target] = {}

    def resolve(self, model: str, client: Dialect) -> Target:
        """The target for a model name as a client of dialect `client` gave it. Raises `UnknownModel`."""
        target = self._memo.get((model, client))
        if target is None:
            if not model or len(model) > NAME_MAX:
                raise self._unknown(model, client)
            target = self._routed(model, client) or self._by_size(model, client) or self._guessed(model, client)
            if len(self._memo) >= MEMO:
                del self._memo[next(iter(self._memo))]
            self._memo[model, client] = target
        return target

    def known_models(self) -> list[tuple[str, str]]:
        """(name, provider) of every name that resolves and is no pattern, for `GET /v1/models`."""
        names = [*self._exact, *self._sizes(), *self.config.models_listed]
        known = []
        for name in dict.fromkeys(names):
            for client in Dialect:
                if target := self._routed(name, client) or self._placed(name):
                    known.append((name, target.provider.name))
                    break
        return known

    def _routed(self, model: str, client: Dialect) -> Target | None:
        """Steps 1 to 3: exact route, patterns in file order, `provider/model`."""
        for compiled in self._exact.get(model, ()):
            if compiled.route.client in (None, client):
                return compiled.target(model, None)
        for compiled in self._patterns:
            if compiled.route.client in (None, client) and compiled.pattern is not None:
                match = compiled.pattern.fullmatch(model)
                # A group that matched nothing leaves no model to ask for.
                if match is not None and (target := compiled.target(model, match)).upstream_model:
                    return target
        name, _, rest = model.partition("/")
        if rest and (provider := self.config.providers.get(name)):
            return self.plain(provider, rest, f"{name}/*", renamed=True)
        return None

    def leads(self, name: str, client: Dialect, provider: Provider, upstream_model: str) -> bool:
        """Whether a client that sends `name` gets this model of this provider.

        Remembers nothing: names that upstreams list must not push out those that clients send.
        """
        if not name or len(name) > NAME_MAX:
            return False
        try:
            target = self._routed(name, client) or self._by_size(name, client)
            if target is None and self.config.models.policy != "reject":
                target = self._guessed(name, client)
        except UnknownModel:
            return False
        return target is not None and target.provider is provider and target.upstream_model == upstream_model

    def knobs_for(self, client: str | None) -> Knobs:
        """The general knobs for the client with this profile name, if any."""
        return self.config.knobs if client is None else self._by_client.get(client, self.config.knobs)

    def plain(self, provider: Provider, model: str, route: str = "models", *, renamed: bool = False) -> Target:
        """The target of a model at a provider that no route speaks of."""
        return Target(provider, model, renamed, None, self.config.knobs, route, self._by_client)

    def _placed(self, model: str) -> Target | None:
        """One of our own names without a route: the only provider has it."""
        if len(self.config.providers) == 1:
            (provider,) = self.config.providers.values()
            return self.plain(provider, model)
        return None

    def _sizes(self) -> list[str]:
        return [name for name in (self.config.models.big, self.config.models.small) if name]

    def _sized(self, name: str, model: str, client: Dialect) -> Target:
        """The target of the big or small model, asked for as `model`."""
        target = self._routed(name, client) or self._placed(name)
        if target is None:
            raise self._unknown(model, client)
        return target._replace(renamed=target.upstream_model != model)

    def _by_size(self, model: str, client: Dialect) -> Target | None:
        """Step 4: the big or small model by its own name, then by a family word of Claude's."""
        for name in self._sizes():
            if model == name or name.partition("/")[::2] in ((p, model) for p in self.config.providers):
                return self._sized(name, model, client)
        lower = model.lower()
        for words, size in ((_BIG, self._big), (_SMALL, self._small)):
            if size and any(word in lower for word in words):
                return self._sized(size, model, client)
        return None

    def _guessed(self, model: str, client: Dialect) -> Target:
        """Step 5: what is configured for unknown names."""
        policy = self.config.models.policy
        if policy == "pass":
            # The first one of the file; a route for `*` says otherwise.
            provider = next(iter(self.config.providers.values()))
            return self.plain(provider, model, "unknown")
        if policy == "small" and self._small:
            target = self._sized(self._small, model, client)
            warning = f"unknown model {_shown(model)} was sent to {target.upstream_model}"
            return target._replace(warning=warning, route="unknown")
        raise self._unknown(model, client)

    def _unknown(self, model: str, client: Dialect) -> UnknownModel:
        patterns = [each.route.model for each in self._patterns if each.route.client in (None, client)]
        patterns += [f"{name}/*" for name in self.config.providers]
        return UnknownModel(model, (name for name, _ in self.known_models()), patterns)
