"""The table `[capture]` of the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman_server.config.accounts_tables import raise_for, read_root
from dragoman_server.config.toml_reader import Problem, Table

_LEAST = {"number": 1, "exchange_bytes": 1000, "total_bytes": 1000, "open": 1}
_MOST = {"number": 100_000, "exchange_bytes": 2**30, "total_bytes": 2**50, "open": 10_000}
_AGE_MAX = 3660.0


@dataclass(frozen=True)
class CaptureOptions:
    """The choice of the exchanges that are captured, and the limits. Without a `directory`, nothing is captured.

    An exchange is captured if an admin's request asks for it with a header (`header`), if its key is set to, or by
    chance: `share` of all. Texts are replaced unless `texts` is set. Up to `exchange_bytes` of one exchange are kept,
    in all up to `number` captures of `total_bytes`, for `days`. Of one process up to `open` exchanges are captured at
    the same time.
    """

    directory: str = ""
    header: bool = True
    share: float = 0.0
    texts: bool = False
    exchange_bytes: int = 4 * 1024 * 1024
    total_bytes: int = 512 * 1024 * 1024
    number: int = 1000
    days: float = 7.0
    open: int = 32

    @property
    def enabled(self) -> bool:
        """True if exchanges may be captured."""
        return bool(self.directory)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        if not self.directory and self != CaptureOptions():
            yield "capture.directory", "is required: the directory for captures"
        if not 0 <= self.share <= 1:
            yield "capture.share", f"expected 0 to 1; got {self.share:g}"
        for name, least in _LEAST.items():
            if not least <= (value := getattr(self, name)) <= _MOST[name]:
                yield f"capture.{name}", f"expected {least} to {_MOST[name]}; got {value}"
        if not 0 < self.days <= _AGE_MAX:
            yield "capture.days", f"expected days above 0, up to {_AGE_MAX:g}; got {self.days:g}"


def read_capture_options(table: Table) -> CaptureOptions:
    """Return the settings of the file; problems go to the table."""
    given: dict[str, Any] = {
        "directory": table.file_path("directory"),
        "header": table.boolean("header"),
        "share": table.number("share"),
        "texts": table.boolean("texts"),
        "exchange_bytes": table.integer("exchange_bytes"),
        "total_bytes": table.integer("total_bytes"),
        "number": table.integer("number"),
        "days": table.number("days"),
        "open": table.integer("open"),
    }
    table.finish()
    return CaptureOptions(**{name: value for name, value in given.items() if value is not None})


def load_capture_options(path: str | os.PathLike[str]) -> CaptureOptions:
    """Return the settings of captures of a file, without the rest of it. Raises ConfigError."""
    problems: list[Problem] = []
    options = read_capture_options(read_root(path, problems).table("capture"))
    raise_for(path, problems, options.problems())
    return options
