"""The settings of routes with several targets: the targets, the balance between them, and retries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dragoman.gateway import changed_fields
from dragoman_server.config.config_error import Problem
from dragoman_server.config.setting import Above, Range, checked, described, setting, setting_problems
from dragoman_server.config.value_problems import unknown

BALANCES = ("sticky", "least-busy", "weighted")
"""Ways to share requests between targets of the same priority."""
ATTEMPTS_MAX = 20
"""Most attempts of one request that can be configured."""
TARGETS_MAX = 64
"""Most targets of one route."""
_DEFAULT_ATTEMPTS = 3
_NUMBER = Range()


@dataclass(frozen=True)
class RouteTarget:
    """One provider of a route with several. Targets with the lowest `priority` are used first."""

    provider: str = field(metadata=described(getter="text", required=True))
    """Name of the provider."""
    upstream_model: str | None = setting(None)
    """Model's name there (default: that of the route)."""
    weight: float = setting(1.0, Above())
    """Share of the requests among targets of the same priority."""
    priority: int | None = setting(None, Range(1, meaning="first"))
    """1 is tried first (default: the place in the list)."""
    larger: bool = setting(False)
    """Only for requests that are too long for the route's other providers."""


def target_problems(at: str, targets: Sequence[RouteTarget], providers: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the problems of a route's targets; `at` is the path of their list in the configuration."""
    if len(targets) > TARGETS_MAX:
        yield at, f"has {len(targets)} providers; the most are {TARGETS_MAX}"
    if targets and all(target.larger for target in targets):
        yield at, "has only providers with larger = true, which get no request first: add one without it"
    seen = set()
    for index, target in enumerate(targets):
        here = f"{at}[{index}]"
        if target.provider not in providers:
            yield f"{here}.provider", unknown("provider", target.provider, providers)
        if (pair := (target.provider, target.upstream_model)) in seen:
            yield here, f'names "{target.provider}" a second time with the same upstream_model'
        seen.add(pair)
        yield from setting_problems(here, target)


@dataclass(frozen=True)
class RetryOptions:
    """The table `[retries]`: further attempts of a request, and pauses of providers that fail. Times are in seconds."""

    __repr__ = changed_fields

    attempts: int = checked(0, _NUMBER)
    """Upstream requests for one client request, the first included; 0 = 3 for a route with several providers or a
    provider with several keys, 1 for others."""
    backoff: float = checked(0.5, _NUMBER)
    """The pause before the first retry at the same provider; it doubles with each."""
    backoff_max: float = checked(8.0, _NUMBER)
    """Longest of these pauses."""
    wait: float = checked(30.0, _NUMBER)
    """All pauses of one request together, with its time in queues; a longer `retry-after` is not waited for."""
    budget: float = checked(0.2, _NUMBER)
    """Retries as a share of the requests of the last 10 s."""
    budget_min: int = checked(3, _NUMBER)
    """Retries in 10 s that are possible however few requests there are."""
    failures: int = checked(5, _NUMBER)
    """Failures in a row after which a provider is paused, for their client or, if two have them, for all; 0 = never."""
    cooldown: float = checked(15.0, _NUMBER)
    """First pause of a provider or of a key; a provider's doubles while it fails."""
    cooldown_max: float = checked(120.0, _NUMBER)
    """Longest pause of a provider or of a key, also by `retry-after`."""

    unserved: bool = False
    """Ask the next provider also after a 404 (a model that is retired there) and a 413 (too large for it)."""

    def attempts_of(self, route: int | None, several: bool) -> int:
        """Return the attempts of a route. `route` is its own setting; `several` means several providers or keys."""
        return route or self.attempts or (_DEFAULT_ATTEMPTS if several else 1)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        yield from setting_problems("retries", self)
        if self.attempts > ATTEMPTS_MAX:
            yield "retries.attempts", f"expected at most {ATTEMPTS_MAX}; got {self.attempts}"
