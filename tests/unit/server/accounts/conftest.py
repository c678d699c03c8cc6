"""A redis-server and a PostgreSQL cluster for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.postgres_server import PostgresServer, postgres_server
from support.redis_server import RedisServer, redis_server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    """A running server, the same for all tests of a module."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A running server, the same for all tests of a module."""
    with postgres_server() as server:
        yield server
