"""The files of a release: what is in them, and that the same revision has the same ones."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.observability.installed_version import revision_of
from support.paths import ROOT

pytestmark = pytest.mark.whole
build: Callable[..., list[Path]] = runpy.run_path(str(ROOT / "tests/release/build.py"))["build"]


def test_a_release_can_be_built_again_and_checked(tmp_path: Path) -> None:
    first, second = (build(tmp_path / name, allow_dirty=True) for name in ("first", "second"))
    wheel, sdist, materials, sums = first
    assert [path.read_bytes() for path in first[:2]] == [path.read_bytes() for path in second[:2]]
    listed = [line.split("  ") for line in sums.read_text("utf-8").splitlines()]
    assert listed == [[hashlib.sha256(path.read_bytes()).hexdigest(), path.name] for path in (wheel, sdist, materials)]
    with zipfile.ZipFile(wheel) as files:
        packages = {name.split("/")[0] for name in files.namelist()}
        revision = files.read("dragoman_server/observability/revision.txt").decode()
        metadata = next(name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        description = files.read(metadata).decode().partition("\n\n")[2]
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
