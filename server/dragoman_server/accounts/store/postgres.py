"""The keys in PostgreSQL, for gateways on many machines, which notice each change at once. Limits are kept in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Final

from dragoman.threads import PostgresConnection, SchemaPart
from dragoman.wire import json_dumps
from dragoman_server.accounts.keys.record import KEYS_MAX, KeyRecord, records_of
from dragoman_server.accounts.store.interface import StoredKeys, StoreError
from dragoman_server.accounts.store.options import StoreOptions

CHANNEL: Final = "dragoman_keys"
"""The channel of notifications, whose payload is the name of the schema."""
SECONDS: Final = 5.0
"""Least limit of one call, in seconds: no request waits for the keys, and a connection with TLS takes its time."""
ALIVE: Final = 30.0
"""Seconds between two queries that find out if the connection that listens still works."""
KEYS: Final = SchemaPart(
    "keys",
    (
        """
        CREATE TABLE SCHEMA.keys (id text PRIMARY KEY, data jsonb NOT NULL);
        CREATE TABLE SCHEMA.key_versions (version bigint PRIMARY KEY, mark text NOT NULL);
        INSERT INTO SCHEMA.key_versions VALUES (0, md5(random()::text || clock_timestamp()));
        CREATE FUNCTION SCHEMA.keys_changed() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            -- Versions must be committed in their order.
            LOCK TABLE SCHEMA.key_versions IN SHARE ROW EXCLUSIVE MODE;
            INSERT INTO SCHEMA.key_versions
                SELECT max(version) + 1, md5(random()::text || clock_timestamp()) FROM SCHEMA.key_versions;
            DELETE FROM SCHEMA.key_versions WHERE version < (SELECT max(version) - 10000 FROM SCHEMA.key_versions);
            PERFORM pg_notify('dragoman_keys', TG_TABLE_SCHEMA);
            RETURN NULL;
        END $$;
        CREATE TRIGGER keys_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON SCHEMA.keys
            FOR EACH STATEMENT EXECUTE FUNCTION SCHEMA.keys_changed();
        """,
    ),
)
"""The part of the schema. Each change has a version and a random mark, by which a database that was restored to an
earlier state is noticed; changes that others make by SQL are noticed too."""
_LOCK: Final = "LOCK TABLE SCHEMA.key_versions IN SHARE ROW EXCLUSIVE MODE"
_READ: Final = """
    SELECT version, mark, $1::bigint IS NULL OR EXISTS (
        SELECT FROM SCHEMA.key_versions WHERE version = $1 AND mark = $2
    ), CASE WHEN version = $1 AND mark = $2 THEN NULL ELSE array(SELECT data::text FROM SCHEMA.keys ORDER BY id) END
    FROM SCHEMA.key_versions ORDER BY version DESC LIMIT 1
"""
_PUT: Final = "INSERT INTO SCHEMA.keys VALUES ($1, $2::text::jsonb) ON CONFLICT (id) DO UPDATE SET data = excluded.data"


class PostgresKeyStore:
    """The keys in a schema of a database. With `read_only` nothing is created."""

    def __init__(self, options: StoreOptions, *, read_only: bool = False) -> None:
        self._schema = options.prefix
        self._connection = PostgresConnection(
            options.url,
            KEYS,
            max(options.timeout, SECONDS),
            schema=options.prefix,
            setting="store.url",
            connections=1,
            read_only=read_only,
        )
        self._sql = self._connection.sql

    async def open(self) -> None:
        """Create the pool. Connections are opened when they are needed."""
        await self._connection.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def keys(self, known: Hashable | None = None) -> StoredKeys | None:
        """Return all keys, or None if their version is still `known`. Raises StoreError."""
        before = known if isinstance(known, tuple) else (None, None)
        async with self._connection.call() as db:
            row = await db.fetchrow(self._sql(_READ), *before)
        if row is None:
            raise StoreError("PostgreSQL has no version of the keys (restore the database, or drop the schema)")
        version, mark, whole, records = row
        if records is None:
            return None
        return StoredKeys((version, mark), records_of(data.encode() for data in records), whole)

    async def put_key(self, record: KeyRecord) -> None:
        """Add a key, or replace the one with its id. Raises StoreError if there are `KEYS_MAX` already."""
        async with self._connection.call() as db, db.transaction():
            await db.execute(self._sql(_LOCK))
            query = self._sql("SELECT count(*) FROM SCHEMA.keys WHERE id <> $1")
            if await db.fetchval(query, record.id) >= KEYS_MAX:
                raise StoreError(f"there are {KEYS_MAX} keys already: revoke some")
            await db.execute(self._sql(_PUT), record.id, json_dumps(record.as_data()).decode())

    async def remove_key(self, key: str) -> bool:
        """Remove the key with this id. Return False if no key has it."""
        async with self._connection.call() as db:
            deleted: str = await db.execute(self._sql("DELETE FROM SCHEMA.keys WHERE id = $1"), key)
        return deleted != "DELETE 0"

    async def follow(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of a key, and once at the start, as changes may have been missed before.

        Raises StoreError when the connection is lost.
        """
        lost = asyncio.Event()

        def notified(connection: Any, process: int, channel: str, payload: str) -> None:
            if payload == self._schema:
                changed()

        async with self._connection.listening() as db:
            db.add_termination_listener(lambda _: lost.set())
            async with self._connection.errors():
                await db.add_listener(CHANNEL, notified)
            changed()
            while not lost.is_set():
                try:
                    async with asyncio.timeout(ALIVE):
                        await lost.wait()
                except TimeoutError:
                    async with self._connection.errors():
                        await db.execute("SELECT")
        raise StoreError("PostgreSQL has closed the connection")
