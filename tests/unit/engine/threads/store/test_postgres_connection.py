"""Connections to PostgreSQL: migrations, errors and limits of time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.threads import PostgresConnection, SchemaPart, StoreError
from support.postgres_server import PASSWORD, PostgresServer, postgres_server

FIRST = "CREATE TABLE SCHEMA.things (name text); INSERT INTO SCHEMA.things VALUES ('first');"
SECOND = "INSERT INTO SCHEMA.things VALUES ('second');"
PART = SchemaPart("things", (FIRST, SECOND))


@asynccontextmanager
async def connected(url: str, part: SchemaPart = PART, **options: Any) -> AsyncIterator[PostgresConnection]:
    options = {"timeout": 30.0, "setting": "store.url", **options}
    connection = PostgresConnection(url, part, options.pop("timeout"), **options)
    await connection.open()
    try:
        yield connection
    finally:
        await connection.close()


async def things(connection: PostgresConnection) -> list[str]:
    async with connection.call() as db:
        return [name for (name,) in await db.fetch(connection.sql("SELECT name FROM SCHEMA.things ORDER BY name"))]


async def failure(url: str, part: SchemaPart = PART, **options: Any) -> str:
    async with connected(url, part, **options) as connection:
        with pytest.raises(StoreError) as caught:
            await things(connection)
    text = str(caught.value)
    assert PASSWORD not in text
    assert "\n" not in text
    return text


async def test_a_schema_is_created_and_brought_to_later_versions(postgres: PostgresServer) -> None:
    async with connected(postgres.url, SchemaPart("things", (FIRST,)), schema="grows") as connection:
        assert await things(connection) == ["first"]
    for _ in range(2):
        async with connected(postgres.url, schema="grows") as connection:
            assert await things(connection) == ["first", "second"]


async def test_a_later_version_is_refused(postgres: PostgresServer) -> None:
    async with connected(postgres.url, schema="late") as connection:
        await things(connection)
    text = await failure(postgres.url, SchemaPart("things", (FIRST,)), schema="late")
    assert text == (
        "the schema late has version 2 of its things, of a later Dragoman:"
        " update this one, or name another database in store.url"
    )


async def test_many_hosts_that_start_at_once_create_one_schema(postgres: PostgresServer) -> None:
    async def start() -> list[str]:
        async with connected(postgres.url, schema="raced") as connection:
            return await things(connection)

    assert await asyncio.gather(*(start() for _ in range(12))) == [["first", "second"]] * 12


async def test_a_schema_that_was_dropped_is_created_again(postgres: PostgresServer) -> None:
    async with connected(postgres.url, schema="dropped") as connection:
        await things(connection)
        await postgres.run("DROP SCHEMA dropped CASCADE")
        with pytest.raises(StoreError, match="does not exist"):
            await things(connection)
        assert await things(connection) == ["first", "second"]


async def test_versions_that_were_deleted_are_an_error_with_advice(postgres: PostgresServer) -> None:
    async with connected(postgres.url, schema="emptied") as connection:
        await things(connection)
    await postgres.run("TRUNCATE emptied.versions")
    assert "restore the database, or drop the schema" in await failure(postgres.url, schema="emptied")


async def test_a_role_without_the_right_to_create_uses_a_schema_that_exists(postgres: PostgresServer) -> None:
    await postgres.run("CREATE ROLE small LOGIN PASSWORD 'small-pw'")
    url = postgres.url_of("small", "small-pw")
    text = await failure(url, schema="given")
    assert "permission denied" in text
    assert "start a gateway once with a role in store.url that may create it" in text
    async with connected(postgres.url, schema="given") as connection:
        await things(connection)
    await postgres.run(
        "GRANT USAGE ON SCHEMA given TO small",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA given TO small",
    )
    async with connected(url, schema="given") as connection:
        assert await things(connection) == ["first", "second"]


async def test_what_only_reads_creates_nothing(postgres: PostgresServer) -> None:
    text = await failure(postgres.url, schema="absent", read_only=True)
    assert text == "the part things of the schema absent is not there yet: start a gateway"
    assert (await postgres.run("SELECT to_regnamespace('absent')"))[0][0] is None


async def test_errors_have_advice(postgres: PostgresServer) -> None:
    await postgres.run("CREATE DATABASE frozen", "ALTER DATABASE frozen SET default_transaction_read_only = on")
    wrong = postgres.url_of(password="wrong-canary")
    assert "check the user and the password in store.url" in await failure(wrong)
    missing = await failure(postgres.url_of(database="nowhere"))
    assert 'database "nowhere" does not exist (create it with createdb' in missing
    replica = await failure(postgres.url_of(database="frozen"))
    assert replica == (
        "PostgreSQL: frozen cannot be used (it is a read-only replica, which cannot be written:"
        " name the primary in store.url; a primary may be read-only too: look at its default_transaction_read_only)"
    )
    tls = await failure(f"{postgres.url}?sslmode=require")
    assert "SSL" in tls
    absent = await failure("postgresql://u:canary@127.0.0.1:1/d")
    assert "check that PostgreSQL runs, and the address in store.url" in absent
    assert "canary" not in wrong.replace("wrong-canary", "") + absent + tls


async def test_a_url_of_another_form_and_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"the URL of PostgreSQL \(store\.url\) is not valid: expected postgresql://"):
        await PostgresConnection("http://canary", PART, 1.0, setting="store.url").open()
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreError, match=r"install Dragoman with the extra postgres"):
        await PostgresConnection("postgresql://h/d", PART, 1.0).open()


async def test_a_connection_that_is_not_open() -> None:
    connection = PostgresConnection("postgresql://h/d", PART, 1.0)
    with pytest.raises(StoreError, match="the store is not open"):
        async with connection.call():
            pass
    await connection.close()
    assert repr(connection) == "<PostgresConnection things>"


async def test_a_server_that_hangs_fails_a_call_in_time_and_is_used_again() -> None:
    with postgres_server() as server:
        async with connected(server.url, timeout=5.0) as connection:
            assert await things(connection) == ["first", "second"]
            server.freeze()
            with pytest.raises(StoreError, match="PostgreSQL did not answer within 5 s"):
                await things(connection)
            server.thaw()
            assert await things(connection) == ["first", "second"]


async def test_a_server_that_is_killed_is_used_again_when_it_runs() -> None:
    with postgres_server() as server:
        async with connected(server.url, timeout=5.0) as connection:
            await things(connection)
            await asyncio.to_thread(server.kill)
            with pytest.raises(StoreError):
                await things(connection)
            with pytest.raises(StoreError, match="check that PostgreSQL runs"):
                await things(connection)
            await asyncio.to_thread(server.start)
            assert await things(connection) == ["first", "second"]


async def test_there_are_at_most_so_many_connections(postgres: PostgresServer) -> None:
    async with connected(postgres.url, schema="bounded", connections=2) as connection:
        await asyncio.gather(*(things(connection) for _ in range(20)))
        assert connection._pool.get_size() <= 2


async def test_a_listener_has_a_connection_of_its_own(postgres: PostgresServer) -> None:
    async with connected(postgres.url, schema="notified", connections=1) as connection:
        found: asyncio.Queue[str] = asyncio.Queue()
        async with connection.listening() as listener:
            await listener.add_listener("news", lambda *call: found.put_nowait(call[-1]))
            async with connection.call() as db:
                await db.execute("SELECT pg_notify('news', 'one')")
            async with asyncio.timeout(30):
                assert await found.get() == "one"
