"""Connections to PostgreSQL, with a limit of time for each call, advice in each error, and the schema's migrations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

from dragoman.threads.store.interface import StoreError
from dragoman.threads.store.postgres_address import database_of, names_attributes, quoted, schema_problem, url_problem

CONNECTIONS: Final = 4
"""Most connections of a store. More calls wait for one, up to the timeout."""
IDLE: Final = 60.0
"""Seconds after which a connection that is not used is closed."""
MIGRATION: Final = 600.0
"""Longest time of the migrations, in seconds, in place of the limit of the call that begins with them."""
PLACE: Final = "SCHEMA."
"""Stands for the schema's name in statements."""
_LOCK: Final = 0x_6472_6167_6F6D_616E
"""The advisory lock of migrations."""
_VERSIONS: Final = """
    CREATE TABLE IF NOT EXISTS SCHEMA.versions (part text PRIMARY KEY, version integer NOT NULL)
"""
# By tables: functions such as `to_regclass` may answer of before the lock, from the cache of the session.
_HAS_SCHEMA: Final = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)"
_HAS_VERSIONS: Final = (
    "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
    " WHERE nspname = $1 AND relname = 'versions')"
)
_NO_IDLE_END: Final = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"
"""A connection that listens is idle for hours. Servers before version 14 have no such limit."""
_EMPTIED: Final = "a table was emptied that the others need: restore the database, or drop the schema"
_READ_ONLY: Final = (
    "it is a read-only replica, which cannot be written: name the primary in {url}; a primary may be read-only too:"
    " look at its default_transaction_read_only"
)
_ENDED: Final = "the server has ended this connection: the next call opens another one"
_ADVICE: Final = {
    "InvalidPasswordError": "check the user and the password in {url}",
    "InvalidAuthorizationSpecificationError": "check the user in {url}, and pg_hba.conf of the server",
    "InvalidCatalogNameError": "create it with createdb, or name another one in {url}",
    "TargetServerAttributeNotMatched": _READ_ONLY,
    "ReadOnlySQLTransactionError": _READ_ONLY,
    "InsufficientPrivilegeError": "GRANT the role in {url} USAGE on the schema, and all on its tables",
    "TooManyConnectionsError": "raise max_connections of the server, or of its role, or run fewer processes",
    "LockNotAvailableError": "another session locks the tables: look at pg_locks, and end it",
    "AdminShutdownError": _ENDED,
    "IdleSessionTimeoutError": _ENDED,
    "InternalClientError": _ENDED,
    "CannotConnectNowError": "it starts or stops: it answers when it has started",
    "DiskFullError": "make room on the disk of the server",
    "DuplicateTableError": _EMPTIED,
    "NotNullViolationError": _EMPTIED,
    "ConnectionDoesNotExistError": "check that PostgreSQL runs",
    "SSLCertVerificationError": "check sslmode and sslrootcert in {url}",
    "SSLError": "check sslmode in {url}",
    "gaierror": "check the host in {url}",
    "OSError": "check that PostgreSQL runs, and the address in {url}",
}
"""Advice by the name of the error's class, or of one above it."""
_GONE: Final = ("UndefinedTableError", "UndefinedFunctionError", "InvalidSchemaNameError")
"""Errors of a database that lost the tables since they were checked."""


class SchemaPart(NamedTuple):
    """A part of the schema, such as the responses: its name in the table of versions, and its migrations.

    Each migration is a script that brings it to the next version; in it, `SCHEMA.` stands for the schema.
    """

    name: str
    migrations: Sequence[str]


