"""The package states its version, and the Pythons that it is tested with."""

from __future__ import annotations

import re
import runpy
import tomllib
from importlib.metadata import version

import yaml

from support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_file_that_names_the_version_has_that_of_the_project() -> None:
    assert version("dragoman") == PROJECT["version"]
    (locked,) = re.findall(r'^name = "dragoman"\nversion = "(.*)"', (ROOT / "uv.lock").read_text("utf-8"), re.MULTILINE)
    kustomization = yaml.safe_load((ROOT / "docs/deploy/kubernetes/base/kustomization.yaml").read_text("utf-8"))
    (image,) = kustomization["images"]
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))]
    shown = {found for page in pages for found in re.findall(r"\(version ([\d.]+), revision", page)}
    assert {locked, image["newTag"], *shown} == {PROJECT["version"]}


def test_the_stated_pythons_are_those_that_are_tested() -> None:
    prefix = "Programming Language :: Python :: "
    stated = [each.removeprefix(prefix) for each in PROJECT["classifiers"] if each.startswith(f"{prefix}3.")]
    assert tuple(stated) == runpy.run_path(str(ROOT / "tests/release/check.py"))["VERSIONS"]
    (later,) = re.findall(r"^for version in (.*); do$", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    assert stated == [PROJECT["requires-python"].removeprefix(">="), *later.split()]


def test_every_extra_is_described() -> None:
    page = (ROOT / "docs/howto/install.md").read_text("utf-8")
    described = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert described == sorted(PROJECT["optional-dependencies"])
