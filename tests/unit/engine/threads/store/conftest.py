"""A redis-server for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.redis_server import RedisServer, redis_server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    """A running server, the same for all tests of a module."""
    with redis_server() as server:
        yield server
