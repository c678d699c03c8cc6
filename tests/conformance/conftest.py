"""The vendors' SDKs in front of a served gateway. `upstream` runs a test with each dialect behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anthropic
import openai
import pytest

from conformance.served import UPSTREAMS, Served, Upstream, anthropic_sdk, openai_sdk, serving


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture(params=UPSTREAMS, ids=lambda dialect: f"over-{dialect}")
def upstream(request: pytest.FixtureRequest) -> Upstream:
    upstream: Upstream = request.param
    return upstream


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
async def claude(served: Served) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic_sdk(served.url) as client:
        yield client


@pytest.fixture
async def gpt(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai_sdk(served.url) as client:
        yield client
