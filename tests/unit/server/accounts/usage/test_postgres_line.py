"""The connection of a thread to the PostgreSQL of the usage."""

from __future__ import annotations

from contextlib import closing

import pytest

from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.postgres_line import PostgresLine
from support.postgres_server import PostgresServer


def test_a_line_runs_one_coroutine_after_the_other(postgres: PostgresServer) -> None:
    with closing(PostgresLine(UsageOptions("postgresql", url=postgres.url, prefix="line"), 5.0)) as line:

        async def work() -> int:
            async with line.connection.call() as db:
                found: int = await db.fetchval("SELECT 6 * 7")
                return found

        assert [line.run(work()), line.run(work())] == [42, 42]


def test_a_server_that_is_not_there_is_a_value_error() -> None:
    line = PostgresLine(UsageOptions("postgresql", url="postgresql://u:p@127.0.0.1:1/d"), 5.0)

    async def work() -> None:
        async with line.connection.call():
            raise AssertionError("unreachable")

    with pytest.raises(ValueError, match="PostgreSQL"):
        line.run(work())
    line.close()


def test_a_url_of_another_form_is_a_value_error() -> None:
    line = PostgresLine(UsageOptions("postgresql", url="nowhere"), 5.0)

    async def work() -> None:
        raise AssertionError("it does not begin")

    with pytest.raises(ValueError, match="URL"):
        line.run(work())
    line.close()


def test_another_connection_is_opened_once_the_server_has_ended_one(postgres: PostgresServer) -> None:
    with closing(PostgresLine(UsageOptions("postgresql", url=postgres.url, prefix="line"), 5.0)) as line:

        async def work() -> int:
            async with line.connection.call() as db:
                found: int = await db.fetchval("SELECT pg_backend_pid()")
                return found

        first = line.run(work())
        # It returns once the server process has ended.
        assert postgres.execute(f"SELECT pg_terminate_backend({first}, 30000)")[0][0] is True
        assert line.run(work()) != first
