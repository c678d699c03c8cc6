"""Anthropic's form of the simulator, as the official SDK reads it."""

from __future__ import annotations

import anthropic
import pytest
from anthropic import AsyncAnthropic

from dragoman_server.simulator import SCRIPTS
from dragoman_server.simulator.vendors.anthropic import VENDOR
from support.simulated import USER


async def test_models_come_in_anthropics_envelope(ant: AsyncAnthropic) -> None:
    assert {model.id async for model in ant.models.list()} == set(SCRIPTS)
    assert (await ant.models.retrieve("sim-text")).lifecycle == "active"


async def test_an_error_that_clients_must_not_retry(ant: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.RateLimitError, match="monthly spend limit") as caught:
        await ant.messages.create(model="sim-error-429-quota", max_tokens=9, messages=USER)
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert "retry-after" not in caught.value.response.headers


def test_limits_are_reset_after_a_minute() -> None:
    headers = VENDOR.reply_headers("req_1", 1_790_000_000.5)
    assert headers["request-id"] == "req_1"
    assert headers["anthropic-ratelimit-tokens-remaining"] == "479999"
    assert headers["anthropic-ratelimit-tokens-reset"] == "2026-09-21T14:14:20Z"
