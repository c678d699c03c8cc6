"""The table `[state.compaction]` of the configuration: how and when conversations are compacted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from dragoman_server.config.provider import Provider
from dragoman_server.config.toml_reader import Problem, Table, join

SHARE: Final = 0.8
"""Share of the context window for a request with `context_management` that has no threshold."""


@dataclass(frozen=True)
class CompactionOptions:
    """The way in which conversations are compacted, and when.

    `model` writes the summaries; empty for the model of each request. Stored conversations are compacted when their
    input reaches this `share` of the model's context window; 0: only if a request asks for it. `context_windows` are
    in tokens, by a pattern of the models' names as clients send them; other models have that of their provider.
    """

    model: str = ""
    share: float = 0.0
    context_windows: tuple[tuple[str, int], ...] = ()

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


def read_compaction(table: Table) -> CompactionOptions:
    """Return the settings of the file; problems go to the table."""
    windows = table.table("context_windows")
    sizes = [(pattern, windows.integer(pattern)) for pattern in windows]
    windows.finish()
    given: dict[str, Any] = {
        "model": table.text("model"),
        "share": table.number("share"),
        "context_windows": tuple((pattern, tokens) for pattern, tokens in sizes if tokens is not None),
    }
    table.finish()
    return CompactionOptions(**{name: value for name, value in given.items() if value is not None})
