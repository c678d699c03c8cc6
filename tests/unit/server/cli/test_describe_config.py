"""The summary of a configuration names everything that is served, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman_server.cli.describe_config import describe, describe_key
from dragoman_server.config.load import load_config
from dragoman_server.config.schema import Config, Server

HASH = "sha256:ykwcg7ip:5e1b2a4c6d8f90112233445566778899:" + "9f" * 32
TOML = """
[providers.a]
dialect = "chat"
base_url = "https://api.example.com/v1"
api_keys = ["sk-canary-1", "sk-canary-2"]

[providers.b]
dialect = "messages"
base_url = "https://b.example.com"
api_key = "sk-canary-3"

[[routes]]
model = "small-*"
provider = "b"
upstream_model = "tiny"
client = "responses"

[[routes]]
model = "big-*"
providers = [{ provider = "a", weight = 2 }, { provider = "b", priority = 2, upstream_model = "huge" }]

[models]
big = "big-1"

[keys.team]
hash = "HASH"
models = ["big-*"]
requests_per_minute = 60
admin = true
"""


def test_what_is_served_is_named_and_no_secret_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(TOML.replace("HASH", HASH))
    config = load_config(path)
    describe(config)
    shown = capsys.readouterr()
    text = shown.out + shown.err
    assert "canary" not in text
    for part in (
        "provider a: chat at https://api.example.com/v1, with 2 keys",
        "small-* → b as tiny (for responses clients)",
    ):
        assert part in text, text
    assert "model big-* → 1. a weight 2, 2. b as huge" in text, text
    assert "big models → big-1" in text
    (record,) = config.keys.values()
    assert f"key {describe_key(record)}" in text
    assert describe_key(record).startswith("team (")
    assert "models big-*; requests per minute 60; admin" in describe_key(record)


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ('[usage]\nkind = "jsonl"\npath = "-"', "  usage is written to standard output (jsonl)\n"),
        ('[usage]\nkind = "sqlite"\npath = "u.db"', "  usage is written to {folder}/u.db (sqlite)\n"),
        ("", "  responses are stored in memory, a conversation for 1 h\n"),
        ('[state]\nkind = "memory"\nttl_days = 1', "  responses are stored in memory, a conversation for 24 h\n"),
        (
            '[state]\nkind = "sqlite"\npath = "r.db"\nttl_days = 7',
            "  responses are stored in {folder}/r.db (sqlite), a conversation for 7 days\n",
        ),
        (
            '[state]\nkind = "redis"\nurl = "redis://:canary@cache:6379/0"',
            "  responses are stored in redis://***@cache:6379/0 (redis), a conversation for 30 days\n",
        ),
    ],
)
def test_what_is_kept_is_named(table: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(f"{TOML.replace('HASH', HASH)}\n{table}\n")
    describe(load_config(path))
    shown = capsys.readouterr()
    assert line.format(folder=tmp_path) in shown.out + shown.err
    assert "canary" not in shown.out + shown.err


def test_several_workers_store_nothing_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    describe(Config(server=Server(workers=2)))
    shown = capsys.readouterr()
    assert (
        'responses are not stored: several workers need state.kind = "sqlite", "redis" or "postgresql"'
        in shown.out + shown.err
    )
