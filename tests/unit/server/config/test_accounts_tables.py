"""The tables `[store]` and `[keys.NAME]`: what they mean, and what is wrong with them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.config.accounts_tables import load_accounts, load_usage
from dragoman_server.config.capture_options import load_capture_options
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.lint import remarks, warn_if_exposed
from dragoman_server.config.load import parse_config
from dragoman_server.config.schema import Config

HASH = str(KeyHash.of(new_key()))
PROVIDER = (
    '[providers.up]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n[[routes]]\nmodel = "*"\nprovider = "up"\n'
)


def parsed(text: str, **env: str) -> Config:
    return parse_config(tomllib.loads(text + "\n" + PROVIDER), env)


def problems(text: str, **env: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        parsed(text, **env)
    return caught.value.problems


def test_a_key_with_all_settings() -> None:
    config = parsed(
        f"""
        [keys."alice@example.com"]
        hash = "${{ALICE}}"
        models = ["claude-*", "gpt-5"]
        requests_per_minute = 60
        tokens_per_minute = 200_000
        concurrent_requests = 8
        daily_tokens = 5_000_000
        monthly_tokens = 100_000_000
        daily_cost = 10
        monthly_cost = 99.5
        expires = 2027-01-01
        admin = true
        [keys.bob]
        hash = "{KeyHash.of(new_key())}"
        expires = 2027-01-01T12:00:00+02:00
    """,
        ALICE=HASH,
    )
    alice, bob = config.keys["alice@example.com"], config.keys["bob"]
    assert alice.models == ("claude-*", "gpt-5")
    assert alice.limits == KeyLimits(60, 200_000, 8, 5_000_000, 100_000_000, 10, 99.5)
    assert alice.expires == datetime(2027, 1, 1, tzinfo=UTC).timestamp()
    assert alice.admin
    assert str(alice.hash) == HASH
    assert bob.expires == datetime(2027, 1, 1, 10, tzinfo=UTC).timestamp()
    assert not bob.limits
    assert config.named_keys
    assert config.requires_key


def test_a_store_with_all_settings() -> None:
    config = parsed(
        """
        [store]
        kind = "redis"
        url = "rediss://:${PASSWORD}@redis.example.com:6380/1"
        prefix = "team"
        timeout = 1
        on_failure = "closed"
        keys = false
        refresh = 0.5
    """,
        PASSWORD="canary-password",
    )
    assert config.store == StoreOptions(
        "redis",
        url="rediss://:canary-password@redis.example.com:6380/1",
        prefix="team",
        timeout=1.0,
        on_failure="closed",
        keys=False,
        refresh=0.5,
    )
    assert "canary" not in repr(config)
    assert not config.requires_key


@pytest.mark.parametrize(("kind", "required"), [("memory", False), ("sqlite", True), ("redis", True)])
def test_a_store_that_may_hold_keys_requires_one(kind: str, required: bool) -> None:
    url = 'url = "redis://127.0.0.1"' if kind == "redis" else ""
    assert parsed(f'[store]\nkind = "{kind}"\n{url}').requires_key is required


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("[keys.a]\n", "keys.a.hash", "is required"),
        ('[keys.a]\nhash = "clear-text-key-1"', "keys.a.hash", "expected sha256:ID:SALT:DIGEST"),
        (f'[keys.a]\nhash = "{HASH}"\nrequests = 5', "keys.a.requests", "unknown key"),
        (f'[keys.a]\nhash = "{HASH}"\nrequests_per_minute = -5', "keys.a.requests_per_minute", "expected 0"),
        (f'[keys.a]\nhash = "{HASH}"\nrequests_per_minute = "5"', "keys.a.requests_per_minute", "expected an integer"),
        (f'[keys.a]\nhash = "{HASH}"\nmonthly_cost = 1e9', "keys.a.monthly_cost", "to 1000000"),
        (f'[keys.a]\nhash = "{HASH}"\nmonthly_cost = 1e308', "keys.a.monthly_cost", "to 1000000"),
        (f'[keys.a]\nhash = "{HASH}"\nmodels = []', "keys.a.models", "is empty"),
        (f'[keys.a]\nhash = "{HASH}"\nexpires = "2027"', "keys.a.expires", "expected a date or a time"),
        (f'[keys."a b"]\nhash = "{HASH}"', 'keys."a b"', "a key's name has"),
        (f'[keys.a]\nhash = "{HASH}"\n[keys.b]\nhash = "{HASH}"', "keys.b.hash", "is that of keys.a"),
        (
            f'[server]\nworkers = 2\n[keys.a]\nhash = "{HASH}"\ndaily_tokens = 1',
            "store.kind",
            "each worker counts for itself",
        ),
        ('[store]\nkind = "postgres"', "store.kind", "memory, sqlite, redis"),
        (
            f'[store]\nkind = "postgresql"\nurl = "postgresql://h/d"\n[keys.a]\nhash = "{HASH}"\ndaily_tokens = 1',
            "store.limits_url",
            "is required for limits, which PostgreSQL does not keep: redis://host:6379/0",
        ),
        ('[store]\nkind = "redis"', "store.url", "is required"),
        ('[store]\nkind = "redis"\nurl = "http://canary"', "store.url", "expected redis://"),
        ('[store]\nkind = "redis"\nurl = "redis://h:canary"', "store.url", "expected redis://"),
        ('[store]\nurl = "redis://canary"', "store.url", "has no effect"),
        ('[store]\nkind = "sqlite"\npath = ""', "store.path", "is empty"),
        ("[store]\ntimeout = 0", "store.timeout", "expected seconds above 0"),
        ('[store]\ntimeout = "1"', "store.timeout", "expected a number"),
        ("[store]\nrefresh = 1e9", "store.refresh", "up to 3600"),
        ('[store]\nprefix = "a{b}"', "store.prefix", "without braces"),
        ('[store]\non_failure = "ignore"', "store.on_failure", "open, closed"),
        ('[store]\nfile = "x"', "store.file", "unknown key"),
    ],
)
def test_a_wrong_setting_is_explained(text: str, path: str, message: str) -> None:
    found = problems(text)
    assert path in dict(found), found
    assert message in dict(found)[path]
    assert "clear-text" not in str(found)
    assert "canary" not in str(found)


def test_logins_may_pass_through_a_gateway_with_named_keys() -> None:
    config = parse_config(
        {
            "keys": {"a": {"hash": HASH}},
            "providers": {"up": {"dialect": "chat", "base_url": "http://127.0.0.1:9/v1", "auth": "passthrough"}},
        },
        {},
    )
    assert config.requires_key


def test_a_budget_in_memory_is_remarked_on() -> None:
    text = f'[keys.a]\nhash = "{HASH}"\nmonthly_tokens = 5\n'
    (remark,) = remarks(parsed(text))
    assert "the budget of key a begins again at each restart" in remark
    assert list(remarks(parsed(text + '[store]\nkind = "sqlite"'))) == []
    assert list(remarks(parsed(f'[keys.a]\nhash = "{HASH}"\nrequests_per_minute = 5'))) == []


def test_a_named_key_protects_an_open_address() -> None:
    open_to_all = '[server]\nhost = "0.0.0.0"\n'
    provider = PROVIDER.replace("[[routes]]", 'api_key = "sk-123456789"\n[[routes]]')
    without = parse_config(tomllib.loads(open_to_all + provider), {})
    with_key = parse_config(tomllib.loads(open_to_all + f'[keys.a]\nhash = "{HASH}"\n' + provider), {})
    assert len(list(warn_if_exposed(without))) == 1
    assert list(warn_if_exposed(with_key)) == []


def test_the_accounts_are_read_without_the_rest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(f'[store]\nkind = "sqlite"\n[keys.a]\nhash = "{HASH}"\n[providers.up]\napi_key = "${{NOT_SET}}"\n')
    options, keys = load_accounts(path)
    assert options.kind == "sqlite"
    assert list(keys) == ["a"]
    path.write_text('[store]\nkind = "sqlit"\n')
    with pytest.raises(ConfigError, match=r"store\.kind"):
        load_accounts(path)
    path.write_text("[store\n")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_accounts(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_accounts(tmp_path / "missing.toml")


@pytest.mark.parametrize("load", [load_usage, load_accounts, load_capture_options])
def test_an_error_of_one_table_knows_its_file(tmp_path: Path, load: Callable[[Path], object]) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[usage]\nfiles = true\n[store]\nprefix = true\n[capture]\ndirectory = true\n")
    with pytest.raises(ConfigError, match=r"expected an? .*; got true") as caught:
        load(path)
    assert caught.value.file == str(path)
