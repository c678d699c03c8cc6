"""`dragoman keys`: what it keeps, prints and rejects."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.accounts.store.interface import Spent
from dragoman_server.cli.main import main
from dragoman_server.cli.manage_keys import written_amount
from dragoman_server.config.load import load_config
from support.redis_server import redis_server

KEY = re.compile(r"sk-dragoman-[a-z2-7]{8}-[a-z2-7]{52}")
FILE = """
[store]
kind = "{kind}"
path = "{folder}/accounts.db"
{more}
[providers.up]
dialect = "chat"
base_url = "http://127.0.0.1:9/v1"
api_key = "${{NOT_SET_HERE}}"
[[routes]]
model = "*"
provider = "up"
"""


def written(folder: Path, kind: str = "sqlite", more: str = "") -> str:
    path = folder / "dragoman.toml"
    path.write_text(FILE.format(kind=kind, folder=folder, more=more))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    status = main(["keys", *words])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("option", ["--daily-cost", "--requests-per-minute"])
def test_a_limit_of_zero_is_refused(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be none, and the key unlimited."""
    with pytest.raises(SystemExit) as ended:
        main(["keys", "add", "alice", "-c", written(tmp_path), option, "0"])
    assert ended.value.code == 2
    assert f"argument {option}: 0 would be no limit: leave the option out for that" in capsys.readouterr().err


def test_a_key_is_added_listed_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path)
    options = ("--model", "gpt-*", "--model", "m", "--requests-per-minute", "60", "--daily-cost", "1.5")
    status, key, err = run(capsys, "add", "alice", "-c", path, *options, "--expires", "2037-01-01", "--admin")
    assert status == 0
    assert KEY.fullmatch(key.strip())
    assert key.strip() not in err
    assert err.startswith("added alice (")
    status, out, err = run(capsys, "list", "-c", path)
    assert (status, err) == (0, "")
    (line,) = out.splitlines()
    assert re.fullmatch(
        r"alice \([a-z2-7]{8}\): models gpt-\*, m; requests per minute 60; daily cost 1.5;"
        r" until 2037-01-01T00:00:00Z; admin \(sqlite\)",
        line,
    )
    status, out, _ = run(capsys, "list", "-c", path, "--json")
    (row,) = json.loads(out)["data"]
    assert row["limits"] == {"requests_per_minute": 60, "daily_cost": 1.5}
    assert (row["name"], row["models"], row["admin"], row["source"]) == ("alice", ["gpt-*", "m"], True, "sqlite")
    assert "hash" not in row
    status, out, err = run(capsys, "revoke", row["id"], "-c", path)
    assert (status, out) == (0, "")
    assert err.startswith("revoked alice")
    assert run(capsys, "list", "-c", path)[1:] == ("", "there are no named keys\n")
    assert run(capsys, "revoke", "alice", "-c", path)[0] == 1


@pytest.mark.parametrize(("text", "expected"), [("many", "a whole number; got 'many'"), ("1.5", "a whole number")])
def test_a_limit_that_is_no_number_is_explained(
    text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["keys", "add", "alice", "-c", written(tmp_path), "--daily-tokens", text])
    assert f"argument --daily-tokens: expected {expected}" in capsys.readouterr().err


def test_a_key_is_changed_and_stays_the_same_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path)
    run(capsys, "add", "alice", "-c", path, "--model", "a", "--daily-cost", "1.5", "--daily-tokens", "7", "--admin")

    def shown() -> dict[str, Any]:
        row: dict[str, Any] = json.loads(run(capsys, "list", "-c", path, "--json")[1])["data"][0]
        return row

    before = shown()
    words = ("--daily-cost", "20", "--daily-tokens", "0", "--model", "b", "--model", "c", "--expires", "2037-01-01")
    status, out, err = run(capsys, "change", "alice", "-c", path, *words, "--capture")
    assert (status, out) == (0, "")
    assert err.startswith(f"changed alice ({before['id']}): models b, c; daily cost 20; until 2037-01-01T00:00:00Z;")
    assert shown() == {
        **before,
        "models": ["b", "c"],
        "limits": {"daily_cost": 20.0},
        "expires": "2037-01-01T00:00:00Z",
        "capture": True,
    }
    run(capsys, "change", before["id"], "-c", path, "--expires", "never", "--no-admin")
    assert (shown()["expires"], shown()["admin"], shown()["capture"]) == (None, False, True)
    assert run(capsys, "change", "bob", "-c", path, "--admin") == (1, "", "dragoman: there is no key 'bob'\n")


