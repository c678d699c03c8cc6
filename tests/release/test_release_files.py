"""The files of a release: what is in them, and that the same revision has the same ones."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.observability.installed_version import revision_of
from generators import licences
from support.paths import ROOT

WHOLE = pytest.mark.whole
build: Callable[..., list[Path]] = runpy.run_path(str(ROOT / "tests/release/build.py"))["build"]
differences: Callable[..., list[str]] = runpy.run_path(str(ROOT / "tests/release/compare_bill.py"))["differences"]


@WHOLE
def test_a_release_can_be_built_again_and_checked(tmp_path: Path) -> None:
    first, second = (build(tmp_path / name, allow_dirty=True) for name in ("first", "second"))
    wheel, sdist, materials, sums = first
    assert [path.read_bytes() for path in first[:2]] == [path.read_bytes() for path in second[:2]]
    listed = [line.split("  ") for line in sums.read_text("utf-8").splitlines()]
    assert listed == [[hashlib.sha256(path.read_bytes()).hexdigest(), path.name] for path in (wheel, sdist, materials)]
    with zipfile.ZipFile(wheel) as files:
        packages = {name.split("/")[0] for name in files.namelist()}
        revision = files.read("dragoman_server/observability/revision.txt").decode()
        described = next(name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        description = files.read(described).decode().partition("\n\n")[2]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert packages == {"dragoman", "dragoman_server", "dragoman_bench", f"dragoman-{version}.dist-info"}
    assert revision.strip() == revision_of(ROOT)
    assert description.startswith("# Dragoman\n")
    assert re.findall(r"\]\((?!https?:)[^)]*\)", description) == [], "an index has none of the repository's files"
    with tarfile.open(sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "CHANGELOG.md", "LICENSE", "uv.lock", "engine/build_hook.py"} <= members
    bill: dict[str, Any] = json.loads(materials.read_text("utf-8"))
    names = {component["name"] for component in bill["components"]}
    assert {"aiohttp", "orjson", "uvloop", "redis"} <= names
    assert not {"pytest", "openai"} & names, "only what users install"
    locked = {(name, version) for name, version in licences.packages() if name in names}
    assert {name for name, _ in locked} == names - {"dragoman"}
    assert {(each["name"], each["version"]) for each in bill["components"]} - {("dragoman", version)} == locked


def test_bills_of_materials_are_compared_by_names_and_versions() -> None:
    marker = [{"name": "uv:package:marker", "value": "sys_platform == 'win32'"}]
    bill = [
        {"name": "typing-extensions", "version": "4.1"},
        {"name": "colorama", "version": "0.4", "properties": marker},
        {"name": "redis", "version": "7.1"},
    ]
    installed = [{"name": "typing_extensions", "version": "4.1"}, {"name": "dragoman", "version": "1.0.0"}]
    redis = {"name": "redis", "version": "7.1"}
    assert differences({"components": bill}, {"components": [*installed, redis]}) == []
    assert differences({"components": bill}, {"components": [*installed, {**redis, "version": "7.2"}]}) == [
        "redis 7.1: in the bill, not installed",
        "redis 7.2: installed, not in the bill",
    ]


@WHOLE
def test_two_folders_build_the_same_files(tmp_path: Path) -> None:
    """The wheel and the sdist of a revision do not depend on where it was built."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    sums = []
    for name in ("one", "another folder"):
        clone, out = tmp_path / name / "dragoman", tmp_path / f"{name}.dist"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        subprocess.run([sys.executable, clone / "tests/release/build.py", "--out", out], check=True, timeout=300)
        sums.append((out / "SHA256SUMS").read_text("utf-8").splitlines()[:2])
    assert sums[0] == sums[1]
    assert [line.rpartition(".")[2] for line in sums[0]] == ["whl", "gz"]


def test_every_package_has_a_hash() -> None:
    """And comes from the index: nothing is built from an address or a repository."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
    packages = [package for package in lock["package"] if package["name"] != "dragoman"]
    assert len(packages) > 100
    for package in packages:
        assert package["source"].keys() == {"registry"}, package["name"]
        files = [*package.get("wheels", ()), *filter(None, [package.get("sdist")])]
        assert files, package["name"]
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"]) for file in files), package["name"]


def test_every_package_of_an_installation_has_its_licence_listed() -> None:
    """As its own metadata states it, where it is an SPDX expression."""
    names = {name for name, _ in licences.packages()}
    assert licences.LICENCES.keys() == names
    assert {"aiohttp", "orjson", "redis", "asyncpg", "cryptography"} < names
    compared = 0
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            stated = metadata.metadata(name).json.get("license_expression")
            assert stated in (None, licences.LICENCES[name]), name
            compared += stated is not None
    assert compared > 15
