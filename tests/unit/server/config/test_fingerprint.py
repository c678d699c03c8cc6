"""The hash of a configuration."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman import Dialect
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.config.fingerprint import LENGTH, _plain, fingerprint
from dragoman_server.config.load import load_config
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Server
from support.commands import environment
from support.named_keys import made

URL = "http://127.0.0.1:9/v1"
FILE = """
[server]
keys = ["{key}"]
[store]
kind = "sqlite"
[usage]
kind = "jsonl"
[capture]
directory = "captures"
[providers.up]
dialect = "chat"
base_url = "https://example.com/v1?key={key}"
api_key = "{key}"
headers = {{ x-team = "{key}" }}
[[routes]]
model = "{model}"
provider = "up"
"""


def config(**changes: object) -> Config:
    provider = Provider("up", Dialect.CHAT, URL, Secret("secret"))
    return replace(Config({"up": provider}, [Route("*", "up")]), **changes)  # type: ignore[arg-type]


def test_what_requests_depend_on_changes_it() -> None:
    base = fingerprint(config())
    assert len(base) == LENGTH
    assert fingerprint(config()) == base
    assert fingerprint(config(routes=[Route("m", "up")])) != base
    assert fingerprint(config(providers={"up": Provider("up", Dialect.CHAT, f"{URL}/x", Secret("secret"))})) != base
    assert fingerprint(config(server=Server(receipts=7))) != base
    assert fingerprint(config(store=StoreOptions(timeout=1.0))) != base
    _, alice = made("alice")
    with_key = fingerprint(config(keys={"alice": alice}))
    assert with_key != base
    assert fingerprint(config(keys={"alice": replace(alice, admin=True)})) != with_key


@pytest.mark.parametrize("name", ["host", "port", "name", "workers"])
def test_what_belongs_to_one_host_does_not(name: str) -> None:
    value = 9 if name in ("port", "workers") else "gw-9"
    assert fingerprint(config(server=Server(**{name: value}))) == fingerprint(config())  # type: ignore[arg-type]


def test_secrets_do_not(tmp_path: Path) -> None:
    hashes, texts = [], []
    path = tmp_path / "dragoman.toml"
    for folder, key in (("one", "first-secret-key"), ("two", "second-secret-key")):
        path = tmp_path / folder / "dragoman.toml"
        path.parent.mkdir()
        path.write_text(FILE.format(key=key, model="*"))
        loaded = load_config(str(path))
        hashes.append(fingerprint(loaded))
        texts.append(str(_plain(loaded, "")))
    assert hashes[0] == hashes[1], "nor does the directory"
    assert "secret-key" not in "".join(texts)
    shown = _plain("redis://:secret-key@host:6379/0?password=secret-key&db=1", "")
    assert shown == "redis://host:6379/0?password&db"
    path.write_text(FILE.format(key="x" * 20, model="m"))
    assert fingerprint(load_config(str(path))) != hashes[0]


def test_it_is_the_same_in_each_process(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(FILE.format(key="first-secret-key", model="*"))
    program = (
        "import sys; from dragoman_server.config.fingerprint import fingerprint;"
        "from dragoman_server.config.load import load_config; print(fingerprint(load_config(sys.argv[1])))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env=environment(PYTHONHASHSEED=seed),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
