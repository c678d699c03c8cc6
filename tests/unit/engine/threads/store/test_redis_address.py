"""The URLs of Redis: their parts, and what is wrong with one."""

from __future__ import annotations

import pytest

from dragoman.threads.store.redis_address import RedisAddress, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://:x@host:6379/0", RedisAddress("single")),
        ("rediss://host", RedisAddress("single")),
        ("unix:///run/redis.sock", RedisAddress("single")),
        (
            "redis+sentinel://user:p%40ss@a:1,b,[::1]:3/mine/2?sentinel_password=s",
            RedisAddress(
                "sentinel",
                (("a", 1), ("b", 26379), ("::1", 3)),
                False,
                "user",
                "p@ss",
                "mine",
                2,
                sentinel_password="s",
            ),
        ),
        ("rediss+sentinel://a/mine", RedisAddress("sentinel", (("a", 26379),), True, service="mine")),
        ("redis+cluster://:x@a,b:7/", RedisAddress("cluster", (("a", 6379), ("b", 7)), password="x")),
        ("rediss+cluster://a/0", RedisAddress("cluster", (("a", 6379),), True)),
    ],
)
def test_the_parts_of_a_url(url: str, address: RedisAddress) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://canary", "expected redis://HOST"),
        ("redis+ring://canary", r"redis\+cluster://HOST"),
        ("redis://canary:port", "expected redis://HOST"),
        ("redis:canary", "expected redis://HOST"),
        ("redis+sentinel://canary:1", "names no service"),
        ("redis+sentinel://canary/a/b", "SERVICE/DATABASE"),
        ("redis+sentinel://canary/a/1/2", "SERVICE/DATABASE"),
        ("redis+sentinel://canary:x/a", "expected nodes such as HOST:6379"),
        ("redis+sentinel://canary,,b/a", "expected nodes such as HOST:6379"),
        ("redis+sentinel://canary/a?password=x", "sentinel_username and sentinel_password only"),
        ("redis+cluster://canary/1", "a cluster has no databases"),
        ("redis+cluster://", "expected nodes such as HOST:6379"),
    ],
)
def test_a_problem_does_not_repeat_the_url(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        parse_address(url)
    assert "canary" not in str(caught.value)


def test_a_repr_shows_no_password() -> None:
    assert "secret" not in repr(parse_address("redis+cluster://:secret@a"))
