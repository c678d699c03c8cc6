"""The settings of routes with several targets: the targets, the balance between them, and retries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite

from dragoman.gateway import changed_fields
from dragoman_server.config.toml_reader import Problem
from dragoman_server.config.value_problems import documented, unknown

BALANCES = ("sticky", "least-busy", "weighted")
"""Ways to share requests between targets of the same priority."""
ATTEMPTS_MAX = 20
"""Most attempts of one request that can be configured."""
TARGETS_MAX = 64
"""Most targets of one route."""
_DEFAULT_ATTEMPTS = 3


@dataclass(frozen=True)
class RouteTarget:
    """One provider of a route with several.

    Targets with the lowest `priority` are used first; without one, it is the target's place in the route, from 1.
    Targets of the same priority share the requests by `weight`. `upstream_model` replaces that of the route.
    """

    provider: str
    upstream_model: str | None = None
    weight: float = 1.0
    priority: int | None = None


def target_problems(at: str, targets: Sequence[RouteTarget], providers: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the problems of a route's targets; `at` is the path of their list in the configuration."""
    if len(targets) > TARGETS_MAX:
        yield at, f"has {len(targets)} providers; the most are {TARGETS_MAX}"
    seen = set()
    for index, target in enumerate(targets):
        here = f"{at}[{index}]"
        if target.provider not in providers:
            yield f"{here}.provider", unknown("provider", target.provider, providers)
        if (pair := (target.provider, target.upstream_model)) in seen:
            yield here, f'names "{target.provider}" a second time with the same upstream_model'
        seen.add(pair)
        if not (isfinite(target.weight) and target.weight > 0):
            yield f"{here}.weight", f"expected a number above 0; got {target.weight:g}"
        if target.priority is not None and target.priority < 1:
            yield f"{here}.priority", f"expected 1 (first) or more; got {target.priority}"


@dataclass(frozen=True)
class RetryOptions:
    """The table `[retries]`: further attempts of a request, and pauses of providers that fail. Times are in seconds."""

    __repr__ = changed_fields

    attempts: int = documented(
        0,
        "upstream requests for one client request, the first included; 0 = 3 for a route with several providers or a"
        " provider with several keys, 1 for others",
    )
    backoff: float = documented(0.5, "the pause before the first retry at the same provider; it doubles with each")
    backoff_max: float = documented(8.0, "longest of these pauses")
    wait: float = documented(
        30.0, "all pauses of one request together, with its time in queues; a longer `retry-after` is not waited for"
    )
    budget: float = documented(0.2, "retries as a share of the requests of the last 10 s")
    budget_min: int = documented(3, "retries in 10 s that are possible however few requests there are")
    failures: int = documented(
        5,
        "failures in a row after which a provider is paused, for their client or, if two have them, for all; 0 = never",
    )
    cooldown: float = documented(15.0, "first pause of a provider or of a key; a provider's doubles while it fails")
    cooldown_max: float = documented(120.0, "longest pause of a provider or of a key, also by `retry-after`")

    def attempts_of(self, route: int | None, several: bool) -> int:
        """Return the attempts of a route. `route` is its own setting; `several` means several providers or keys."""
        return route or self.attempts or (_DEFAULT_ATTEMPTS if several else 1)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        for spec in fields(self):
            number = getattr(self, spec.name)
            if not (isfinite(number) and number >= 0):
                yield f"retries.{spec.name}", f"expected 0 or more; got {number:g}"
        if self.attempts > ATTEMPTS_MAX:
            yield "retries.attempts", f"expected at most {ATTEMPTS_MAX}; got {self.attempts}"


def attempts_problem(at: str, attempts: int | None) -> Iterator[Problem]:
    """Yield the problem of a route's number of attempts, if there is one."""
    if attempts is not None and not 1 <= attempts <= ATTEMPTS_MAX:
        yield f"{at}.attempts", f"expected 1 to {ATTEMPTS_MAX}; got {attempts}"
