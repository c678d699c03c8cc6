"""Google's form of the simulator, as its own SDK reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from google import genai
from google.genai import errors, types

from dragoman_server.simulator.vendors.gemini import VENDOR
from support.simulated import post

# The SDK's session is a subclass of aiohttp's.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

HI: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Hi"}]}]


@pytest.fixture
async def models(server: TestServer) -> AsyncIterator[Any]:
    client = genai.Client(
        api_key="k", http_options=types.HttpOptions(base_url=str(server.make_url("/")), api_version="v1beta")
    )
    yield client.aio.models
    await client.aio.aclose()


async def test_tokens_are_counted(models: Any, raw: aiohttp.ClientSession) -> None:
    counted = await models.count_tokens(model="sim-text", contents=HI)
    assert counted.total_tokens > 1
    body = {"generateContentRequest": {"model": "models/sim-text", "contents": HI}}
    assert await post(raw, "/v1beta/models/sim-text:countTokens", body) == (200, {"totalTokens": counted.total_tokens})


async def test_models_come_in_pages(models: Any, raw: aiohttp.ClientSession) -> None:
    pager = await models.list(config={"page_size": 7})
    names = [model.name async for model in pager]
    assert len(names) == len(set(names)) > 20
    assert "models/sim-text" in names
    assert (await models.get(model="sim-text")).input_token_limit == 1_048_576
    async with raw.get("/v1beta/models/none") as response:
        assert response.status == 404
        assert (await response.json())["error"]["status"] == "NOT_FOUND"


@pytest.mark.turns
@pytest.mark.parametrize(
    ("model", "code", "status", "kinds"),
    [
        ("sim-error-429", 429, "RESOURCE_EXHAUSTED", ["RetryInfo"]),
        ("sim-error-429-quota", 429, "RESOURCE_EXHAUSTED", ["QuotaFailure"]),
        ("sim-error-400-context", 400, "INVALID_ARGUMENT", []),
        ("sim-error-503", 503, "UNAVAILABLE", ["RetryInfo"]),
    ],
)
async def test_errors_state_in_details_when_to_retry(
    models: Any, model: str, code: int, status: str, kinds: list[str]
) -> None:
    with pytest.raises(errors.APIError) as caught:
        await models.generate_content(model=model, contents=HI)
    assert (caught.value.code, caught.value.status) == (code, status)
    found = caught.value.details["error"].get("details", [])
    assert [each["@type"].rpartition(".")[2] for each in found] == kinds
    assert "retry-after" not in caught.value.response.headers


def test_names_in_snake_case_are_taken_but_in_the_clients_own_json() -> None:
    body = {"system_instruction": {}, "tools": [{"function_declarations": [{"parameters": {"a_b": 1}}]}]}
    assert VENDOR.canonical(body) == {
        "systemInstruction": {},
        "tools": [{"functionDeclarations": [{"parameters": {"a_b": 1}}]}],
    }
