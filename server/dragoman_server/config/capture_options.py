"""The table `[capture]` of the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman_server.config.accounts_tables import raise_for, read_root
from dragoman_server.config.config_error import Problem
from dragoman_server.config.setting import Above, Range, setting, setting_problems


@dataclass(frozen=True)
class CaptureOptions:
    """The choice of the exchanges that are captured, and the limits. Without a `directory`, nothing is captured.

    An exchange is captured if an admin's request asks for it with a header, if its key is set to, or by chance.
    """

    directory: str = setting("", getter="file_path")
    """The directory; without it nothing is captured. Relative to the configuration's file."""
    header: bool = setting(True)
    """Capture requests with the header x-dragoman-capture, of admin keys."""
    share: float = setting(0.0, Range(0, 1))
    """Share of all exchanges that is captured, 0 to 1."""
    texts: bool = setting(False)
    """Keep the texts of prompts and replies; else they are replaced."""
    exchange_bytes: int = setting(4 * 1024 * 1024, Range(1000, 2**30))
    """Most bytes of one exchange that are kept."""
    total_bytes: int = setting(512 * 1024 * 1024, Range(1000, 2**50))
    """Most bytes of all captures; the oldest are deleted."""
    number: int = setting(1000, Range(1, 100_000))
    """Most captures; the oldest are deleted."""
    days: float = setting(7.0, Above("days", 3660))
    """Days until a capture is deleted."""
    open: int = setting(32, Range(1, 10_000))
    """Most exchanges of one process that are captured at the same time."""

    @property
    def enabled(self) -> bool:
        """True if exchanges may be captured."""
        return bool(self.directory)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        if not self.directory and self != CaptureOptions():
            yield "capture.directory", "is required: the directory for captures"
        yield from setting_problems("capture", self)


def load_capture_options(path: str | os.PathLike[str]) -> CaptureOptions:
    """Return the settings of captures of a file, without the rest of it. Raises ConfigError."""
    problems: list[Problem] = []
    options: CaptureOptions = read_root(path, problems).section("capture", CaptureOptions)
    raise_for(path, problems, options.problems())
    return options
