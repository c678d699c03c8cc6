"""The largest output limits of models, as upstreams list them or name them in errors.

A request without a limit gets the model's largest at a Messages upstream (`Profile.default_output`).
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman import Profile
from dragoman.gateway import ListedModel
from dragoman_server.config.provider import Provider

KEPT = 4000
"""Most models whose limits are kept; the oldest is dropped first. Clients choose the names of models."""


class OutputLimits:
    """The limits that one gateway knows, by upstream and model."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str, str], int] = {}
        self._profiles: dict[tuple[str, str], tuple[Profile, Profile]] = {}
        """The profiles that `profile` made, each with the one that it was made from."""

    def profile(self, provider: Provider, model: str) -> Profile:
        """Return the provider's profile. If the limit of the model is known, and the profile sets none, it has it."""
        key, given = (provider.base_url, model), provider.profile
        limit = self._limits.get(key)
        if limit is None or given.default_max_tokens or given.max_output_tokens:
            return given
        known = self._profiles.get(key)
        if known is None or known[0] is not given:
            self._profiles[key] = known = given, given.replace({"default_max_tokens": limit})
        return known[1]

    def add_list(self, provider: Provider, models: Iterable[ListedModel]) -> None:
        """Keep the limits in the model list of an upstream whose requests must have one."""
        if provider.dialect.facts.output_cap:
            for model in models:
                if model.output_limit:
                    self.add(provider, model.name, model.output_limit)

    def add(self, provider: Provider, model: str, limit: int) -> None:
        """Keep the limit of a model, in tokens."""
        key = provider.base_url, model
        if self._limits.pop(key, None) != limit:
            self._profiles.pop(key, None)
        if len(self._limits) >= KEPT:
            oldest = next(iter(self._limits))
            del self._limits[oldest]
            self._profiles.pop(oldest, None)
        self._limits[key] = limit
