"""Each module has one test file: the one of its name in the same place below tests/unit, or that of modules.toml."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

from dragoman import Dialect, dialects
from dragoman.dialects import all_codecs
from dragoman_server.cli import commands
from dragoman_server.cli.tool_calls import question
from dragoman_server.endpoints import paths
from dragoman_server.simulator import app, renderers
from dragoman_server.simulator.api import APIS
from support.paths import ROOT, TESTS

UNIT = TESTS / "unit"
TREES = {"engine": ROOT / "engine" / "dragoman", "server": ROOT / "server" / "dragoman_server"}
TABLE: dict[str, dict[str, str]] = tomllib.loads((UNIT / "modules.toml").read_text("utf-8"))
MOST_ENTRIES = 80
SOURCES = {"dragoman": TREES["engine"], "dragoman_server": TREES["server"]} | {
    path.name: path for path in TESTS.iterdir() if path.is_dir()
}
"""The folders from which tests import."""
LAZY = {
    Path(dialects.__file__): {f"dragoman.dialects.{dialect}.facts" for dialect in Dialect},
    Path(all_codecs.__file__): {f"dragoman.dialects.{dialect}.codec" for dialect in Dialect},
    Path(app.__file__): {f"dragoman_server.simulator.vendors.{api.vendor}" for api in APIS.values()},
    Path(renderers.__file__): {f"dragoman_server.simulator.render_{dialect}" for dialect in Dialect},
    Path(question.__file__): {f"dragoman_server.cli.tool_calls.{dialect}" for dialect in Dialect},
    Path(commands.__file__): {f"dragoman_server.cli.{module}" for _, module, _ in commands.COMMANDS},
    Path(paths.__file__): {
        f"dragoman_server.endpoints.{name.partition(':')[0]}" for _, _, name in (*paths.TABLE, paths.TREE)
    },
}
"""The modules that these import by a name in a table."""


def modules(tree: str) -> list[str]:
    """The modules of a tree by their paths, without `__init__` and `__main__`."""
    files = (path.relative_to(TREES[tree]) for path in TREES[tree].rglob("*.py"))
    return sorted(str(path) for path in files if not path.stem.startswith("__"))


def own_file(tree: str, module: str) -> Path:
    """The test file of a module by its name."""
    path = Path(module)
    return UNIT / tree / path.parent / f"test_{path.name}"


MODULES = [(tree, module) for tree in TREES for module in modules(tree)]
ENTRIES = [(tree, module, file) for tree, entries in TABLE.items() for module, file in entries.items()]
OWN_FILES = {own_file(tree, module) for tree, module in MODULES}


def file_of(name: str) -> Path | None:
    """The file of a module by its dotted name, None if it is not one of this checkout."""
    top, *rest = name.split(".")
    if top not in SOURCES:
        return None
    path = SOURCES[top].joinpath(*rest)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def imported(path: Path) -> frozenset[Path]:
    """The files that a file imports, in functions too."""
    found: set[Path | None] = {file_of(name) for name in LAZY.get(path, ())}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {file_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {file_of(node.module), *(file_of(f"{node.module}.{alias.name}") for alias in node.names)}
    return frozenset(file for file in found if file is not None)


def reaches(test: Path, module: Path) -> bool:
    """True if a test file imports a module, or something that imports it."""
    seen, left = {test}, [test]
    while left:
        new = imported(left.pop()) - seen
        if module in new:
            return True
        seen |= new
        left += new
    return False


@pytest.mark.parametrize("tree", TREES)
def test_a_module_has_one_test_file(tree: str) -> None:
    own = {module for of, module in MODULES if of == tree and own_file(tree, module).is_file()}
    missing = [
        own_file(*each).relative_to(ROOT) for each in MODULES if each[0] == tree and each[1] not in {*own, *TABLE[tree]}
    ]
    assert missing == [], "write these files, or add entries to modules.toml"
    assert own & TABLE[tree].keys() == set(), "these entries in modules.toml are not needed"


@pytest.mark.parametrize(("tree", "module", "file"), ENTRIES, ids=[f"{tree}/{module}" for tree, module, _ in ENTRIES])
def test_an_entry_names_a_test_that_imports_the_module(tree: str, module: str, file: str) -> None:
    assert (TREES[tree] / module).is_file(), "there is no such module"
    test = TESTS / file
    assert test.is_file(), f"there is no tests/{file}"
    assert test.name.startswith("test_")
    assert reaches(test, TREES[tree] / module), f"tests/{file} does not import it"


def test_the_table_is_short() -> None:
    assert len(ENTRIES) <= MOST_ENTRIES


@pytest.mark.parametrize("tree", TREES)
def test_each_file_is_named_after_a_module(tree: str) -> None:
    """Further files of a module add a topic to its name: `test_reader_faults.py` tests `reader.py`."""
    for path in sorted((UNIT / tree).rglob("test_*.py")):
        words = path.stem.split("_")
        names = {path.with_name(f"{'_'.join(words[:count])}.py") for count in range(2, len(words) + 1)}
        assert names & OWN_FILES, f"{path.relative_to(ROOT)} is named after no module"


def test_a_test_that_does_not_import_a_module_is_found() -> None:
    test = UNIT / "engine/dialects/shared/test_effort.py"
    assert reaches(test, TREES["engine"] / "dialects/shared/effort.py")
    assert not reaches(test, TREES["server"] / "proxy/gateway.py")
