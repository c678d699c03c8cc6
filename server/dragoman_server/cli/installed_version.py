"""The version of the installed package."""

from __future__ import annotations

import sys
from pathlib import Path

_PREFIX, _SUFFIX = "dragoman-", ".dist-info"


def installed_version() -> str:
    """Return the version, by the name of the folder that pip writes, or `?` without one.

    importlib.metadata would take 1.4 MB of a server's memory.
    """
    for entry in sys.path:
        for folder in Path(entry).glob(f"{_PREFIX}*{_SUFFIX}"):
            return folder.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    return "?"
