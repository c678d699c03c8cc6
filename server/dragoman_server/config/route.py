"""A route: which model names go to which provider, and under which name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman import Dialect, Knobs
from dragoman.gateway import CLIENT_DIALECTS, KNOBS, changed_fields
from dragoman_server.config.config_error import Problem
from dragoman_server.config.hints import DIALECTS
from dragoman_server.config.provider import Provider
from dragoman_server.config.routing_options import ATTEMPTS_MAX, BALANCES, RouteTarget, target_problems
from dragoman_server.config.setting import Filled, Range, Words, described, setting, setting_problems
from dragoman_server.config.value_problems import closest, unknown, value_problem


@dataclass(frozen=True)
class Route:
    """Maps a model name, glob or `/regex/` to a provider.

    In `upstream_model`, `*` is replaced by what the glob's only `*` matched; for a regex, `\\1` and `\\g<name>` by its
    groups. `knobs` override the general ones. With `targets`, a request goes to one of several providers, and
    `provider` is the first of them.
    """

    __repr__ = changed_fields

    # Read literally: a regex may contain `${`.
    model: str = field(metadata=described(Filled(), "text", required=True, literal=True))
    """An exact name, a pattern (`*`, `?`, `[a-z]`) or a `/regex/`; it must match the whole name."""
    provider: str = setting("")
    """Name of the provider that gets the request."""
    upstream_model: str | None = setting(None)
    """Model's name sent upstream (default: the client's name)."""
    client: Dialect | None = setting(None, Words(CLIENT_DIALECTS, "dialect", hints=DIALECTS))
    """The route applies to clients of this dialect only."""
    knobs: Mapping[str, Any] = setting(dict, getter="values", kind=Knobs)
    """Knobs for this route."""
    targets: tuple[RouteTarget, ...] = ()
    balance: str = setting(BALANCES[0], Words(BALANCES))
    """The way in which providers of the same priority share requests."""
    attempts: int | None = setting(None, Range(1, ATTEMPTS_MAX))
    """Upstream requests for one client request, the first included."""

    def __post_init__(self) -> None:
        if self.targets:
            fill = object.__setattr__
            numbered = enumerate(self.targets, 1)
            ordered = [each if each.priority else replace(each, priority=place) for place, each in numbered]
            fill(self, "targets", tuple(ordered))
            first = min(ordered, key=lambda each: (each.larger, each.priority or 0))
            fill(self, "provider", self.provider or first.provider)

    @property
    def provider_names(self) -> list[str]:
        """The names of the route's providers."""
        return [target.provider for target in self.targets] or [self.provider]

    @property
    def is_regex(self) -> bool:
        """True if `model` is a regex: `/.../`."""
        return len(self.model) > 2 and self.model[0] == self.model[-1] == "/"

    @property
    def takes_all(self) -> bool:
        """True if every name matches, as for `*`."""
        return self.model[1:-1] in (".*", ".+") if self.is_regex else bool(self.model) and not self.model.strip("*")

    def pattern(self) -> re.Pattern[str] | None:
        """Return the compiled pattern, or None for an exact name. Raises `re.error`."""
        if self.is_regex:
            return re.compile(self.model[1:-1])
        if any(mark in self.model for mark in "*?["):
            return re.compile(_glob(self.model), re.DOTALL)
        return None

    def _has_placeholder(self, upstream_model: str | None) -> bool:
        return upstream_model is not None and ("\\" if self.is_regex else "*") in upstream_model

    def expanded(self, upstream_model: str | None, model: str, match: re.Match[str] | None) -> str:
        """Return an upstream model of the route with its placeholders filled; without one, the client's `model`."""
        if upstream_model is None or match is None or not self._has_placeholder(upstream_model):
            return upstream_model or model
        return match.expand(upstream_model) if self.is_regex else upstream_model.replace("*", match[1])

    def problems(self, at: str, providers: Mapping[str, Provider]) -> Iterator[Problem]:
        """Yield the problems of this route; `at` is its path in the configuration."""
        yield from setting_problems(at, self)
        try:
            pattern = self.pattern()
        except re.error as error:
            yield f"{at}.model", f'bad pattern "{self.model}": {error}'
        else:
            yield from self._substitution_problems(f"{at}.upstream_model", self.upstream_model, pattern)
            for index, target in enumerate(self.targets):
                here = f"{at}.providers[{index}].upstream_model"
                yield from self._substitution_problems(here, target.upstream_model, pattern)
        yield from target_problems(f"{at}.providers", self.targets, providers)
        if not self.targets and self.provider not in providers:
            yield f"{at}.provider", unknown("provider", self.provider, providers)
        for name, value in self.knobs.items():
            if name not in KNOBS:
                yield f"{at}.knobs.{name}", "unknown key" + closest(name, KNOBS)
            elif wrong := value_problem(KNOBS[name], value):
                yield f"{at}.knobs.{name}", wrong

    def _substitution_problems(
        self, at: str, upstream_model: str | None, pattern: re.Pattern[str] | None
    ) -> Iterator[Problem]:
        if upstream_model == "":
            yield at, "is empty"
        if upstream_model is None or not self._has_placeholder(upstream_model):
            return
        if self.is_regex and pattern is not None:
            # The only way to check a template is to expand it; the added empty alternative makes the pattern match.
            try:
                if match := re.compile(pattern.pattern + "|").match(""):
                    match.expand(upstream_model)
            except (re.error, IndexError) as error:
                yield at, f"bad template: {error}"
        elif pattern is None or pattern.groups != 1 or upstream_model.count("*") != 1:
            yield at, "a * here needs exactly one * in model, and may occur only once"


def _glob(pattern: str) -> str:
    """Return the regex of a glob with `*`, `?`, `[a-z]` and `[!a-z]`, as in a shell; each `*` becomes a group."""
    out = []
    for token in re.findall(r"\[!?\]?[^\]]*\]|.", pattern, re.DOTALL):
        if token == "*":
            out.append("(.*)")
        elif token == "?":
            out.append(".")
        elif len(token) > 1:
            # Each member is escaped, so that characters that are special only in a regex are literal.
            members = re.findall(r"(.)-(.)|(.)", token[1:-1].removeprefix("!"), re.DOTALL)
            inside = "".join(
                f"{re.escape(low)}-{re.escape(high)}" if low else re.escape(one) for low, high, one in members
            )
            out.append(f"[{'^' if token[1] == '!' else ''}{inside}]")
        else:
            out.append(re.escape(token))
    return "".join(out)
