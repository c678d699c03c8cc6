"""The URLs of stores on another machine."""

from __future__ import annotations

import pytest

from dragoman_server.config.store_urls import is_prefix, redis_problems, url_problems

POSTGRES = "postgresql://u:canary@h/d"


@pytest.mark.parametrize(
    ("kind", "url", "prefix", "expected"),
    [
        ("redis", "redis://h", "dragoman", []),
        ("redis", "", "dragoman", ["t.url: is required: redis://host:6379/0"]),
        ("redis", "redis://h", "{a}", ["t.prefix: expected a word without braces"]),
        ("postgresql", POSTGRES, "dragoman", []),
        ("postgresql", POSTGRES, "{a}", []),
        ("postgresql", "", "dragoman", ["t.url: is required: postgresql://user:password@host:5432/database"]),
        ("postgresql", POSTGRES, "pg_a", ["t.prefix: PostgreSQL keeps names that begin with pg_ for itself"]),
        ("sqlite", POSTGRES, "dragoman", ['t.url: has no effect with kind = "sqlite"']),
    ],
)
def test_problems_of_a_table(kind: str, url: str, prefix: str, expected: list[str]) -> None:
    assert [": ".join(each) for each in url_problems("t", kind, url, prefix)] == expected


def test_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_server.config.store_urls.find_spec", lambda _: None)
    assert [*redis_problems("t.x_url", "redis://h", "t.x_url")] == [
        ("t.x_url", "needs the package redis: install Dragoman with the extra redis")
    ]
    assert [*url_problems("t", "postgresql", POSTGRES, "a")] == [
        ("t.kind", "needs the package asyncpg: install Dragoman with the extra postgres")
    ]


@pytest.mark.parametrize(("text", "expected"), [("a", True), ("", False), ("a{", False), ("a\n", False)])
def test_prefixes(text: str, expected: bool) -> None:
    assert is_prefix(text) is expected
