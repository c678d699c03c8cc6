"""The simulator's list of models."""

from __future__ import annotations

import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from dragoman_server.simulator import SCRIPTS


async def test_models_come_in_both_envelopes(oai: AsyncOpenAI, ant: AsyncAnthropic) -> None:
    assert {model.id async for model in oai.models.list()} == set(SCRIPTS)
    assert {model.id async for model in ant.models.list()} == set(SCRIPTS)
    assert (await ant.models.retrieve("sim-text")).lifecycle == "active"
    with pytest.raises(openai.NotFoundError):
        await oai.models.retrieve("sim-nothing")