def test_a_key_has_a_tag_until_that_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path)
    assert "; tag team-7" in run(capsys, "add", "alice", "-c", path, "--tag", "team-7")[2]
    assert json.loads(run(capsys, "list", "-c", path, "--json")[1])["data"][0]["tag"] == "team-7"
    run(capsys, "change", "alice", "-c", path, "--admin")
    assert "tag team-7" in run(capsys, "list", "-c", path)[1]
    run(capsys, "change", "alice", "-c", path, "--tag", "")
    assert json.loads(run(capsys, "list", "-c", path, "--json")[1])["data"][0]["tag"] is None


def test_the_file_of_the_keys_is_its_owners_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, key, _ = run(capsys, "add", "alice", "-c", written(tmp_path))
    files = list(tmp_path.glob("accounts.db*"))
    assert files
    for file in files:
        assert file.stat().st_mode & 0o777 == 0o600
        assert key.strip().encode() not in file.read_bytes()


def test_a_table_for_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--model", "gpt-*", "--tokens-per-minute", "1000", "--expires", "30d", "--tag", "b/7")
    status, table, err = run(capsys, "add", "bob@example.com", "--toml", *options)
    assert status == 0
    found = KEY.search(err)
    assert found is not None
    assert found[0] not in table
    path = tmp_path / "with_key.toml"
    path.write_text(table + '\n[providers.up]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n')
    (record,) = load_config(path).keys.values()
    assert record.hash.matches(found[0])
    assert (record.name, record.models, record.limits.tokens_per_minute) == ("bob@example.com", ("gpt-*",), 1000)
    assert record.expires is not None
    assert record.tag == "b/7"
    assert tomllib.loads(table)["keys"]["bob@example.com"]["models"] == ["gpt-*"]


@pytest.mark.few
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("add", "a b"), "a key's name has"),
        (("add", "bob", "--tag", "a b"), "NAME.tag: expected 1 to 64 letters"),
        (("add", "alice"), "is the name of a key already"),
        (("add", "configured"), "is in the configuration already"),
        (("add", "bob", "--expires", "soon"), "expected 2027-01-31"),
        (("add", "bob", "--expires", "2020-01-01"), "is in the past"),
        (("add", "bob", "--requests-per-minute", "-1"), "expected 0 (no limit)"),
        (("revoke", "configured"), "remove [keys.configured]"),
        (("change", "configured", "--admin"), "change [keys.configured]"),
        (("change", "alice"), "nothing to change: give a limit, --model"),
        (("change", "alice", "--requests-per-minute", "-1"), "expected 0 (no limit)"),
        (("change", "alice", "--expires", "soon"), "expected 2027-01-31"),
        (("change", "alice", "--expires", "2020-01-01"), "is in the past"),
    ],
)
def test_wrong_usage_is_explained(
    words: tuple[str, ...], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, table, _ = run(capsys, "add", "configured", "--toml", "-c", written(tmp_path))
    path = written(tmp_path, more=table)
    run(capsys, "add", "alice", "-c", path)
    status, out, err = run(capsys, *words, "-c", path)
    assert (status, out) == (2, "")
    assert expected in err


def test_a_store_in_memory_holds_no_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "memory")
    status, _, err = run(capsys, "add", "alice", "-c", path)
    assert status == 2
    assert "--toml" in err
    assert run(capsys, "list", "-c", path)[2] == "there are no named keys\n"


def test_without_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = run(capsys, "list")
    assert status == 2
    assert "there is no ./dragoman.toml" in err


def test_keys_are_kept_in_redis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with redis_server() as server:
        path = written(tmp_path, "redis", f'url = "{server.url}"')
        assert run(capsys, "add", "alice", "-c", path)[0] == 0
        assert run(capsys, "list", "-c", path)[1].startswith("alice (")
        server.kill()
        status, _, err = run(capsys, "list", "-c", path)
        assert status == 2
        assert "store: Redis" in err


@pytest.mark.parametrize("words", [("revoke", "alise"), ("change", "alise", "--daily-tokens", "5")])
def test_a_key_that_does_not_exist_has_a_close_one(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path)
    run(capsys, "add", "alice", "-c", path)
    assert run(capsys, *words, "-c", path) == (1, "", "dragoman: there is no key 'alise' (did you mean \"alice\"?)\n")


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [("daily_cost", 48_000, "0.000048"), ("daily_cost", 5 * 10**9, "5"), ("daily_tokens", 2100, "2100")],
)
def test_what_a_key_has_used_is_written_without_an_exponent(name: str, amount: int, text: str) -> None:
    assert written_amount(Spent(name, "2026-11-26", amount)) == text
