"""The options of a store."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_server.accounts.store.options import StoreOptions


@pytest.mark.parametrize(
    "url", ["redis://h", "redis://:p@h:6379/0", "rediss://user:p@h", "unix:///run/redis.sock", "redis://[::1]:6379"]
)
def test_addresses_of_redis(url: str) -> None:
    assert list(StoreOptions("redis", url=url).problems()) == []


@pytest.mark.parametrize(
    "url", ["canary:6379", "http://canary", "redis:///canary", "redis://canary:x", "unix:canary", "redis://[canary"]
)
def test_other_texts_are_problems_and_are_not_repeated(url: str) -> None:
    ((path, message),) = StoreOptions("redis", url=url).problems()
    assert path == "store.url"
    assert "canary" not in message


def test_the_url_is_not_shown() -> None:
    assert "canary" not in repr(StoreOptions("redis", url="redis://:canary@h"))


@pytest.mark.parametrize(
    ("kind", "keys", "holds"), [("memory", True, False), ("sqlite", True, True), ("sqlite", False, False)]
)
def test_a_store_may_hold_keys(kind: str, keys: bool, holds: bool) -> None:
    assert StoreOptions(kind, keys=keys).holds_keys is holds


def problems(**options: Any) -> list[str]:
    url = options.pop("url", "postgresql://u:canary@h/d")
    found = [": ".join(each) for each in StoreOptions("postgresql", url=url, **options).problems()]
    assert "canary" not in str(found)
    return found


def test_postgresql_with_limits_in_redis() -> None:
    assert problems() == []
    assert problems(limits_url="redis+sentinel://h:26379/main") == []
    options = StoreOptions("postgresql", url="postgresql://h/d", limits_url="redis://:canary@h", prefix="team")
    assert options.holds_keys
    limits = options.for_limits()
    assert (limits.kind, limits.url, limits.prefix, limits.holds_keys) == ("redis", "redis://:canary@h", "team", False)
    assert "canary" not in repr(options)
    assert (limits.redis_setting, StoreOptions("redis").redis_setting) == ("store.limits_url", "store.url")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"url": ""}, "store.url: is required: postgresql://"),
        ({"url": "redis://canary"}, "store.url: expected postgresql://"),
        ({"limits_url": "postgresql://canary"}, "store.limits_url: expected redis://"),
        ({"prefix": "pg_x"}, "store.prefix: PostgreSQL keeps names that begin with pg_ for itself"),
        ({"prefix": "a{b}", "limits_url": "redis://h"}, "store.prefix: expected a word without braces"),
        ({"keys": False}, "store.keys: is false"),
    ],
)
def test_problems_of_postgresql(options: dict[str, Any], expected: str) -> None:
    (found,) = problems(**options)
    assert found.startswith(expected)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_server.config.store_urls.find_spec", lambda name: None)
    assert problems() == ["store.kind: needs the package asyncpg: install Dragoman with the extra postgres"]
    assert problems(limits_url="redis://h")[1:] == [
        "store.limits_url: needs the package redis: install Dragoman with the extra redis"
    ]


def test_only_postgresql_has_another_store_of_limits() -> None:
    found = StoreOptions("redis", url="redis://h", limits_url="redis://h").problems()
    assert [*found] == [("store.limits_url", 'has no effect with kind = "redis"')]
