"""URLs of PostgreSQL."""

from __future__ import annotations

import pytest

from dragoman.threads.store.postgres_address import (
    database_of,
    names_attributes,
    quoted,
    schema_problem,
    url_problem,
)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/d",
        "postgres://user:p%40ss@h:5432/d",
        "postgresql://u:p@[::1]:5432/d?sslmode=verify-full&sslrootcert=/etc/ca.pem",
        "postgresql://u@one:5432,two:5433/d?target_session_attrs=primary",
        "postgresql:///d?host=/run/postgresql",
        "postgresql://h/d?application_name=gateway",
    ],
)
def test_urls(url: str) -> None:
    assert url_problem(url) == ""


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql:canary", "expected postgresql://"),
        ("canary:5432/d", "expected postgresql://"),
        ("mysql://canary/d", "expected postgresql://"),
        ("postgresql+asyncpg://canary/d", "expected postgresql://"),
        ("postgresql://u:can/ary@h/d", "expected postgresql://"),
        ("postgresql://u:can#ary@h/d", "expected postgresql://"),
        ("postgresql://u:can@ary@h/d", "expected postgresql://"),
        ("postgresql://u:canary@/d", "expected postgresql://"),
        ("postgresql://h:canary/d", "expected postgresql://"),
        ("postgresql://[::1/canary", "expected postgresql://"),
        ("postgresql://[::1]x/canary", "expected postgresql://"),
        ("postgresql://h/canary?sslmode=verify_full", "has an unknown sslmode; expected disable,"),
        ("postgresql://h/canary?target_session_attrs=any,primary", "has an unknown target_session_attrs"),
        ("postgresql://h/canary?connect_timeout=10", "has the field 'connect_timeout' after the ?"),
    ],
)
def test_a_url_of_another_form_is_not_repeated(url: str, expected: str) -> None:
    assert url_problem(url).startswith(expected)
    assert "canary" not in url_problem(url)


def test_the_parts_of_a_url() -> None:
    assert database_of("postgresql://h/a%20b?sslmode=require") == "a b"
    assert database_of("postgresql://h?dbname=d") == "d"
    assert database_of("postgresql://h") == ""
    assert names_attributes("postgresql://h/d?target_session_attrs=any")
    assert not names_attributes("postgresql://h/d?sslmode=require")


@pytest.mark.parametrize("name", ["dragoman", "team-a", 'a"b', "ü"])
def test_names_of_schemas(name: str) -> None:
    assert schema_problem(name) == ""


@pytest.mark.parametrize("name", ["", "a\nb", "a" * 64, "ü" * 32, "pg_dragoman"])
def test_names_that_no_schema_may_have(name: str) -> None:
    assert schema_problem(name)


def test_a_name_in_a_statement() -> None:
    assert quoted('a"b') == '"a""b"'
