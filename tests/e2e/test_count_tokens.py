"""The counting endpoints through the vendors' clients, before the simulated upstream in each dialect (T-60)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import ClientSession

from conformance.samples import PNG
from conformance.served import Served, anthropic_sdk, openai_sdk, serving
from dragoman.dialects import COUNT_ENDPOINTS, Dialect
from dragoman.tokens.by_vocabulary import VOCABULARY, vocabulary_installed
from dragoman_server.endpoints.count_tokens import ESTIMATE
from support.gateways import CHAT, MESSAGES, config_for, gate, with_limits
from support.samples import dump, read_error

RESPONSES = Dialect.RESPONSES
ALL = list(Dialect)
OWN = VOCABULARY if vocabulary_installed() else "characters"
TOOLS: list[Any] = [
    {
        "name": "read",
        "description": "Reads a file.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    }
]
USER: list[Any] = [{"role": "user", "content": "How many tokens does this sentence have?"}]
FUNCTIONS: list[Any] = [
    {
        "type": "function",
        "name": "read",
        "description": "Reads.",
        "parameters": TOOLS[0]["input_schema"],
        "strict": False,
    }
]
FIXTURES = Path(__file__).parents[1] / "fixtures"


def asked_upstream(there: Served, upstream: Dialect) -> Any:
    """Return what the upstream was asked: its endpoint's fields only, or nothing where there is no endpoint."""
    if upstream is CHAT:
        assert not there.requests
        return None
    request, endpoint = there.requests[-1], COUNT_ENDPOINTS[upstream]
    assert request.path == f"/{upstream.facts.version}/{endpoint.path.replace('{model}', 'sim-text')}"
    body = dict(request.body.get("generateContentRequest", request.body))
    assert body["model"] in ("sim-text", "models/sim-text")
    assert (endpoint.fields | {"model"}).issuperset(body)
    return body


@pytest.mark.parametrize("upstream", ALL)
@pytest.mark.parametrize("beta", [False, True])
async def test_T60_messages_clients_get_a_count_of_every_upstream(upstream: Dialect, beta: bool) -> None:
    async with serving() as there, anthropic_sdk(there.url) as sdk:
        counts = []
        for tools in (TOOLS, []):
            asking = sdk.beta.messages if beta else sdk.messages
            reply: Any = await asking.with_raw_response.count_tokens(
                model=f"{upstream}/sim-text", system="Be exact.", messages=USER, tools=tools
            )
            counts.append((await reply.parse()).input_tokens)
            assert reply.headers.get(ESTIMATE) == (OWN if upstream is CHAT else None)
            asked_upstream(there, upstream)
        assert counts[0] > counts[1] > 5


@pytest.mark.parametrize("upstream", ALL)
async def test_T60_responses_clients_get_a_count_of_every_upstream(upstream: Dialect) -> None:
    async with serving() as there, openai_sdk(there.url) as sdk:
        counts = []
        for tools in (FUNCTIONS, []):
            reply: Any = await sdk.responses.input_tokens.with_raw_response.count(
                model=f"{upstream}/sim-text", instructions="Be exact.", input="How many?", tools=tools
            )
            counted = reply.parse()
            assert counted.object == "response.input_tokens"
            counts.append(counted.input_tokens)
            assert reply.headers.get(ESTIMATE) == (OWN if upstream is CHAT else None)
            asked_upstream(there, upstream)
        assert counts[0] > counts[1] > 3


