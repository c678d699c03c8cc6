"""The simulated upstream counts for Responses as well, and refuses what the real endpoint does."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientSession

from dragoman_server.workers.serve import listening
from oracles.simulator import strict_simulator


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "m", "input": "How many?", "instructions": "Be exact.", "tools": []}, 200, None),
        ({"input": [{"role": "user", "content": "How many?"}]}, 200, None),
        ({}, 200, None),
        ({"input": "x", "stream": True}, 400, "stream"),
        ({"input": "x", "max_output_tokens": 16}, 400, "max_output_tokens"),
        ({"input": [{"role": "nobody", "content": "x"}]}, 400, "input[0].role"),
        ([], 400, None),
    ],
)
async def test_responses_counts_what_the_real_endpoint_takes(body: Any, status: int, param: str | None) -> None:
    async with (
        listening(strict_simulator(), "127.0.0.1", 0) as url,
        ClientSession(url) as session,
        session.post("/v1/responses/input_tokens", json=body) as reply,
    ):
        expected = await reply.json()
        assert reply.status == status, expected
    if status == 200:
        assert expected["object"] == "response.input_tokens"
        assert expected["input_tokens"] > 0
    else:
        assert expected["error"]["param"] == param
