"""The version of the installed package, and the revision that it was built from.

The build (engine/build_hook.py) runs this module by its path, without the package, so it imports the standard library
only.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

REVISION_FILE = "revision.txt"
"""The file in this package that a build writes the revision to."""
_PREFIX, _SUFFIX = "dragoman-", ".dist-info"
_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parent.parent.parent
"""The project's folder, if this file is part of a checkout."""
_GIT_SECONDS = 10.0


def installed_version() -> str:
    """Return the version, by the name of the folder that pip writes, or `?` without one.

    importlib.metadata would take 1.4 MB of a server's memory.
    """
    for entry in sys.path:
        for folder in Path(entry).glob(f"{_PREFIX}*{_SUFFIX}"):
            return folder.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    return "?"


@cache
def revision() -> str:
    """Return the revision that the package was built from, or that its checkout is at, or `unknown`."""
    try:
        return (_HERE / REVISION_FILE).read_text("utf-8").strip()
    except OSError:
        return revision_of(_CHECKOUT) or "unknown"


def revision_of(checkout: Path) -> str:
    """Return the revision of a Git checkout, with `-dirty` if tracked files were changed; "" for any other folder."""
    if not (checkout / ".git").exists():
        return ""
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
