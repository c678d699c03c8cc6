"""A simulated upstream for each test, with the official SDKs and a plain client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from oracles.simulator import strict_simulator


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    server = TestServer(strict_simulator(slow=0.05, stall=5.0))
    async with server:
        yield server


@pytest.fixture
async def oai(server: TestServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="k", base_url=str(server.make_url("/v1")), max_retries=0) as client:
        yield client


@pytest.fixture
async def raw(server: TestServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(base_url=server.make_url("/")) as session:
        yield session


@pytest.fixture
async def ant(server: TestServer) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(api_key="k", base_url=str(server.make_url("")), max_retries=0) as client:
        yield client