class PostgresConnection:
    """The connections to one database. They are opened when they are needed, and after they were lost.

    The first one brings the part of the schema to the current version. One process does so at a time, and a role
    without the right to change the schema suffices if there is nothing to change.

    Args:
        url: `postgresql://USER:PASSWORD@HOST:5432/DATABASE`; TLS by `?sslmode=`, as of libpq.
        part: The part of the schema.
        timeout: Seconds that one call may take.
        schema: The name of the schema.
        setting: The name of the URL in errors.
        connections: Most connections.
        read_only: Create and change nothing; a replica suffices.
    """

    def __init__(
        self,
        url: str,
        part: SchemaPart,
        timeout: float,
        *,
        schema: str = "dragoman",
        setting: str = "its URL",
        connections: int = CONNECTIONS,
        read_only: bool = False,
    ) -> None:
        self._url = url
        self._part = part
        self._timeout = timeout
        self._schema = schema
        self._setting = setting
        self._connections = connections
        self._read_only = read_only
        self._pool: Any = None
        self._is_checked = False
        self._checking = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<PostgresConnection {self._part.name}{'' if self._pool is None else ' open'}>"

    url_problem = staticmethod(url_problem)
    schema_problem = staticmethod(schema_problem)

    async def open(self) -> None:
        """Create the pool. Raises StoreError without the package asyncpg, or for a URL of another form."""
        if problem := url_problem(self._url):
            # The URL may hold a password, so it is not repeated.
            raise StoreError(f"the URL of PostgreSQL ({self._setting}) is not valid: {problem}")
        try:
            import asyncpg  # an extra
        except ImportError:
            raise StoreError("PostgreSQL needs the package asyncpg: install Dragoman with the extra postgres") from None
        self._pool = asyncpg.create_pool(
            min_size=0,
            max_size=self._connections,
            max_inactive_connection_lifetime=IDLE,
            init=self._limit,
            reset=_keep,
            **self._options(),
        )
        await self._pool  # it opens no connection yet

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"dsn": self._url, "timeout": self._timeout}
        if not self._read_only and not names_attributes(self._url):
            # A replica would be noticed at the first write only; of several hosts the primary is found.
            options["target_session_attrs"] = "read-write"
        if "application_name" not in self._url:
            options["server_settings"] = {"application_name": "dragoman"}
        return options

    async def _limit(self, connection: Any) -> None:
        """Let the server end what this process no longer waits for."""
        await connection.execute(f"SET statement_timeout = {max(1, int(self._timeout * 1000))}")

    async def close(self) -> None:
        """Close all connections."""
        pool, self._pool, self._is_checked = self._pool, None, False
        if pool is not None:
            try:
                async with asyncio.timeout(self._timeout):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    def sql(self, statement: str) -> str:
        """Return a statement with the schema's name."""
        return statement.replace(PLACE, f"{quoted(self._schema)}.")

    @asynccontextmanager
    async def call(self) -> AsyncIterator[Any]:
        """Give a connection for one call of the store, which has the limit of time. Raises StoreError."""
        pool = self._pool
        if pool is None:
            raise StoreError("the store is not open")
        async with self.errors() as limit:
            connection = await pool.acquire()
            try:
                if not self._is_checked:
                    await self._check(connection, limit)
                yield connection
            except (asyncio.CancelledError, OSError):
                # In the middle of a call: a server that hangs would not answer a request to cancel it either.
                connection.terminate()
                raise
            finally:
                await pool.release(connection)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Any]:
        """Give a connection of its own, without a limit of time for what it is used for. Raises StoreError."""
        import asyncpg

        async with self.errors():
            connection = await asyncpg.connect(**self._options())
            await connection.execute(_NO_IDLE_END)
        try:
            yield connection
        finally:
            connection.terminate()

    async def _check(self, connection: Any, limit: asyncio.Timeout) -> None:
        """Bring the part of the schema to the current version. Raises StoreError if it has a later one."""
        async with self._checking:
            if self._is_checked:
                return
            version = await self._version(connection)
            if version != len(self._part.migrations):
                if self._read_only:
                    found = "of an earlier version" if version else "not there yet"
                    raise StoreError(f"{self._where} is {found}: start a gateway")
                now = asyncio.get_running_loop().time
                limit.reschedule(now() + MIGRATION)
                await self._migrate(connection)
                limit.reschedule(now() + self._timeout)
            self._is_checked = True

    async def _version(self, connection: Any) -> int:
        """Return the version of the part; 0 if it is not there. Raises StoreError if it is a later one."""
        if not await connection.fetchval(_HAS_VERSIONS, self._schema):
            return 0
        query = self.sql("SELECT version FROM SCHEMA.versions WHERE part = $1")
        found: int = await connection.fetchval(query, self._part.name) or 0
        if found > len(self._part.migrations):
            raise StoreError(
                f"the schema {self._schema} has version {found} of its {self._part.name}, of a later Dragoman:"
                f" update this one, or name another database in {self._setting}"
            )
        return found

    async def _migrate(self, connection: Any) -> None:
        from asyncpg.exceptions import InsufficientPrivilegeError

        try:
            async with connection.transaction():
                await connection.execute("SET LOCAL statement_timeout = 0")
                # Several processes may start at once; the lock ends with the transaction.
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                version = await self._version(connection)
                if version == 0 and not await connection.fetchval(_HAS_SCHEMA, self._schema):
                    await connection.execute(f"CREATE SCHEMA {self._name}")
                if version == 0:
                    await connection.execute(self.sql(_VERSIONS))
                for script in self._part.migrations[version:]:
                    await connection.execute(self.sql(script))
                put = (
                    "INSERT INTO SCHEMA.versions VALUES ($1, $2)"
                    " ON CONFLICT (part) DO UPDATE SET version = excluded.version"
                )
                await connection.execute(self.sql(put), self._part.name, len(self._part.migrations))
        except InsufficientPrivilegeError as error:
            raise StoreError(
                f"PostgreSQL: {_line(error)} ({self._where} is not there or of an earlier version: start a gateway"
                f" once with a role in {self._setting} that may create it)"
            ) from None

    @property
    def _where(self) -> str:
        return f"the part {self._part.name} of the schema {self._schema}"

    @property
    def _name(self) -> str:
        return quoted(self._schema)

    @asynccontextmanager
    async def errors(self) -> AsyncIterator[asyncio.Timeout]:
        """Limit the time of a call, and raise StoreError for what may go wrong with it. Gives the limit."""
        from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError

        try:
            async with asyncio.timeout(self._timeout) as limit:
                yield limit
        except TimeoutError:
            raise StoreError(f"PostgreSQL did not answer within {self._timeout:g} s") from None
        except (PostgresError, InterfaceError, InternalClientError, OSError) as error:
            if type(error).__name__ in _GONE:
                self._is_checked = False
            raise StoreError(f"PostgreSQL: {self._advice(error)}") from None

    def _advice(self, error: Exception) -> str:
        """Return the text of an error on one line, with what to do about it."""
        names = [kind.__name__ for kind in type(error).__mro__]
        hint = next((advice for name in names if (advice := _ADVICE.get(name)) is not None), "")
        if names[0] == "InterfaceError" and "connection is closed" in str(error):
            hint = _ENDED
        if names[0] == "TargetServerAttributeNotMatched":
            return f"{database_of(self._url) or 'the server'} cannot be used ({hint.format(url=self._setting)})"
        return f"{_line(error)} ({hint.format(url=self._setting)})" if hint else _line(error)


async def _keep(connection: Any) -> None:
    """Leave a connection as it is when it is returned: no call changes its settings, so a round trip is saved."""


def _line(error: Exception) -> str:
    with suppress(AttributeError):
        if error.message:  # type: ignore[attr-defined]
            return " ".join(str(error.message).split())  # type: ignore[attr-defined]
    return " ".join(str(error).split()) or type(error).__name__
