"""The build hook of the compiled wheel, without compiling."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT

HOOK = runpy.run_path(str(ROOT / "engine" / "compile_wheel.py"))
ENGINE = ROOT / "engine" / "dragoman"


def initialized(version: str) -> dict[str, Any]:
    """The build data after the hook, in a folder without sources, where compiling would fail."""
    data: dict[str, Any] = {"force_include": {}}
    HOOK["CompiledWheel"]("/nonexistent", {}, None, None, "", "wheel").initialize(version, data)
    return data


@pytest.mark.parametrize(("compiled", "version"), [("", "standard"), ("1", "editable")])
def test_nothing_is_compiled_without_the_variable_or_in_editable_installs(
    compiled: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_COMPILED", compiled)
    assert initialized(version) == {"force_include": {}}


def test_only_the_compiled_build_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = HOOK["CompiledWheel"]("/nonexistent", {}, None, None, "", "wheel")
    monkeypatch.delenv("DRAGOMAN_COMPILED", raising=False)
    assert hook.dependencies() == []
    monkeypatch.setenv("DRAGOMAN_COMPILED", "1")
    assert any(name.startswith("mypy") for name in hook.dependencies())


def test_each_entry_names_modules() -> None:
    paths = [path.relative_to(ENGINE).as_posix() for path in ENGINE.rglob("*.py")]
    assert [entry for entry in HOOK["COMPILED"] if not any(path.startswith(entry) for path in paths)] == []


def test_a_runtime_that_is_not_known_is_not_changed(tmp_path: Path) -> None:
    source = tmp_path / "bytes_ops.c"
    source.write_text("Py_ssize_t slice_len = endn - startn;")
    HOOK["_fix_slices"](source)
    assert "endn > startn" in source.read_text()
    with pytest.raises(RuntimeError, match=r"delete this function"):
        HOOK["_fix_slices"](source)
