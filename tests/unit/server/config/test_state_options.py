"""The table `[state]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.state_options import StateOptions, state_directory
from support.thread_stores import KEY

PROVIDER = {"providers": {"up": {"dialect": "chat", "base_url": "http://127.0.0.1:9/v1"}}}


def parsed(**state: Any) -> StateOptions:
    return parse_config({**PROVIDER, "state": state}, {}).state


def test_a_single_process_stores_a_little_in_memory_by_default() -> None:
    options = parse_config(PROVIDER, {}).state
    assert options == StateOptions(kind="memory")
    limits = options.limits()
    assert (limits.ttl, limits.size, limits.owner_size) == (3600.0, 32 * 1024**2, 32 * 1024**2)
    assert options.background_limit() == 32 * 1024**2
    assert [options.kind_with(workers) for workers in (1, 2, 0)] == ["memory", "off", "off"]
    parse_config({**PROVIDER, "server": {"workers": 4}}, {})  # is no problem
    assert parsed(kind="off").kind_with(1) == "off"
    assert parsed(kind="sqlite", path="r.db").kind_with(4) == "sqlite"


def test_other_stores_are_larger_and_keep_longer() -> None:
    options = parsed(kind="sqlite", path="r.db")
    limits = options.limits()
    assert (limits.ttl, limits.size, limits.owner_size) == (30 * 86_400.0, 4 * 1024**3, 1024**3)
    assert options.background_limit() == 256 * 1024**2


def test_limits_that_are_set_are_used_in_memory_too() -> None:
    options = parsed(ttl_days=1, max_bytes=10, max_bytes_per_key=5, background_total_bytes=7)
    limits = options.limits()
    assert (limits.ttl, limits.size, limits.owner_size, options.background_limit()) == (86_400.0, 10, 5, 7)


def test_a_key_alone_encrypts_what_clients_hold() -> None:
    assert parsed(encryption_key=KEY).encryption_key is not None


def test_the_settings_of_a_file() -> None:
    options = parsed(kind="sqlite", path="r.db", ttl_days=1.5, max_bytes=10, max_chain=5, encryption_key=KEY)
    assert (options.file, options.limits().ttl, options.limits().size, options.limits().depth) == (
        "r.db",
        129_600.0,
        10,
        5,
    )
    assert KEY not in repr(options)


def test_the_key_can_be_in_the_environment() -> None:
    data = {**PROVIDER, "state": {"kind": "sqlite", "encryption_key": "${STATE_KEY}"}}
    key = parse_config(data, {"STATE_KEY": KEY}).state.encryption_key
    assert key is not None
    assert key.reveal() == KEY


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"kind": "postgres"}, "state.kind"),
        ({"kind": "redis"}, "state.url: is required"),
        ({"kind": "redis", "url": "http://canary"}, "state.url: expected redis://"),
        ({"kind": "sqlite", "url": "redis://canary"}, "state.url: has no effect"),
        ({"kind": "redis", "url": "redis://h", "prefix": "a{b}"}, "state.prefix: expected a word without braces"),
        ({"kind": "sqlite", "ttl_days": 0}, "state.ttl_days"),
        ({"kind": "sqlite", "max_bytes": 0}, "state.max_bytes"),
        ({"kind": "sqlite", "max_chain": 0}, "state.max_chain"),
        ({"kind": "sqlite", "timeout": 0}, "state.timeout"),
        ({"kind": "sqlite", "timeout": 61}, "state.timeout"),
        ({"kind": "sqlite", "encryption_key": "short"}, "32 bytes in base64"),
        ({"kind": "memory", "encryption_key": KEY}, "has no effect"),
        ({"kind": "sqlite", "unknown": 1}, "state.unknown"),
    ],
)
def test_a_setting_that_is_wrong(state: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(**state)
    assert problem in str(caught.value)
    assert "canary" not in str(caught.value)


def test_redis_has_an_address_that_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {**PROVIDER, "server": {"workers": 2}, "state": {"kind": "redis", "url": "${REDIS_URL}", "prefix": "team"}}
    options = parse_config(data, {"REDIS_URL": "rediss://:canary-7f3a@redis:6379/1"}).state
    assert (options.url, options.prefix) == ("rediss://:canary-7f3a@redis:6379/1", "team")
    assert "canary" not in repr(options)
    monkeypatch.setattr("dragoman_server.config.store_urls.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"needs the package redis: install Dragoman with the extra redis"):
        parsed(kind="redis", url="redis://redis:6379/0")


def test_several_workers_need_a_store_that_they_share() -> None:
    with pytest.raises(ConfigError, match='several need "sqlite"'):
        parse_config({**PROVIDER, "server": {"workers": 2}, "state": {"kind": "memory"}}, {})


def test_a_provider_has_state_of_its_own_or_that_of_the_gateway() -> None:
    provider = {"dialect": "responses", "base_url": "http://127.0.0.1:9/v1"}
    config = parse_config({"providers": {"a": provider, "b": {**provider, "state": "gateway"}}}, {})
    assert (config.providers["a"].state, config.providers["b"].state) == ("upstream", "gateway")
    with pytest.raises(ConfigError, match=r"providers\.a\.state"):
        parse_config({"providers": {"a": {**provider, "state": "none"}}}, {})


def test_the_default_file_is_in_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert StateOptions().file == str(tmp_path / "dragoman" / "responses.db")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert state_directory() == Path.home() / ".local/state/dragoman"


def test_postgresql_has_no_runs_without_a_redis() -> None:
    url = "postgresql://u:canary@db/d"
    alone = parsed(kind="postgresql", url=url)
    assert (alone.has_runs, alone.most_background) == (False, 0)
    assert alone.limits() == StateOptions(kind="redis").limits()
    both = parsed(kind="postgresql", url=url, runs_url="redis://:canary@h")
    assert (both.has_runs, both.most_background) == (True, 16)
    assert "canary" not in repr(both)
    data = {**PROVIDER, "state": {"kind": "postgresql", "url": url}, "server": {"resume": {"seconds": 60}}}
    with pytest.raises(ConfigError, match=r"state\.runs_url: is required for server\.resume"):
        parse_config(data, {})


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"kind": "postgresql"}, "state.url: is required: postgresql://"),
        ({"kind": "postgresql", "url": "postgresql://h:canary"}, "state.url: expected postgresql://"),
        ({"kind": "postgresql", "url": "postgresql://h", "runs_url": "canary"}, "state.runs_url: expected redis://"),
        ({"kind": "redis", "url": "redis://h", "runs_url": "redis://canary"}, "state.runs_url: has no effect"),
    ],
)
def test_problems_of_postgresql(state: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(**state)
    assert expected in str(caught.value)
    assert "canary" not in str(caught.value)
