"""Every path of a configuration's file is relative to that file, wherever a command is run."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dragoman_server.config.accounts_tables import load_accounts, load_usage
from dragoman_server.config.capture_options import CaptureOptions, load_capture_options
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.json_schema import json_schema
from dragoman_server.config.lint import remarks
from dragoman_server.config.load import load_config, parse_config
from dragoman_server.config.schema import Config
from dragoman_server.config.stored_files import files_left_behind, stored_files

PROVIDER = (
    '[providers.up]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n[[routes]]\nmodel = "*"\nprovider = "up"\n'
)
TABLES = {
    "store.path": '[store]\nkind = "sqlite"\npath = "PATH"\n',
    "usage.path": '[usage]\nkind = "sqlite"\npath = "PATH"\n',
    "state.path": '[state]\nkind = "sqlite"\npath = "PATH"\n',
    "capture.directory": '[capture]\ndirectory = "PATH"\n',
}
"""Every key for a file or a directory that is written, with a table in which it has an effect."""
READ = ["prices.file"]
"""Those for files that are read (`test_price_tables`)."""


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The directory of the configuration, and the working directory; the user's home is another one."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("there", "here", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "there", tmp_path / "here"


def written(folder: Path, tables: str) -> Path:
    path = folder / "dragoman.toml"
    path.write_text(tables + PROVIDER)
    return path


def paths(schema: dict[str, object], at: str = "") -> list[str]:
    """The keys of a schema that are named as paths."""
    found = []
    properties = schema.get("properties", {})
    assert isinstance(properties, dict)
    for key, node in properties.items():
        if key in ("path", "directory", "file"):
            found.append(f"{at}{key}")
        found += paths(node, f"{at}{key}.")
    return found


def test_the_table_has_every_key_of_a_path() -> None:
    assert sorted(paths(json_schema())) == sorted([*TABLES, *READ])


@pytest.mark.parametrize("key", TABLES)
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("x.db", "{there}/x.db"),
        ("./x.db", "{there}/x.db"),
        ("sub/x.db", "{there}/sub/x.db"),
        ("../x.db", "{there}/../x.db"),
        ("${NAME:-y}.db", "{there}/y.db"),
        ("~/x.db", "{home}/x.db"),
        ("/var/x.db", "/var/x.db"),
    ],
)
@pytest.mark.parametrize("absolute", [True, False], ids=["absolute", "relative"])
def test_a_path_is_relative_to_the_file(
    folders: tuple[Path, Path], key: str, path: str, expected: str, absolute: bool
) -> None:
    there, _ = folders
    file = written(there, TABLES[key].replace("PATH", path))
    config = load_config(file if absolute else "../there/dragoman.toml")
    full = expected.format(there=there, home=there.parent / "home")
    assert [(found.key, found.path) for found in stored_files(config)] == [(key, full)]


def test_defaults_are_relative_to_the_file_too(folders: tuple[Path, Path]) -> None:
    there, _ = folders
    tables = '[store]\nkind = "sqlite"\n[usage]\nkind = "{}"\n[state]\nkind = "sqlite"\n'
    state = there.parent / "home/.local/state/dragoman/responses.db"
    for kind, name in (("jsonl", "usage.jsonl"), ("sqlite", "usage.db")):
        file = written(there, tables.format(kind))
        found = {each.key: each.path for each in stored_files(load_config(file))}
        expected = {"store.path": there / "dragoman.db", "usage.path": there / name, "state.path": state}
        assert found == {key: str(path) for key, path in expected.items()}
        assert load_accounts(file)[0].path == found["store.path"]
        assert load_usage(file).file == found["usage.path"]
    assert load_capture_options(written(there, '[capture]\ndirectory = "c"\n')).directory == f"{there}/c"


def test_what_is_no_file_stays_as_it_is(folders: tuple[Path, Path]) -> None:
    there, _ = folders
    config = load_config(
        written(there, '[usage]\nkind = "jsonl"\npath = "-"\n[state]\nkind = "sqlite"\npath = ":memory:"\n')
    )
    assert (config.usage.file, config.state.file, stored_files(config)) == ("-", ":memory:", [])


def test_secrets_and_sockets_are_relative_to_the_file(folders: tuple[Path, Path]) -> None:
    there, _ = folders
    (there / "key").write_text("sk-1\n")
    (there / "url").write_text("unix://run/redis.sock?db=1\n")
    text = '[server]\nkeys = ["file:key", "file:./key2"]\n'
    text += '[store]\nkind = "redis"\nurl = "file:url"\n[state]\nkind = "redis"\n'
    (there / "key2").write_text("sk-2\n")
    config = load_config(written(there, f'{text}url = "unix://~/r.sock"\n'))
    assert [key.reveal() for key in config.server.keys] == ["sk-1", "sk-2"]
    assert config.store.url == f"unix://{there}/run/redis.sock?db=1"
    assert config.state.url == f"unix://{there.parent}/home/r.sock"
    for url in ("unix:///run/redis.sock", "unix://user:pw@/run/redis.sock", "redis://h:6379/0"):
        assert load_config(written(there, f'[store]\nkind = "redis"\nurl = "{url}"\n')).store.url == url
    (there / "key2").unlink()
    with pytest.raises(ConfigError, match=f"No such file or directory \\({there}/key2\\)"):
        load_config(written(there, text))


def test_without_a_file_paths_are_relative_to_the_working_directory(folders: tuple[Path, Path]) -> None:
    config = parse_config({"usage": {"kind": "jsonl", "path": "~/u"}, "capture": {"directory": "c"}}, {})
    assert config.usage.file == f"{folders[0].parent}/home/u"
    assert config.capture.directory == "c"
    assert Config(capture=CaptureOptions("c")).capture.directory == "c"


def test_a_pipe_has_no_directory(folders: tuple[Path, Path]) -> None:
    """`dragoman serve <(envsubst < dragoman.toml)`."""

    there, here = folders
    os.mkfifo(there / "pipe")
    text = TABLES["usage.path"].replace("PATH", "u.db") + PROVIDER
    writer = threading.Thread(target=(there / "pipe").write_text, args=(text,))
    writer.start()
    assert load_config(there / "pipe").usage.file == f"{here}/u.db"
    writer.join()


@pytest.mark.parametrize("key", TABLES)
def test_a_file_that_is_only_in_the_working_directory_is_remarked_on(folders: tuple[Path, Path], key: str) -> None:
    there, here = folders
    config = load_config(written(there, TABLES[key].replace("PATH", "sub/x")))
    assert list(files_left_behind(config)) == []
    (here / "sub").mkdir()
    (here / "sub/x").touch()
    (remark,) = files_left_behind(config)
    assert remark.startswith(f"{key} is {there}/sub/x, which does not exist, but {here}/sub/x does: ")
    assert remark in remarks(config)
    (there / "sub").mkdir()
    (there / "sub/x").touch()
    assert list(files_left_behind(config)) == []
    assert list(files_left_behind(load_config(written(here, TABLES[key].replace("PATH", "y"))))) == []
