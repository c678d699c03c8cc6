"""The table `[usage]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman_server.config.toml_reader import Problem
from dragoman_server.config.value_problems import unknown

OFF, JSONL, SQLITE = "off", "jsonl", "sqlite"
KINDS = (OFF, JSONL, SQLITE)
STDOUT = "-"
"""The path of standard output."""
DEFAULT_PATHS = {JSONL: "usage.jsonl", SQLITE: "usage.db"}


@dataclass(frozen=True)
class UsageOptions:
    """Where the usage of each exchange is written.

    `path` is the file; `-` is standard output, of `jsonl` only. A `jsonl` file of more than `max_bytes` is renamed to
    `PATH.1`, and `files` of those are kept. `sqlite` keeps rows for `keep_days`; 0 is for ever.
    """

    kind: str = OFF
    path: str = ""
    max_bytes: int = 100_000_000
    files: int = 10
    keep_days: int = 0

    @property
    def file(self) -> str:
        """The path of the file, `-` for standard output."""
        return self.path or DEFAULT_PATHS.get(self.kind, "")

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        if self.kind not in KINDS:
            yield "usage.kind", unknown("usage", self.kind, KINDS)
        if self.path == STDOUT and self.kind == SQLITE:
            yield "usage.path", 'expected a file; standard output needs kind = "jsonl"'
        if self.max_bytes < 1000:
            yield "usage.max_bytes", f"expected 1000 or more; got {self.max_bytes}"
        if not 1 <= self.files <= 1000:
            yield "usage.files", f"expected 1 to 1000; got {self.files}"
        if not 0 <= self.keep_days <= 100_000:
            yield "usage.keep_days", f"expected 0 (for ever) to 100000; got {self.keep_days}"
