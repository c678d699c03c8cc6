"""A gateway before the simulated upstream for the endpoints that are forwarded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import openai

from dragoman.dialects import Dialect
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.config.route import Route
from dragoman_server.simulator import REQUESTS, Received, make_simulator
from support.gateways import Gate, gate, served
from support.named_keys import keyed

ALIAS, MODEL = "alias", "sim-model"
"""The model's name for clients, and its name at the upstream."""


@dataclass(slots=True)
class Forwarding:
    """A gateway with its upstream, and OpenAI's client before it."""

    entrance: Gate
    requests: Any
    sdk: openai.AsyncOpenAI

    @property
    def received(self) -> Received:
        """The last request that came upstream."""
        last: Received = self.requests[-1]
        return last


@asynccontextmanager
async def forwarding(
    *records: KeyRecord, key: str = "none", dialect: Dialect = Dialect.CHAT, **server: Any
) -> AsyncIterator[Forwarding]:
    """A gateway whose route for ALIAS leads to MODEL of the simulated upstream."""
    simulator = make_simulator()
    async with served(simulator) as (url, _):
        config = keyed(f"{url}/v1", dialect, *records, **server)
        config = replace(config, routes=[Route(ALIAS, "up", MODEL), *config.routes])
        async with (
            gate(config) as entrance,
            openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key=key, max_retries=0, timeout=30) as sdk,
        ):
            yield Forwarding(entrance, simulator[REQUESTS], sdk)
