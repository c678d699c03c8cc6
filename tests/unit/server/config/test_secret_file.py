"""Secrets in files: what is read, what is rejected, and that no message has any of a file's content."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.secret_file import SIZE_MAX, SecretFileError, read_secret

CANARY = "sk-canary-55d1"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"sk-1", "sk-1"),
        (b"sk-1\n", "sk-1"),
        (b"sk-1\r\n", "sk-1"),
        (b"\xef\xbb\xbfsk-1\n", "sk-1"),
        (b"one\ntwo\n", "one\ntwo"),
        (b"s" * SIZE_MAX, "s" * SIZE_MAX),
    ],
    ids=["bare", "line", "windows", "byte order mark", "only the last line break", "largest"],
)
def test_the_text_is_that_of_the_file_without_its_last_line_break(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    assert read_secret(str(path)) == expected


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (CANARY.encode() + b"\xff", "is not UTF-8 text"),
        (CANARY.encode() * SIZE_MAX, f"more than {SIZE_MAX} bytes"),
    ],
    ids=["empty", "line break", "binary", "large"],
)
def test_other_content_is_rejected_without_being_shown(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(SecretFileError, match=why) as raised:
        read_secret(str(path))
    assert CANARY not in str(raised.value)


def test_other_paths_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(SecretFileError, match="an absolute path"):
        read_secret("key")
    with pytest.raises(SecretFileError, match="No such file"):
        read_secret(str(tmp_path / "nowhere"))
    with pytest.raises(SecretFileError, match="a regular file"):
        read_secret(str(tmp_path))
    with pytest.raises(SecretFileError, match="null character"):
        read_secret("/a\0b")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SecretFileError, match="a regular file"):
        read_secret(str(tmp_path / "pipe"))


# --- in the configuration --------------------------------------------------------------------------------------------

CONFIG = """
[server]
keys = ["file:{folder}/client", "other"]
[store]
kind = "redis"
url = "file:{folder}/redis"
[providers.up]
dialect = "chat"
base_url = "http://127.0.0.1:9000/v1"
api_key = "file:${{FOLDER}}/upstream"
headers = {{ "x-team-key" = "file:{folder}/team" }}
"""


def test_keys_headers_and_the_stores_address_may_be_in_files(tmp_path: Path) -> None:
    for name in ("client", "upstream", "team"):
        (tmp_path / name).write_text(f"{name}-secret\n")
    (tmp_path / "redis").write_text("redis://:pass@redis:6379/0\n")
    data = tomllib.loads(CONFIG.format(folder=tmp_path))
    config = parse_config(data, {"FOLDER": str(tmp_path)})
    assert [key.reveal() for key in config.server.keys] == ["client-secret", "other"]
    assert config.store.url == "redis://:pass@redis:6379/0"
    provider = config.providers["up"]
    assert provider.api_key is not None
    assert provider.api_key.reveal() == "upstream-secret"
    assert provider.headers == {"x-team-key": "team-secret"}
    assert "secret" not in repr(config)
    # They are read again each time.
    (tmp_path / "upstream").write_text("another\n")
    again = parse_config(data, {"FOLDER": str(tmp_path)}).providers["up"].api_key
    assert again is not None
    assert again.reveal() == "another"


def test_each_file_that_cannot_be_read_is_a_problem_of_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(tomllib.loads(CONFIG.format(folder=tmp_path)), {})
    assert dict(raised.value.problems) == {
        "server.keys[0]": "the file cannot be read: No such file or directory",
        "store.url": "the file cannot be read: No such file or directory",
        "providers.up.api_key": "the environment variable FOLDER is not set",
        "providers.up.headers.x-team-key": "the file cannot be read: No such file or directory",
    }


def test_other_keys_are_not_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("secret-model")
    text = '[providers.up]\ndialect = "chat"\nbase_url = "http://h/v1"\n[[routes]]\nmodel = "m"\nprovider = "up"\n'
    config = parse_config(tomllib.loads(f'{text}upstream_model = "file:{tmp_path}/model"'), {})
    assert config.routes[0].upstream_model == f"file:{tmp_path}/model"
