"""The table `[usage]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman_server.config.config_error import Problem
from dragoman_server.config.setting import Range, Words, setting, setting_problems
from dragoman_server.config.store_urls import POSTGRES, url_problems

OFF, JSONL, SQLITE = "off", "jsonl", "sqlite"
KINDS = (OFF, JSONL, SQLITE, POSTGRES)
STDOUT = "-"
"""The path of standard output."""
DEFAULT_PATHS = {JSONL: "usage.jsonl", SQLITE: "usage.db"}


@dataclass(frozen=True)
class UsageOptions:
    """Where the usage of each exchange is written."""

    kind: str = setting(OFF, Words(KINDS, "usage"))
    """off; jsonl: a line of JSON for each exchange; sqlite: a row in a file; postgresql: a row in a table."""
    path: str = setting("", getter="file_path")
    """The file (default usage.jsonl or usage.db); - is standard output, of jsonl only. Relative to the configuration's
    file."""
    url: str = setting("", getter="address", shown=False)
    """postgresql: postgresql://USER:PASSWORD@HOST:5432/DATABASE."""
    prefix: str = setting("dragoman")
    """postgresql: the schema; gateways with the same one share the table."""
    max_bytes: int = setting(100_000_000, Range(1000))
    """jsonl: a longer file is renamed to PATH.1."""
    files: int = setting(10, Range(1, 1000))
    """jsonl: how many renamed files are kept."""
    keep_days: int = setting(0, Range(0, 100_000, "for ever"))
    """sqlite, postgresql: rows that are older are deleted; 0 = keep all."""

    @property
    def file(self) -> str:
        """The path of the file, `-` for standard output."""
        return self.path or DEFAULT_PATHS.get(self.kind, "")

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        yield from setting_problems("usage", self)
        yield from url_problems("usage", self.kind, self.url, self.prefix)
        if self.path and self.kind == POSTGRES:
            yield "usage.path", 'has no effect with kind = "postgresql", which has usage.url'
        if self.path == STDOUT and self.kind == SQLITE:
            yield "usage.path", 'expected a file; standard output needs kind = "jsonl"'
