"""A PostgreSQL that answers with errors: requests are served, the log names the cure, and all goes on after it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.threads import PostgresStore, StoreError
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.postgres import PostgresKeyStore
from dragoman_server.config.state_options import StateOptions
from support.gateways import Gate, config_for, gate
from support.named_keys import made
from support.postgres_server import PostgresServer, postgres_server
from support.samples import dump, reply
from support.sockets import ScriptedServer, answer
from support.waiting import until_true

pytestmark = pytest.mark.whole

ROLE, PASSWORD = "gateway", "pw-of-the-gateway"
RELOAD = "SELECT pg_reload_conf()"
END = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'"
Act = Callable[[PostgresServer], Awaitable[object]]


@dataclass
class Scene:
    """A gateway whose keys and responses are in one PostgreSQL, as a role of its own."""

    entrance: Gate
    keys: PostgresKeyStore

    async def chat(self, key: str) -> int:
        headers = {"authorization": f"Bearer {key}"}
        async with self.entrance.post(Dialect.CHAT, headers=headers) as response:
            await response.read()
            return int(response.status)

    async def stored(self, key: str) -> tuple[int, Any]:
        """Status of a request of the Responses API, and whether its response was stored."""
        headers = {"authorization": f"Bearer {key}"}
        async with self.entrance.post(Dialect.RESPONSES, {"model": "m", "input": "Hi"}, headers=headers) as response:
            return int(response.status), (await response.json()).get("store")

    async def warnings(self) -> set[str]:
        async with self.entrance.session.get(f"{self.entrance.url}/ready") as response:
            assert response.status == 200
            return set((await response.json())["warnings"])

    async def warns(self, *expected: str) -> None:
        async def same() -> bool:
            return await self.warnings() == set(expected)

        await until_true(same, 30)

    async def becomes(self, status: int, key: str) -> None:
        async def reached() -> bool:
            return await self.chat(key) == status

        await until_true(reached, 30)


@asynccontextmanager
async def scene(postgres: PostgresServer, *records: KeyRecord) -> AsyncIterator[Scene]:
    await postgres.run(
        f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'", f"GRANT CREATE ON DATABASE postgres TO {ROLE}"
    )
    options = StoreOptions("postgresql", url=postgres.url_of(ROLE, PASSWORD), timeout=5.0, refresh=60.0)
    state = StateOptions(kind="postgresql", url=options.url, timeout=5.0)
    keys = PostgresKeyStore(options)
    await keys.open()
    for record in records:
        await keys.put_key(record)
    # As a superuser: it changes keys while the role cannot connect.
    other = PostgresKeyStore(replace(options, url=postgres.url))
    await other.open()
    await keys.close()
    try:
        async with ScriptedServer(answer(200, dump(reply(Dialect.CHAT)))) as server:
            config = replace(config_for(server.url, Dialect.CHAT), store=options, state=state)
            async with gate(config) as entrance:
                yield Scene(entrance, other)
    finally:
        await other.close()


def statements(*lines: str) -> Act:
    async def act(postgres: PostgresServer) -> None:
        for line in lines:
            await postgres.run(line)

    return act


async def lock(postgres: PostgresServer) -> None:
    await postgres.run("ALTER SYSTEM SET lock_timeout = '100ms'", RELOAD)
    await postgres.run("SELECT 1")
    LOCKS.append(await opened(postgres))
    await LOCKS[-1].execute("BEGIN; LOCK TABLE dragoman.totals, dragoman.conversations IN ACCESS EXCLUSIVE MODE")


async def opened(postgres: PostgresServer) -> Any:
    import asyncpg

    return await asyncpg.connect(postgres.url, timeout=30)


async def unlock(postgres: PostgresServer) -> None:
    await LOCKS.pop().close()
    await postgres.run("ALTER SYSTEM RESET lock_timeout", RELOAD)


LOCKS: list[Any] = []


async def writable(postgres: PostgresServer) -> None:
    connection = await opened(postgres)
    await connection.execute("SET default_transaction_read_only = off")
    await connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
    await connection.execute(RELOAD)
    await connection.close()


async def standby(postgres: PostgresServer) -> None:
    await asyncio.to_thread(postgres.kill)
    await asyncio.to_thread(Path(postgres.data, "standby.signal").touch)
    await asyncio.to_thread(postgres.start)


READ_ONLY = "it is a read-only replica, which cannot be written: name the primary in state.url; a primary may be"
FAULTS: dict[str, tuple[Act, Act, str]] = {
    "read-only": (statements("ALTER SYSTEM SET default_transaction_read_only = on", RELOAD), writable, READ_ONLY),
    "hot-standby": (standby, statements("SELECT pg_promote()"), READ_ONLY),
    "locked-tables": (lock, unlock, "another session locks the tables: look at pg_locks, and end it"),
    "no-connections": (
        statements(f"ALTER ROLE {ROLE} CONNECTION LIMIT 0", END),
        statements(f"ALTER ROLE {ROLE} CONNECTION LIMIT -1"),
        "raise max_connections of the server, or of its role, or run fewer processes",
    ),
    "another-password": (
        statements(f"ALTER ROLE {ROLE} PASSWORD 'other-canary'", END),
        statements(f"ALTER ROLE {ROLE} PASSWORD '{PASSWORD}'"),
        "check the user and the password in state.url",
    ),
    "no-login": (
        statements(f"ALTER ROLE {ROLE} NOLOGIN", END),
        statements(f"ALTER ROLE {ROLE} LOGIN"),
        "check the user in state.url, and pg_hba.conf of the server",
    ),
    "no-privilege": (
        statements("ALTER TABLE dragoman.totals OWNER TO postgres", f"REVOKE ALL ON dragoman.totals FROM {ROLE}"),
        statements(f"ALTER TABLE dragoman.totals OWNER TO {ROLE}"),
        "GRANT the role in state.url USAGE on the schema, and all on its tables",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_requests_are_served_and_the_log_names_the_cure(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    inflict, cure, advice = FAULTS[kind]
    key, record = made("alice")
    with postgres_server() as postgres:
        async with scene(postgres, record) as it:
            assert await it.stored(key) == (200, True)
            await inflict(postgres)
            for _ in range(5):
                assert (await it.chat(key), await it.stored(key)) == (200, (200, False))
            assert "state_unavailable" in await it.warnings()
            assert any(advice in each.getMessage() for each in caplog.records)
            # It must not appear to answer as long as it cannot be written.
            probed = PostgresStore(postgres.url_of(ROLE, PASSWORD))
            await probed.open()
            with pytest.raises(StoreError):
                await probed.expire()
            await cure(postgres)
            await it.warns()
            assert await it.stored(key) == (200, True)
            assert await probed.expire() == 0
            await probed.close()
        assert not any("canary" in each.getMessage() for each in caplog.records)
        assert sum("store of responses answers again" in each.getMessage() for each in caplog.records) == 1


async def test_connections_that_the_server_ends_are_opened_again() -> None:
    """One response may not be stored, as the server ended its connection while it was written; no request fails."""
    key, record = made("alice")
    with postgres_server() as postgres:
        async with scene(postgres, record) as it:
            for _ in range(10):
                await postgres.run(END)
                assert await it.chat(key) == 200
                assert (await it.stored(key))[0] == 200
                assert await it.stored(key) == (200, True)
            await it.warns()
            await postgres.run(f"ALTER ROLE {ROLE} SET idle_session_timeout = '20ms'", END)

            async def idle() -> bool:
                return not await postgres.run(f"SELECT FROM pg_stat_activity WHERE usename = '{ROLE}'")

            for _ in range(3):
                await until_true(idle)
                assert (await it.chat(key), (await it.stored(key))[0]) == (200, 200)
            await postgres.run(f"ALTER ROLE {ROLE} RESET idle_session_timeout", END)
            await it.warns()
            assert await it.stored(key) == (200, True)


async def test_keys_that_change_while_no_connection_listens_are_known_after_it() -> None:
    (alice, first), (bob, second) = made("alice"), made("bob")
    with postgres_server() as postgres:
        async with scene(postgres, first) as it:
            assert [await it.chat(key) for key in (alice, bob)] == [200, 401]
            await postgres.run(f"ALTER ROLE {ROLE} CONNECTION LIMIT 0", END)
            await it.warns("store_unavailable", "state_unavailable")
            await it.keys.put_key(second)
            await it.keys.remove_key(first.id)
            assert [await it.chat(key) for key in (alice, bob)] == [200, 401], "those that were read stay valid"
            await postgres.run(f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")
            await it.becomes(200, bob)
            assert await it.chat(alice) == 401
            await it.warns()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of four megabytes that is the server's. Skips the test where it cannot be mounted."""
    if shutil.which("mount") is None or os.geteuid():
        pytest.skip("only root can mount a small file system")
    disk = folder / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.decode().strip()}")
    try:
        shutil.chown(disk, "postgres", "postgres")
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk_stores_nothing_and_reads_on(caplog: pytest.LogCaptureFixture) -> None:
    key, record = made("alice")
    with postgres_server() as postgres, small_disk(postgres.folder) as disk:
        async with scene(postgres, record) as it:
            assert await it.stored(key) == (200, True)
            await postgres.run(f"CREATE TABLESPACE small LOCATION '{disk}'")
            await postgres.run("ALTER TABLE dragoman.responses SET TABLESPACE small")
            ballast = disk / "ballast"
            await asyncio.to_thread(ballast.write_bytes, b"x" * 3_500_000)
            headers = {"authorization": f"Bearer {key}"}
            kept = []
            for _ in range(4):
                body = {"model": "m", "input": os.urandom(400_000).hex()}
                async with it.entrance.post(Dialect.RESPONSES, body, headers=headers) as response:
                    assert response.status == 200
                    kept.append((await response.json())["store"])
            assert kept[-1] is False
            assert any("make room on the disk of the server" in each.getMessage() for each in caplog.records)
            assert await it.chat(key) == 200
            await asyncio.to_thread(ballast.unlink)
            await it.warns()
            assert await it.stored(key) == (200, True)
