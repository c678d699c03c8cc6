"""The keys `url` and `prefix` of the tables that name a store on another machine."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from dragoman_server.config.config_error import Problem

REDIS, POSTGRES = "redis", "postgresql"
"""The kinds of stores that have a URL."""


def url_problems(at: str, kind: str, url: str, prefix: str) -> Iterator[Problem]:
    """Yield the problems of the keys `url` and `prefix` of a store of this kind; `at` is the path of its table."""
    if kind == POSTGRES:
        yield from _postgres_problems(at, url, prefix)
        return
    if kind == REDIS:
        yield from redis_problems(f"{at}.url", url, f"{at}.kind")
    elif url:
        yield f"{at}.url", f'has no effect with kind = "{kind}"'
    if not is_prefix(prefix):
        yield f"{at}.prefix", "expected a word without braces"


def _postgres_problems(at: str, url: str, prefix: str) -> Iterator[Problem]:
    from dragoman.threads import PostgresConnection  # 0.1 MB of memory, for gateways with a PostgreSQL

    if not url:
        yield f"{at}.url", "is required: postgresql://user:password@host:5432/database"
    elif problem := PostgresConnection.url_problem(url):
        yield f"{at}.url", problem
    if find_spec("asyncpg") is None:
        yield f"{at}.kind", "needs the package asyncpg: install Dragoman with the extra postgres"
    if problem := PostgresConnection.schema_problem(prefix):
        yield f"{at}.prefix", problem


def redis_problems(key: str, url: str, kind: str) -> Iterator[Problem]:
    """Yield the problems of a URL of Redis; `key` and `kind` are the paths of the URL and of what needs the package."""
    from dragoman.threads import RedisConnection  # 0.1 MB of memory, for gateways with a Redis

    if not url:
        yield key, "is required: redis://host:6379/0"
    elif problem := RedisConnection.url_problem(url):
        yield key, problem
    if find_spec("redis") is None:
        yield kind, "needs the package redis: install Dragoman with the extra redis"


def is_prefix(text: str) -> bool:
    """True if a text can begin the names of keys in Redis."""
    return bool(text) and text.isprintable() and "{" not in text and "}" not in text
