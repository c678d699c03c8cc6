"""Gateways that store responses, before the simulated upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import openai
from aiohttp import web

from dragoman import builtin_profile
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import GATEWAY, StateOptions
from dragoman_server.simulator import REQUESTS
from oracles.simulator import strict_simulator
from support.gateways import Gate, config_for, gate, served
from support.postgres_server import postgres_server
from support.redis_server import redis_server

MEMORY = StateOptions(kind="memory")


@dataclass(slots=True)
class Stateful:
    """A gateway with state, the simulated upstream, and the official SDK as its client."""

    gate: Gate
    simulator: web.Application
    sdk: Any
    """An `openai.AsyncOpenAI`. The SDK's types have not all fields of the API."""

    @property
    def store(self) -> Any:
        """The store, whose methods a test may replace."""
        assert self.gate.gateway.services.responses.stored is not None
        return self.gate.gateway.services.responses.stored._store

    def sent(self, number: int = -1) -> Any:
        """The body of a request that the upstream got."""
        return self.simulator[REQUESTS][number].body

    def simulator_requests(self) -> list[Any]:
        """The bodies of all requests that the upstream got."""
        return [request.body for request in self.simulator[REQUESTS]]

    def client(self, key: str) -> Any:
        """An SDK client with another key."""
        return self.sdk.with_options(api_key=key)


def with_state(config: Config, options: StateOptions = MEMORY) -> Config:
    """The configuration with stored responses, also for Responses upstreams, which are those of the vendors."""
    providers = {
        name: replace(provider, state=GATEWAY, profile=builtin_profile(provider.dialect))
        for name, provider in config.providers.items()
    }
    return replace(config, providers=providers, state=options)


@asynccontextmanager
async def stateful(dialect: Any, options: StateOptions = MEMORY, **config: Any) -> AsyncIterator[Stateful]:
    """A gateway that stores responses, before an upstream of a dialect."""
    simulator = strict_simulator()
    keys = config.pop("keys", ())
    async with served(simulator) as (url, _):
        settings = with_state(config_for(url, dialect, **config), options)
        settings = replace(settings, keys={record.name: record for record in keys})
        async with (
            gate(settings) as entrance,
            openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0, timeout=30) as sdk,
        ):
            yield Stateful(entrance, simulator, sdk)


class Reads:
    """The results of a store since then: the number of nodes with their contents, and the bytes of these."""

    def __init__(self, store: Any) -> None:
        self.nodes = self.size = self.calls = 0
        for name in ("get", "nodes", "path", "tree"):
            setattr(store, name, self._counted(getattr(store, name)))

    def _counted(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any) -> Any:
            found = await method(*args)
            nodes = [node for node in (found if isinstance(found, list) else [found]) if node is not None]
            self.calls += 1
            self.nodes += len(nodes)
            self.size += sum(node.size for node in nodes)
            return found

        return call

    def clear(self) -> None:
        """Count from here."""
        self.nodes = self.size = self.calls = 0


@contextmanager
def state_options(kind: str, folder: Path, **options: Any) -> Iterator[StateOptions]:
    """The options of an empty store: `memory`, `sqlite`, `redis` or `postgresql`. Skips without a server."""
    if kind == "redis":
        with redis_server() as server:
            yield StateOptions(kind=kind, url=server.url, timeout=30.0, **options)
    elif kind == "postgresql":
        with postgres_server() as database:
            yield StateOptions(kind=kind, url=database.url, timeout=30.0, **options)
    else:
        yield StateOptions(
            kind=kind, path=str(folder / "state.db") if kind == "sqlite" else "", timeout=30.0, **options
        )