@pytest.mark.parametrize("upstream", ALL)
async def test_an_image_and_a_pdf_are_counted(upstream: Dialect) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc="}}
    async with serving() as there, anthropic_sdk(there.url) as sdk:
        counts = []
        for content in ([], [image], [image, pdf]):
            messages: Any = [{"role": "user", "content": [*content, {"type": "text", "text": "What is it?"}]}]
            counted = await sdk.messages.count_tokens(model=f"{upstream}/sim-text", messages=messages)
            counts.append(counted.input_tokens)
        assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("upstream", ALL)
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_recorded_counts_of_claude_code_are_answered(upstream: Dialect, number: int) -> None:
    """With `?beta=true`, its headers, `tools: []`, and no `max_tokens`."""
    recorded = json.loads((FIXTURES / f"claude-code_count-tokens_{number}.json").read_text("utf-8"))["request"]
    body = {**recorded["body"], "model": f"{upstream}/sim-text"}
    headers = {name: value for name, value in recorded["headers"].items() if name.lower() != "connection"}
    url = f"{recorded['path']}?{recorded['query']}"
    async with serving() as there, ClientSession(there.url) as session:
        async with session.post(url, json=body, headers=headers) as reply:
            assert reply.status == 200
            assert (await reply.json())["input_tokens"] > 0
        sent = asked_upstream(there, upstream)
        assert sent is None or "max_tokens" not in sent
        if upstream is MESSAGES:
            assert there.requests[-1].query == {"beta": "true"}


async def test_what_is_sent_is_counted_and_what_is_lost_is_reported() -> None:
    async with serving() as there, anthropic_sdk(there.url) as sdk:
        marked: Any = [{"type": "text", "text": "Be exact.", "cache_control": {"type": "ephemeral"}}]
        hosted: Any = {"type": "web_search_20250305", "name": "web_search"}
        arguments: Any = {"model": "chat/sim-text", "system": marked, "messages": USER, "tools": [hosted]}
        reply = await sdk.messages.with_raw_response.count_tokens(**arguments)
        assert "hosted_tool=1" in reply.headers["x-dragoman-loss"]
        with pytest.raises(anthropic.BadRequestError) as refused:
            await sdk.messages.count_tokens(**arguments, extra_headers={"x-dragoman-on-loss": "reject"})
        assert "tools[0]" in str(refused.value)


# --- errors -----------------------------------------------------------------------------------------------------------


async def test_errors_come_in_the_clients_envelope() -> None:
    async with serving() as there, anthropic_sdk(there.url) as claude, openai_sdk(there.url) as gpt:
        no_one: list[Any] = [{"role": "nobody", "content": "x"}]
        with pytest.raises(anthropic.BadRequestError) as bad:
            await claude.messages.count_tokens(model="chat/sim-text", messages=no_one)
        assert "messages[0].role" in str(bad.value)
        with pytest.raises(openai.BadRequestError) as missing:
            await gpt.responses.input_tokens.count(input="x")
        assert missing.value.param == "model"


@pytest.mark.parametrize(
    ("path", "client"), [("/v1/messages/count_tokens", MESSAGES), ("/v1/responses/input_tokens", RESPONSES)]
)
async def test_keys_models_and_limits_are_as_for_every_request(path: str, client: Dialect) -> None:
    config = config_for("http://127.0.0.1:9", CHAT, keys=("secret",))
    async with gate(with_limits(config, request_body=1000)) as entrance:
        body = dump({"model": "m", "messages": USER, "input": "x"})
        key = {"x-api-key": "secret"}
        for headers, data, status, word in (
            ({}, body, 401, "key"),
            (key, b"{", 400, "JSON"),
            (key, b"[]", 400, "object"),
            (key, b'{"messages": []}', 400, "model"),
            (key, dump({"model": "m", "input": "x" * 2000}), 413, "request_body"),
        ):
            async with entrance.session.post(entrance.url + path, data=data, headers=headers) as response:
                assert response.status == status
                assert word in read_error(client, await response.read()).message
                assert response.headers["x-dragoman-request-id"].startswith("req_")
        async with entrance.session.post(entrance.url + path, data=body, headers=key) as response:
            assert response.status == 200
        await entrance.gateway.stop(0)
        async with entrance.session.post(entrance.url + path, data=body, headers=key) as response:
            assert response.status == (529 if client is MESSAGES else 503)
