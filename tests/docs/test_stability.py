"""docs/reference/stability.md: the public names of 1.0 are there, and stay."""

from __future__ import annotations

import re
import tomllib
import warnings
from importlib import import_module

import pytest

from generators.python_api import PACKAGES
from support.paths import ROOT

PAGE = (ROOT / "docs/reference/stability.md").read_text("utf-8")
NAMES = {
    package: re.findall(r"`(\w+)`", names)
    for package, names in re.findall(r"^\| \[`([\w.]+)`\]\(python-api/[^)]*\) \| (.*) \|$", PAGE, re.MULTILINE)
}


def test_each_public_package_has_a_row() -> None:
    assert tuple(NAMES) == PACKAGES
    assert sum(map(len, NAMES.values())) > 250


@pytest.mark.parametrize("package", PACKAGES)
def test_each_listed_name_is_public(package: str) -> None:
    """A name that is gone has to stay until the next major release, with a warning."""
    module = import_module(package)
    assert [name for name in NAMES[package] if name not in module.__all__] == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [name for name in NAMES[package] if not hasattr(module, name)] == []


def test_the_table_of_versions_has_this_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    minor = project["version"].rpartition(".")[0]
    pythons = [each.rpartition(" ")[2] for each in project["classifiers"] if " :: 3." in each]
    assert f"| {minor} | {', '.join(pythons)} | maintained |" in PAGE
