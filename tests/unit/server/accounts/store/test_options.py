"""The options of a store."""

from __future__ import annotations

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
