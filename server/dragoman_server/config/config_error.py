"""The error for an invalid configuration, and the paths of keys in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.gateway import short_repr

Problem = tuple[str, str]
"""Path in the configuration, and message."""
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


class ConfigError(ValueError):
    """An invalid configuration. `problems` holds all problems as (path, message); the text has one line for each.

    `file` is the file that the paths are in, if they are in one.
    """

    def __repr__(self) -> str:
        return short_repr(self, len(self.problems), "problems")

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.problems: list[Problem] = [(path, message)]
        self.file: str | None = None

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> ConfigError:
        """Return one error for all `problems` (at least one)."""
        error = cls(*problems[0])
        error.problems = list(problems)
        return error

    def __str__(self) -> str:
        return "\n".join(f"{path}: {message}" if path else message for path, message in self.problems)


def join(path: str, key: str) -> str:
    """Return the path of a key, quoted as in TOML."""
    step = key if _BARE.match(key) else '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{path}.{step}" if path else step
