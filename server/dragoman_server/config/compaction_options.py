"""The table `[state.compaction]` of the configuration: how and when conversations are compacted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from dragoman_server.config.config_error import Problem, join
from dragoman_server.config.provider import Provider
from dragoman_server.config.setting import setting

SHARE: Final = 0.8
"""Share of the context window for a request with `context_management` that has no threshold."""


@dataclass(frozen=True)
class CompactionOptions:
    """The way in which conversations are compacted, and when."""

    model: str = setting("")
    """The model that writes the summaries (default: the model of the request)."""
    share: float = setting(0.0)
    """Share of the context window at which stored conversations are compacted; 0 = only if a request asks for it."""
    context_windows: tuple[tuple[str, int], ...] = setting((), getter="named_integers")
    """Context windows in tokens, by a pattern of the models' names, as clients send them; `*` and `?` match. Other
    models have the window of their provider."""

    def window(self, model: str, provider: Provider) -> int:
        """Return the context window of a model in tokens; 0 if it is not known."""
        for pattern, tokens in self.context_windows:
            if fnmatchcase(model, pattern):
                return tokens
        return provider.profile.context_window

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        if not 0 <= self.share < 1:
            yield "state.compaction.share", f"expected a share from 0 to below 1; got {self.share:g}"
        for pattern, tokens in self.context_windows:
            if tokens < 1:
                yield join("state.compaction.context_windows", pattern), f"expected 1 or more; got {tokens}"
