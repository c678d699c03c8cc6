"""OpenAI's form of the simulator, as the official SDK reads it."""

from __future__ import annotations

import openai
import pytest
from openai import AsyncOpenAI

from dragoman_server.simulator import SCRIPTS
from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.vendors.openai import VENDOR


async def test_models_come_in_openais_envelope(oai: AsyncOpenAI) -> None:
    assert {model.id async for model in oai.models.list()} == set(SCRIPTS)
    with pytest.raises(openai.NotFoundError):
        await oai.models.retrieve("sim-nothing")


def test_a_rejected_request_names_its_field() -> None:
    reply = VENDOR.rejection(RequestRejected("No.", "input[0]", "a_code"), "req_1")
    assert reply.status == 400
    error = {"message": "No.", "type": "invalid_request_error", "param": "input[0]", "code": "a_code"}
    assert reply.body == {"error": error}
