"""A PostgreSQL with usage, responses and keys that is slow, emptied, read-only, or killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from dragoman_proof.chaos.gateway import GatewayProcess, gateway, until
from dragoman_proof.chaos.scenario import holds
from dragoman_proof.chaos.sdk import DIALECTS
from dragoman_proof.chaos.servers import Postgres, Slow, postgres, slowed
from dragoman_proof.chaos.setups import added_key, written
from dragoman_proof.chaos.upstream import upstream

_TABLES = """
[usage]
kind = "postgresql"
url = "{url}"

[state]
kind = "postgresql"
url = "{url}"
timeout = 1

[store]
kind = "postgresql"
url = "{url}"
refresh = 0.5
"""
_SLOW = 2.0
"""Seconds that each piece takes, in both directions: more than a call of the responses may take."""


@dataclass(slots=True)
class Team:
    """A gateway before a database, and the requests that it has answered with 200."""

    database: Postgres
    proxy: Slow
    gateway: GatewayProcess
    config: Path
    key: dict[str, str]
    answered: int = 0

    async def ask(self, *, stored: bool | None = None) -> None:
        """Send a request of each dialect with the key. `stored`: whether the response must be reported as stored."""
        for dialect in DIALECTS:
            status, body = await self.gateway.ask(dialect, headers=self.key)
            holds(status == 200, f"{dialect}: a request is served", status, body)
            self.answered += 1
            if dialect == "responses" and stored is not None:
                holds(body["store"] is stored, f"`store` is {stored}", body)

    async def stores(self) -> None:
        """Wait until responses are stored, and read one."""
        found: list[str] = []

        async def stored() -> bool:
            status, body = await self.gateway.ask("responses", headers=self.key)
            holds(status == 200, "a request is served", status, body)
            self.answered += 1
            found.append(body["id"])
            return bool(body["store"])

        await until(stored, "responses are stored")
        url = f"{self.gateway.url}/v1/responses/{found[-1]}"
        async with self.gateway.session.get(url, headers=self.key) as reply:
            holds(reply.status == 200, "a stored response is read", reply.status)

    async def booked(self) -> None:
        """Wait until each answered request has one row, and nothing else has one."""

        async def same() -> bool:
            rows = await self.database.run("SELECT count(*), count(DISTINCT id) FROM dragoman.usage")
            return tuple(rows[0]) == (self.answered, self.answered)

        await until(same, f"{self.answered} rows of usage")

    async def recovers(self) -> None:
        """Wait until nothing is reported, and check that requests are served and booked as before."""
        await self.stores()

        async def quiet() -> bool:
            body = await self.gateway.ready()
            return bool(body["ready"] and not body["warnings"])

        await until(quiet, "/ready has no warning")
        await self.ask(stored=True)


@asynccontextmanager
async def _team(folder: Path) -> AsyncIterator[Team]:
    async with postgres(folder) as database, slowed(database.port) as proxy, upstream() as up:
        config = written(folder, up.url(), _TABLES.format(url=database.url(proxy.port)))
        key = await added_key(config, "alice")
        async with gateway(config) as found:
            team = Team(database, proxy, found, config, key)
            await team.ask(stored=True)
            await team.booked()
            yield team


async def postgres_slow(folder: Path) -> None:
    """Before a slow PostgreSQL requests are served, responses are not stored, and rows of usage are written once."""
    async with _team(folder) as team:
        team.proxy.delay = _SLOW
        await team.ask(stored=False)
        await team.gateway.warns("state_unavailable")
        await team.ask(stored=False)
        team.proxy.delay = 0.0
        await team.recovers()
        await team.booked()


async def postgres_emptied(folder: Path) -> None:
    """After the schema was dropped known keys stay valid, and the tables are made again for what comes then."""
    async with _team(folder) as team:
        await team.database.run("DROP SCHEMA dragoman CASCADE")
        team.answered = 0  # the rows of what was answered before are gone
        await team.ask()
        await team.gateway.warns("store_lost")
        await team.ask()
        await team.stores()
        await team.booked()
        status, body = await team.gateway.ask(headers={"authorization": "Bearer sk-dragoman-unknown-unknown"})
        holds(status in (401, 503), "an unknown key is not admitted", status, body)


async def postgres_truncated(folder: Path) -> None:
    """After all tables but that of keys were emptied requests are served, and the log names the cure, which helps."""
    async with _team(folder) as team:
        # Keys that are removed by SQL are revoked.
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'dragoman' AND tablename <> 'keys'"
        await team.database.run(*(f"TRUNCATE dragoman.{name}" for (name,) in await team.database.run(query)))
        team.answered = 0
        await team.gateway.logs("the store of keys .*no version of the keys .restore the database, or drop the schema")
        await team.ask()
        await team.booked()
        await team.database.run("DROP SCHEMA dragoman CASCADE")
        team.answered = 0
        await team.stores()
        await team.booked()
        holds(not [line for line in team.gateway.lines if "Traceback" in line], "no defect")


async def postgres_read_only(folder: Path) -> None:
    """While PostgreSQL is read-only keys stay valid and requests are served; rows wait and are written once."""
    async with _team(folder) as team:
        change, reload = "ALTER SYSTEM {} default_transaction_read_only{}", "SELECT pg_reload_conf()"
        await team.database.run(change.format("SET", " = on"), reload)
        await team.ask(stored=False)
        await team.gateway.logs("usage cannot be written.*read-only.*name the primary in usage.url")
        await team.gateway.warns("usage_unavailable")
        await team.gateway.warns("state_unavailable")
        await team.ask(stored=False)
        await team.database.run(change.format("RESET", ""), reload)
        await team.recovers()
        await team.booked()


async def postgres_killed(folder: Path) -> None:
    """While a killed PostgreSQL is away keys stay valid and requests are served; rows wait and are written once."""
    async with _team(folder) as team:
        for _ in range(2):
            await team.database.kill()
            await team.ask(stored=False)
            await team.gateway.warns("usage_unavailable")
            await team.ask(stored=False)
            await team.database.start()
            await team.recovers()
            await team.booked()


SCENARIOS = (postgres_slow, postgres_emptied, postgres_truncated, postgres_read_only, postgres_killed)
