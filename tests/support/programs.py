"""Programs that tests run and that are no Python packages. `.ci/debian-packages` lists them with their packages.

A test is skipped where one is missing, and fails there with `CI=true`: `.ci/run` installs them.
"""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

from support.paths import ROOT

LIST = ROOT / ".ci/debian-packages"


def packages() -> dict[str, str]:
    """Debian's package of each program."""
    lines = (line.partition("#")[0].split() for line in LIST.read_text("utf-8").splitlines())
    return dict(filter(None, lines))


def installed(name: str, *others: str) -> str:
    """The path of a program of the list, or of one that does the same."""
    package = packages()[name]
    found = next(filter(None, map(shutil.which, (name, *others))), None)
    return found or lacking(f"{name} is not installed (Debian: apt-get install {package})")


def lacking(reason: str) -> NoReturn:
    """Skip what needs something that is not installed. Fails with `CI=true`."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)
