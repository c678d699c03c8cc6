"""`dragoman check` fails for every file with which `dragoman serve` cannot start, and creates nothing."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import combinations
from pathlib import Path

import pytest

from dragoman_server.cli.check_start import start_problems, start_remarks
from dragoman_server.cli.main import main
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import load_config
from dragoman_server.workers.serve import run_loop, running

PROVIDER = (
    '[models]\ndiscover = false\n[providers.up]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
    '[[routes]]\nmodel = "*"\nprovider = "up"\n'
)
STORES = {
    "store": '[store]\nkind = "sqlite"\npath = "PATH"\n',
    "usage in SQLite": '[usage]\nkind = "sqlite"\npath = "PATH"\n',
    "usage in lines": '[usage]\nkind = "jsonl"\npath = "PATH"\n',
    "state": '[state]\nkind = "sqlite"\npath = "PATH"\n',
    "captures": '[capture]\ndirectory = "PATH"\n',
}
SQLITE, FILES = ("store", "usage in SQLite", "state"), ("store", "usage in SQLite", "usage in lines", "state")


def write_database(path: Path, version: int = 0) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE another (x)")
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()


def make_file_for_directory(path: Path) -> None:
    path.parent.rmdir()
    path.parent.touch()


def make_unwritable(path: Path) -> None:
    path.touch()
    path.chmod(0o400)


FAULTS: dict[str, tuple[tuple[str, ...], Callable[[Path], object]]] = {
    "no directory": (FILES, lambda path: path.parent.rmdir()),
    "a file for a directory": (tuple(STORES), make_file_for_directory),
    "a directory for a file": (FILES, Path.mkdir),
    "a file": (("captures",), Path.touch),
    "a link to nowhere": (tuple(STORES), lambda path: path.symlink_to("nowhere/at/all")),
    "no database": (SQLITE, lambda path: path.write_text("# a text, and no database at all\n" * 9)),
    "a later schema": (SQLITE, lambda path: write_database(path, 99)),
    "an unwritable file": (FILES, make_unwritable),
    "an unwritable directory": (tuple(STORES), lambda path: path.parent.chmod(0o500)),
}
"""Faults of a path that does not exist in an existing directory, and the stores that they concern."""
CASES = [(store, fault) for fault, (stores, _) in FAULTS.items() for store in stores]


def written(folder: Path, tables: str) -> Path:
    path = folder / "dragoman.toml"
    path.write_text(f"[server]\nport = 0\n{tables}{PROVIDER}")
    return path


def tree(folder: Path) -> dict[str, int]:
    """The files below a folder, with the time of their last change."""
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")}


async def serve(path: Path) -> None:
    """Start a gateway as `dragoman serve` does, and stop it."""
    async with running(load_config(path), drain=0.0):
        pass


@pytest.mark.few
@pytest.mark.parametrize(("store", "fault"), CASES)
def test_whatever_serve_does_not_start_with_check_finds(
    store: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sub").mkdir()
    FAULTS[fault][1](tmp_path / "sub/x")
    if "unwritable" in fault and all(
        os.access(tmp_path / name, os.W_OK) for name in ("sub", "sub/x")[: 1 + ("file" in fault)]
    ):
        pytest.skip("root may write everywhere")
    path = written(tmp_path, STORES[store].replace("PATH", "sub/x"))
    before = tree(tmp_path)
    assert main(["check", str(path)]) == 2
    stated = capsys.readouterr().err
    assert str(tmp_path / "sub") in stated
    assert tree(tmp_path) == before
    assert main(["check", "--json", str(path)]) == 2
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["path"] in ("store.path", "usage.path", "state.path", "capture.directory")
    with pytest.raises((ConfigError, OSError)):
        run_loop(serve(path))
    if "unwritable directory" in fault:
        (tmp_path / "sub").chmod(0o700)


@pytest.mark.parametrize(("one", "other"), list(combinations(STORES, 2)))
def test_two_stores_need_two_files(one: str, other: str, tmp_path: Path) -> None:
    if one.startswith("usage") and other.startswith("usage"):
        pytest.skip("there is one of them")
    path = written(tmp_path, (STORES[one] + STORES[other]).replace("PATH", "x"))
    ((_, message),) = start_problems(load_config(path))
    assert message.startswith(f"{tmp_path}/x is that of ")


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_an_address_that_this_machine_does_not_have_is_a_problem(host: str, tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(f'[server]\nhost = "{host}"\nport = 0\nkeys = ["k"]\n{PROVIDER}')
    ((key, message),) = start_problems(load_config(path))
    assert key == "server.host"
    assert message.startswith("cannot listen on ")
    with pytest.raises(OSError, match="cannot listen on"):
        run_loop(serve(path))


def test_a_directory_of_another_user_is_a_problem(tmp_path: Path) -> None:
    """It is closed to others at the start, which only its owner may do."""
    (tmp_path / "c").mkdir(mode=0o755)
    config = load_config(written(tmp_path, STORES["captures"].replace("PATH", "c")))
    assert list(start_problems(config)) == []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: (tmp_path / "c").stat().st_uid + 1)
        ((key, message),) = start_problems(config)
    assert (key, "belongs to another user" in message) == ("capture.directory", True)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("place", ["sub/x", "~/x"])
def test_whatever_serve_starts_with_check_accepts(
    store: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the first start, when nothing exists, while it runs, and after it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("sub", "home"):
        (tmp_path / name).mkdir()
    path = written(tmp_path, STORES[store].replace("PATH", place))

    def check() -> None:
        before = tree(tmp_path)
        assert main(["check", str(path)]) == 0
        assert place.rpartition("/")[2] in capsys.readouterr().err
        assert tree(tmp_path) == before

    async def serve_and_check() -> None:
        async with running(load_config(path), drain=0.0):
            assert list(start_problems(load_config(path))) == []

    check()
    run_loop(serve_and_check())
    check()
    run_loop(serve(path))


def test_the_directory_of_the_default_file_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a/b"))
    config = load_config(written(tmp_path, '[state]\nkind = "sqlite"\n'))
    assert list(start_problems(config)) == []
    (tmp_path / "a").touch()
    assert list(start_problems(config)) == [("state.path", f"{tmp_path}/a is not a directory")]


@pytest.mark.parametrize("table", ["store", "state"])
def test_a_url_that_no_client_takes_is_a_problem(table: str, tmp_path: Path) -> None:
    path = written(tmp_path, f'[{table}]\nkind = "redis"\nurl = "redis://user:canary@h:6379/0?socket_timeout=soon"\n')
    ((key, message),) = start_problems(load_config(path))
    assert (key, "canary" in message) == (table, False)
    with pytest.raises(ConfigError) as raised:
        run_loop(serve(path))
    assert "canary" not in str(raised.value)
    path = written(tmp_path, f'[{table}]\nkind = "redis"\nurl = "redis://127.0.0.1:9/0"\n')
    assert list(start_problems(load_config(path))) == []


def test_an_address_that_is_taken_is_a_remark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = tmp_path / "dragoman.toml"
        port = taken.getsockname()[1]
        path.write_text(f"[server]\nport = {port}\n{PROVIDER}")
        assert main(["check", str(path)]) == 0
        remark = f"now dragoman serve cannot listen on 127.0.0.1:{port}: address already in use"
        assert remark in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["DRAGOMAN_HOST", "DRAGOMAN_PORT"])
def test_the_address_is_that_of_the_environment(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "")
    monkeypatch.setenv(variable, "0.0.0.0")
    status = main(["check", str(path)])
    stated = capsys.readouterr().err
    if variable == "DRAGOMAN_HOST":
        assert (status, "needs --insecure to listen on 0.0.0.0" in stated) == (0, True)
    else:
        assert (status, 'DRAGOMAN_PORT: expected a port; got "0.0.0.0"' in stated) == (2, True)


def test_an_address_for_others_without_a_key_is_a_remark(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(f'[server]\nhost = "0.0.0.0"\nport = 0\n{PROVIDER}')
    (remark,) = start_remarks(load_config(path))
    assert remark == "dragoman serve needs --insecure to listen on 0.0.0.0, as no key is required: set server.keys"
    path.write_text(f'[server]\nhost = "0.0.0.0"\nport = 0\nkeys = ["k"]\n{PROVIDER}')
    assert list(start_remarks(load_config(path))) == []


def test_models_without_a_price_are_remarks_for_keys_of_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    routes = '[[routes]]\nmodel = "a"\nprovider = "up"\n[[routes]]\nmodel = "b"\nprovider = "up"\n[prices.b]\n'
    path = written(tmp_path, STORES["store"].replace("PATH", "x"))
    path.write_text(path.read_text() + routes)
    before = tree(tmp_path)
    assert list(start_remarks(load_config(path))) == []
    assert tree(tmp_path) == before
    for name, limit in (("alice", "--daily-cost"), ("bob", "--daily-tokens")):
        assert main(["keys", "add", name, "-c", str(path), limit, "5"]) == 0
    sentence = "key alice has a budget of cost, and the model a of provider up has no price (403)"
    assert list(start_remarks(load_config(path))) == [sentence]
    capsys.readouterr()
    assert main(["check", str(path)]) == 0
    assert sentence in capsys.readouterr().err
    assert main(["check", "--json", str(path)]) == 0
    assert sentence in json.loads(capsys.readouterr().out)["remarks"]


def test_a_store_that_cannot_be_reached_is_a_remark(tmp_path: Path) -> None:
    path = written(tmp_path, '[store]\nkind = "redis"\nurl = "redis://127.0.0.1:1/0"\n')
    (sentence,) = start_remarks(load_config(path))
    assert sentence.startswith("the keys of the store cannot be read, so the prices that they need are not checked: ")
